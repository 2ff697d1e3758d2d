"""Packs pending pods on template nodes."""
