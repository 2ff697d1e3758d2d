"""Compute Engine on this machine: a server of our own that speaks its REST, held to the types of Google's SDK."""

from gcecloud.cloud import GceCloud
from gcecloud.group import Mig

__all__ = ["GceCloud", "Mig"]
