"""The loop with its phases in order, and the ports of the engine."""
