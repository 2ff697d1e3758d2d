"""Settings from flags, variables and a file: their names, values and checks."""
