"""The page of the running daemon, for people: what it does now, why, and what happened in the last hours."""
