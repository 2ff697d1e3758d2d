"""Read the cluster and the clouds, once in each loop."""

from nodewright.observe.observer import Observer
from nodewright.observe.ports import ClusterObservation, ClusterReader, ProviderReads

__all__ = ["ClusterObservation", "ClusterReader", "Observer", "ProviderReads"]
