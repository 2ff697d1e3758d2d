"""Gangs: pods that start together or not at all (docs/gangs.md)."""
