"""The state of the cluster: a pure fold of observations and outcomes."""
