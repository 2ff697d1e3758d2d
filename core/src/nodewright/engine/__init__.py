"""The order of phases, and the ports through which the world is met."""
