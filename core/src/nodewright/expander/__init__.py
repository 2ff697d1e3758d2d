"""Chooses among scale-up options."""
