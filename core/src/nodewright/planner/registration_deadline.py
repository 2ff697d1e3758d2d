"""How long a machine may take to register, and a node to become ready (docs/adr/0011-late-machines.md)."""

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.settings import Settings

# Provision times from first sight: what arrives extends a deadline to twice at most, and a machine that is there has
# arrived that far. As long again where others of its group have joined since, so that the way in is open.
_ALONE, _AMONG_OTHERS = 2, 4


def registration_deadlines(group: GroupState, state: ClusterState, settings: Settings) -> dict[str, float]:
    """The end of the time (epoch seconds) of each machine that is long unregistered, by its id; then it is deleted.

    A provision time, learned or not, only decides when its pods go elsewhere. Rules ``ca`` and ``seed`` leave it no
    more than that, and so it is where it takes a place that is wanted.
    """
    if not group.readiness.long_unregistered:
        return {}
    ordinary = state.observation.groups[group.ref].options.max_node_provision_seconds
    is_patient = settings.policy.waits_for_late_machines and not _takes_a_wanted_place(group, state)
    joined = last_registered(group, state) if is_patient else 0.0
    ends = dict[str, float]()
    for instance_id in group.readiness.long_unregistered:
        since = state.memory.unregistered_since.get((group.ref, instance_id), 0.0)
        times = (_AMONG_OTHERS if joined > since else _ALONE) if is_patient else 1
        ends[instance_id] = since + times * ordinary
    return ends


def startup_deadlines(group: GroupState, state: ClusterState) -> dict[str, float]:
    """Return the end of the time (epoch seconds) of each node that never became ready, by its name.

    Then its machine is deleted. Its time is the startup time of its group from when it registered, as many times as a
    machine has the provision time to join.
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
    """Pods wait, and the group, which could be asked again, cannot grow."""
    is_full = (group.seen.target or 0) >= group.seen.group.max_size
    return is_full and bool(state.observation.pending) and not is_active(group.backoff, state.now)


def last_registered(group: GroupState, state: ClusterState) -> float:
    """When the youngest node of the group registered; epoch seconds, 0 if that is not known."""
    members = state.memory.members
    nodes = members.nodes.get(group.ref, ()) if members is not None else ()
    return max((node.created for node in nodes), default=0.0)
