"""A real cluster: its API server read by list and watch, and written to."""
