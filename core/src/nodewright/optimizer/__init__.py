"""Find the cheapest mix of nodes for pods for which only amounts matter: a bound, values of pods, and patterns of pods."""
