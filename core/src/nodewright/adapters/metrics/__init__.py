"""Prometheus metrics, drawn from what each loop saw, decided and did."""

from nodewright.adapters.metrics.metrics import Metrics

__all__ = ["Metrics"]
