"""Prometheus metrics of what each loop observed, decided and did."""

from nodewright.adapters.metrics.collectors import LeaseCounts, ProviderCalls, Sources
from nodewright.adapters.metrics.metrics import Metrics
from nodewright.adapters.metrics.waits import RunningWaits

__all__ = ["LeaseCounts", "Metrics", "ProviderCalls", "RunningWaits", "Sources"]
