"""The simulation report as one HTML page that needs nothing else."""

from nodewright.adapters.report.page import write_report

__all__ = ["write_report"]
