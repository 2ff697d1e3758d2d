"""Managed instance groups of Google Compute Engine as node groups of nodewright."""
