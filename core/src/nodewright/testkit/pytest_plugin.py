"""Registers nodewright's test helpers with pytest."""
