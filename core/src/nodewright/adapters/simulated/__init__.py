"""A cluster on virtual time."""
