"""What touches the world: providers, simulated clusters, reports."""
