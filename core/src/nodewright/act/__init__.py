"""All writes to the world."""
