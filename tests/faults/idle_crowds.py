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
# What the list shows, and the pods of a node that are read right before its machine is deleted.
DIRECT = ("no_pods", "half_of_the_pods", "empty_nodes", "stale")


def idle_crowds(nodes: int = NODES) -> Iterator[tuple[str, Schedule]]:
    """Yield what the list of the cluster shows, and the world. What follows a "+" is shown right before a deletion, too."""
    yield from ((shows, _world(nodes, shows)) for shows in SHOWS)
    yield from ((f"+{shows}", _world(nodes, shows, direct=True)) for shows in DIRECT)


def busy_crowd(nodes: int, shows: str, restart: str = "") -> Schedule:
    """Return a world in which pods run on every node, of which an API server knows nothing for ten minutes.

    ``restart``: with what state the engine starts anew meanwhile (empty: it does not).
    """
    world = dict(_world(nodes, ""))
    world["deployments"] = [{**world["deployments"][0], "replicas": nodes}]
    wrong = {"do": "misread", "at": MINUTE, "for": 10 * MINUTE, "shows": shows, "direct": True}
    again = {"do": "restart", "at": 2 * MINUTE, "down": 5, "saved": restart}
    world["timeline"] = [wrong, again] if restart else [wrong]
    return world


def _world(nodes: int, shows: str, *, direct: bool = False) -> Schedule:
    pod: dict[str, Any] = {"cpu": "3", "memory": "64Mi"}
    group = {"name": "a", "cpu": 4, "size": nodes, "max_size": nodes, "zone": "north", "instance_type": "small"}
    wrong = {"do": "misread", "at": WRONG_FROM, "for": WRONG_FOR, "shows": shows, "direct": direct}
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
