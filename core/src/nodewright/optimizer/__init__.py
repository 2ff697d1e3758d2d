"""Finds the cheapest mix of nodes for pods that only count: a bound, values of pods, and patterns of pods on nodes."""
