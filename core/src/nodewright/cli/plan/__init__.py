"""What one loop would do, for people and for programs."""
