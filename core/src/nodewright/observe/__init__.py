"""All reads of the world, once a loop."""
