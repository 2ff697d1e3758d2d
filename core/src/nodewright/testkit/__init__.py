"""PUBLIC: test helpers for plugin authors and simulations."""

from nodewright.adapters.clocks import VirtualClock as FakeClock
from nodewright.testkit.builders import (
    build_group,
    build_node,
    build_owner,
    build_pod,
    build_resources,
    build_taint,
    build_template,
)

__all__ = [
    "FakeClock",
    "build_group",
    "build_node",
    "build_owner",
    "build_pod",
    "build_resources",
    "build_taint",
    "build_template",
]
