"""Requests for the capacity of groups of pods: who gets what, and what is written about it (docs/provisioning-requests.md)."""
