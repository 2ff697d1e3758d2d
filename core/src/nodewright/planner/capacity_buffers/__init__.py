"""CapacityBuffers, spare capacity held by virtual pods: what they stand for, where it is, and their status.

See docs/capacity-buffers.md.
"""
