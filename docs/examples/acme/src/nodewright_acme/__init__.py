"""Acme Cloud node groups for nodewright: the plugin guide's example."""
