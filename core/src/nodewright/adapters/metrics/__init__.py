"""Prometheus metrics, drawn from what each loop saw, decided and did."""

from nodewright.adapters.metrics.collectors import LeaseCounts, ProviderCalls, Sources
from nodewright.adapters.metrics.metrics import Metrics
from nodewright.adapters.metrics.waits import RunningWaits

__all__ = ["LeaseCounts", "Metrics", "ProviderCalls", "RunningWaits", "Sources"]
