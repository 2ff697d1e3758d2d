"""The fake provider."""
