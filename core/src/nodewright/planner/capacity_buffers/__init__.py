"""Buffers of spare capacity: what they stand for, where it is, and what is written about it (docs/capacity-buffers.md)."""
