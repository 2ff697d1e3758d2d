"""ProvisioningRequests, capacity for groups of pods: which request gets what, and its status.

See docs/provisioning-requests.md. ``arbitration`` is nodewright's way, ``ca`` cluster-autoscaler's.
"""
