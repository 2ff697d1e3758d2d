"""Groups that have all their nodes or none: they go as a whole (behaviour/down.md A10)."""

from collections.abc import Sequence

from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.reason import Unremovable, UnremovableCode


def is_atomic(state: ClusterState, ref: GroupRef) -> bool:
    return state.groups[ref].seen.options.zero_or_max_node_scaling


def count_registered(state: ClusterState, ref: GroupRef) -> int:
    """Nodes of a group with an instance behind them, without those that are starting."""
    group, snapshot = state.groups[ref], state.observation.snapshot
    there = {instance.id.lower() for instance in group.seen.instances or ()}
    readiness = group.readiness
    going = (snapshot.node(snapshot.row(name)).spec.provider_id.lower() for name in readiness.deleted)
    return len(readiness.ready) + len(readiness.unready) + len(readiness.leaving) + sum(i in there for i in going)


def whole_groups(state: ClusterState, chosen: Sequence[str]) -> tuple[list[str], dict[str, Unremovable]]:
    """The chosen nodes that may go: those of ordinary groups, then those of zero-or-max groups that are complete.

    Complete is what has the size that the group should have, or all the nodes that it does have.
    """
    going: list[str] = []
    atomic: dict[GroupRef, list[str]] = {}
    for name in chosen:
        ref = state.group_of_node[name]
        if is_atomic(state, ref):
            atomic.setdefault(ref, []).append(name)
        else:
            going.append(name)
    stay: dict[str, Unremovable] = {}
    for ref, names in atomic.items():
        target = state.groups[ref].seen.target
        if len(names) in (target, count_registered(state, ref)):
            going += names
        else:
            text = f"group {ref} goes as a whole, and only {len(names)} of its {target} nodes can"
            stay |= dict.fromkeys(names, Unremovable(code=UnremovableCode.ATOMIC_FAILED, message=text))
    return going, stay
