"""Chooses among scale-up options (CA: expander)."""
