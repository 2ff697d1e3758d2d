"""A pure fold of observations and outcomes into the state of the cluster."""
