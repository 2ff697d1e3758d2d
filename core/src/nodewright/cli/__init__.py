"""Reads settings, builds the objects, talks to people."""
