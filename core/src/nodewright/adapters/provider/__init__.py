"""Loads provider plugins and gives them one typed face."""
