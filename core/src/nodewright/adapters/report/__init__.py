"""The simulation report as one HTML page."""
