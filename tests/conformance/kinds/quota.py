"""Kind ``quota``: as ``runonce``, about the limits of the cluster and of its groups."""

from runonce.compare import check

__all__ = ["check"]
