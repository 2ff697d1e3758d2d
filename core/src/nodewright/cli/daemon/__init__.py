"""What ``nodewright run`` builds and runs, and how the other commands ask it."""
