"""Machines that are late: until when each may register and become ready (docs/adr/0011-late-machines.md)."""

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.policy import Policy

# How many provision times a machine gets from when it was first seen. Arrivals extend a deadline to twice the time, and
# an existing machine counts as such an arrival. It gets twice that if other machines of its group have registered since.
_ALONE, _AMONG_OTHERS = 2, 4


def registration_deadlines(group: GroupState, state: ClusterState, policy: Policy) -> dict[str, float]:
    """Return when each machine that is long unregistered must be a node (epoch seconds), by its id; then it is deleted.

    The provision time only decides when its pods go elsewhere. Rules ca and seed leave a machine no more time than
    that, and neither does a machine that takes a place that is needed.
    """
    if not group.readiness.long_unregistered:
        return {}
    ordinary = state.observation.groups[group.ref].options.max_node_provision_seconds
    is_patient = policy.waits_for_late_machines and not _takes_a_wanted_place(group, state)
    joined = last_registered(group, state) if is_patient else 0.0
    ends = dict[str, float]()
    for instance_id in group.readiness.long_unregistered:
        since = state.memory.unregistered_since.get((group.ref, instance_id), 0.0)
        times = (_AMONG_OTHERS if joined > since else _ALONE) if is_patient else 1
        ends[instance_id] = since + times * ordinary
    return ends


def startup_deadlines(group: GroupState, state: ClusterState) -> dict[str, float]:
    """Return when each node that never became ready must be ready (epoch seconds), by its name; then it is deleted.

    It gets its group's startup time from its registration, multiplied as for the registration of a machine.
    """
    if not group.readiness.never_ready:
        return {}
    snapshot, ordinary = state.observation.snapshot, group.seen.options.max_node_startup_seconds
    is_patient = not _takes_a_wanted_place(group, state)
    started = max((snapshot.node(snapshot.row(name)).created for name in group.readiness.ready), default=0.0)
    ends = dict[str, float]()
    for name in group.readiness.never_ready:
        created = snapshot.node(snapshot.row(name)).created
        times = (_AMONG_OTHERS if started > created else _ALONE) if is_patient else 1
        ends[name] = created + times * ordinary
    return ends


def _takes_a_wanted_place(group: GroupState, state: ClusterState) -> bool:
    """Return whether pods are pending and the group is full, though it could be asked again."""
    is_full = (group.seen.target or 0) >= group.seen.group.max_size
    return is_full and bool(state.observation.pending) and not is_active(group.backoff, state.now)


def last_registered(group: GroupState, state: ClusterState) -> float:
    """Return when the youngest node of the group registered (epoch seconds; 0: unknown)."""
    members = state.memory.members
    nodes = members.nodes.get(group.ref, ()) if members is not None else ()
    return max((node.created for node in nodes), default=0.0)
