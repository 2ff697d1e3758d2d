"""Acme Cloud node groups for nodewright."""
