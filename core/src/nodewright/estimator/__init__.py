"""Estimates how many new nodes pending pods need (CA: estimator)."""
