"""What the engine has under way, and where that is kept."""
