"""All reads of the cluster and the clouds, once a loop."""

from nodewright.observe.observer import Observer
from nodewright.observe.ports import ClusterPicture, ClusterReader, ProviderReads

__all__ = ["ClusterPicture", "ClusterReader", "Observer", "ProviderReads"]
