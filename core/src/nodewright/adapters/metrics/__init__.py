"""Prometheus metrics, drawn from what each loop saw, decided and did."""

from nodewright.adapters.metrics.metrics import Metrics
from nodewright.adapters.metrics.surroundings import LeaseCounts, ProviderCalls, Sources

__all__ = ["LeaseCounts", "Metrics", "ProviderCalls", "Sources"]
