"""Kind ``runonce``: a whole cluster through several loops."""

from runonce.compare import check

__all__ = ["check"]
