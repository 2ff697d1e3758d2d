"""The flags of a case as settings."""

from collections.abc import Mapping
from typing import Any

from nodewright.cli.settings import load_settings
from nodewright.model.settings import Settings

# What scale-down reads, which the planner does not do yet.
_SCALE_DOWN = ("scale-down-", "skip-nodes-with-")
_SCALE_DOWN_FLAGS = frozenset(
    {
        "cordon-node-before-terminating",
        "max-drain-parallelism",
        "max-scale-down-parallelism",
        "max-graceful-termination-sec",
        "max-empty-bulk-delete",
        "min-replica-count",
        "node-deletion-delay-timeout",
        "node-deletion-batcher-interval",
        "unremovable-node-recheck-timeout",
        "ignore-daemonsets-utilization",
        "ignore-mirror-pods-utilization",
    }
)


def read_flags(flags: Mapping[str, Any]) -> Settings:
    """CA's decisions under these flags; raises ConfigError for one that is not known."""
    known = {
        name: [str(part) for part in value] if isinstance(value, list) else str(value)
        for name, value in flags.items()
        if name not in _SCALE_DOWN_FLAGS and not name.startswith(_SCALE_DOWN)
    }
    return load_settings({**known, "profile": "ca"}, {})
