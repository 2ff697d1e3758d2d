"""Recorded workloads as input for simulations."""
