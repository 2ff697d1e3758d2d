"""What a former engine left on nodes, and its removal at start (behaviour/down.md A1)."""

from collections.abc import Iterator
from typing import NamedTuple

from nodewright.actuation.ports import ClusterWrites, Event
from nodewright.actuation.removals import tell
from nodewright.actuation.removals.marks import NodeEdit, hard_untainted, has_taint, soft_untainted
from nodewright.clusterstate.state import ClusterState
from nodewright.model.errors import KubeApiError
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.unneeded import tainted_at


class StaleTaints(NamedTuple):
    """Names of nodes with a taint that nobody stands by any more, and of those whose machine is going all the same."""

    hard: tuple[str, ...] = ()
    soft: tuple[str, ...] = ()
    going: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset((*self.hard, *self.soft, *self.going))


def find_leftovers(state: ClusterState, settings: Settings, among: frozenset[str] | None) -> StaleTaints:
    """Hard taints on nodes of groups, and where soft taints are switched off, those on any node.

    A machine that is being deleted keeps its taint, unless all is to be as in CA; so does one of a group that a former
    engine may still be writing to. ``among``: no other nodes.
    """
    going = frozenset(name for group in state.groups.values() for name in group.readiness.deleted)
    found: dict[str, list[str]] = {"hard": [], "soft": [], "going": []}
    for _, node in state.observation.snapshot.nodes():
        if (among is not None and node.name not in among) or node.name in state.observation.removing:
            continue
        if has_taint(node, TO_BE_DELETED_TAINT) and node.name in state.group_of_node:
            is_held = state.group_of_node[node.name] in state.memory.writes_in_flight
            is_going = is_held or (node.name in going and not settings.is_ca)
            found["going" if is_going else "hard"].append(node.name)
        if not settings.scale_down.max_bulk_soft_taint_count and _is_stale(node, state.now, settings):
            found["soft"].append(node.name)
    return StaleTaints(**{kind: tuple(names) for kind, names in found.items()})


def clean_up(cluster: ClusterWrites, leftovers: StaleTaints, settings: Settings) -> Iterator[Event]:
    """Take the taints off; what cannot be reached now stays a leftover."""
    uncordon, whoever = settings.drain.cordon_node_before_terminating, settings.is_ca

    def untaint(node: Node) -> Node:
        return hard_untainted(node, uncordon=uncordon, whoever=whoever)

    edits: list[tuple[str, str, NodeEdit]] = [(name, TO_BE_DELETED_TAINT, untaint) for name in leftovers.hard]
    edits += [(name, DELETION_CANDIDATE_TAINT, soft_untainted) for name in leftovers.soft]
    for name, key, edit in edits:
        try:
            cluster.edit_node(name, edit)
        except KubeApiError:
            continue
        yield tell.cleaned(name, key)


def _is_stale(node: Node, now: float, settings: Settings) -> bool:
    """Has it a soft taint that says nothing any more? A young one is read as the time since when it is unneeded."""
    if not has_taint(node, DELETION_CANDIDATE_TAINT):
        return False
    since = tainted_at(node, DELETION_CANDIDATE_TAINT)
    return since is None or since + settings.scale_down.node_deletion_candidate_ttl < now
