"""A forkable, columnar picture of nodes and pods, and the Observation that carries it."""
