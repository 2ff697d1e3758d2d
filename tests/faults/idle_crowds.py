"""Worlds of some hundred nodes of which most are idle, and a list of the cluster that is wrong when they may go."""

from collections.abc import Iterator
from typing import Any

from tests.faults.schedules import MINUTE, Schedule

NODES, PODS = 500, 40
UNNEEDED = 2 * MINUTE
# The list is wrong from shortly before the nodes may go, for so long that the first deletions fall into that time.
WRONG_FROM, WRONG_FOR = UNNEEDED - 20, 180
# So long after they may go idle nodes are gone.
GONE = 5 * MINUTE
SHOWS = ("", "no_pods", "half_of_the_pods", "stale", "stale_nodes")


def idle_crowds(nodes: int = NODES) -> Iterator[tuple[str, Schedule]]:
    """Yield what the list of the cluster shows, and the world."""
    yield from ((shows, _world(nodes, shows)) for shows in SHOWS)


def _world(nodes: int, shows: str) -> Schedule:
    pod: dict[str, Any] = {"cpu": "3", "memory": "64Mi"}
    group = {"name": "a", "cpu": 4, "size": nodes, "max_size": nodes, "zone": "north", "instance_type": "small"}
    wrong = {"do": "misread", "at": WRONG_FROM, "for": WRONG_FOR, "shows": shows}
    # Pods come while the list is wrong, so that it does not show them, or not where they are.
    more = {"do": "scale", "at": WRONG_FROM + 15, "deployment": "web", "replicas": 2 * PODS}
    return {
        "name": "idle crowd",
        "duration": 30 * MINUTE,
        "settings": {
            "max-node-provision-time": "5m",
            "scale-down-enabled": True,
            "scale-down-unneeded-time": "2m",
            "scale-down-delay-after-add": "0s",
        },
        "providers": {"fake": {"groups": [group]}},
        "deployments": [{"name": "web", "at": 1, "replicas": PODS, "pod": pod}],
        "timeline": [more, wrong] if shows else [more],
    }
