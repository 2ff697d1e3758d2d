"""Strategies for memory: all that an engine may remember, for groups and machines that a test names."""

from collections.abc import Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st

from nodewright.clusterstate.memory import (
    ArrivalHistory,
    Awaited,
    Backoff,
    Bin,
    Correction,
    Deferral,
    Flapping,
    HeldNotice,
    IncorrectSize,
    LearnedTemplate,
    Memory,
    MovedPods,
    MoveMemory,
    PlannedPods,
    ProvisioningMemory,
    Purchase,
    RemovalFailure,
    Reservation,
    ReservationPart,
    ScaleDownMemory,
    ScaleUpRequest,
    ShownNode,
    TemplateHistory,
    UnhealthyCluster,
    WriteInFlight,
)
from nodewright.model.capability import Capability
from nodewright.model.devices import Device, ResourceSliceSpec
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import (
    ErrorClass,
    FailedInstance,
    FailureScope,
    GroupOptions,
    GroupRef,
    Instance,
    InstanceState,
    NodeGroup,
    Price,
)
from nodewright.model.interruption import InterruptionKind
from nodewright.model.move import Addition, Move, MovePause, MoveStage
from nodewright.model.node import CsiAllocatable, CsiNodeDriver
from nodewright.model.provisioning_request import Retry
from nodewright.snapshot.observation import GroupSeen
from nodewright.testkit import build_node

REFS = tuple(GroupRef(provider, name) for provider in ("a", "b/c") for name in ("g", 'g"1', "größe/2"))
IDS = tuple(f"cloud:///zone-1/{name}" for name in "abcdef")
TEMPLATES = (
    build_node("template", cpu="3920m", memory="12.5Gi", labels={"zone": "z", "é": ""}),
    build_node("big", cpu="1e3", extended={"example.com/gpu": 8}),
)

K = TypeVar("K")
V = TypeVar("V")

moments = st.floats(0, 4e9)
seconds = st.floats(0, 1e6)
names = st.text(max_size=8)


def memories(refs: Sequence[GroupRef] = REFS, ids: Sequence[str] = IDS) -> st.SearchStrategy[Memory]:
    return st.fixed_dictionaries(fields_of_memory(refs, ids)).map(lambda drawn: Memory(**drawn))


def fields_of_memory(refs: Sequence[GroupRef] = REFS, ids: Sequence[str] = IDS) -> dict[str, st.SearchStrategy[Any]]:
    groups, machines = st.sampled_from(refs), st.sampled_from(ids)
    pairs = st.tuples(groups, machines)
    gaps = st.builds(IncorrectSize, registered=st.integers(0, 9), target=st.integers(0, 9), since=moments)
    return {
        "requests": _few(groups, st.lists(_requests, min_size=1, max_size=2).map(tuple)),
        "backoffs": _few(groups, _backoffs),
        "deferrals": _few(groups, _deferrals),
        "writes_in_flight": _few(groups, _writes),
        "notices": _few(groups, st.lists(_notices, min_size=1, max_size=2).map(tuple)),
        "moves": st.builds(
            MoveMemory,
            under_way=_few(names, _moves(groups)),
            pauses=_few(names, _pauses),
            returns=_few(names, _pauses),
        ),
        "templates": _few(groups, _templates),
        "learned": _few(groups, _learned),
        "planned_pods": _few(groups, st.lists(_planned_pods, min_size=1, max_size=2).map(tuple)),
        "purchases": _few(groups, st.dictionaries(names, _purchases, min_size=1, max_size=2)),
        "given_up": _few(groups, st.integers(1, 1000)),
        "withdrawn_at": _few(groups, st.floats(1, 4e9)),
        "size_gaps": _few(groups, gaps),
        "unregistered_since": _few(pairs, moments),
        "late": st.frozensets(pairs, max_size=2),
        "seen_failures": st.frozensets(pairs, max_size=2),
        "never_ran": st.frozensets(pairs, max_size=2),
        "ran": st.frozensets(pairs, max_size=2),
        "deletions": _few(pairs, moments),
        "deletion_window": seconds,
        "empty_deletions": _few(pairs, moments),
        "empty_deletion_window": seconds,
        "deletion_tried": _few(pairs, moments),
        "never_up": _few(pairs, moments),
        "unhealthy": st.none() | _unhealthy,
        "named": st.frozensets(groups, max_size=3),
        "arrivals": _few(groups, _histories),
        "node_groups": _few(machines, groups),
        "scale_down": _scale_downs(groups),
        "provisioning": _provisionings(groups, machines),
        "last_known": st.lists(groups, unique=True, max_size=2).flatmap(
            lambda found: st.fixed_dictionaries({ref: _groups(ref, machines) for ref in found})
        ),
    }


def _scale_downs(groups: st.SearchStrategy[GroupRef]) -> st.SearchStrategy[ScaleDownMemory]:
    """As much of it as is kept."""
    positive = _few(groups, st.floats(1, 4e9))
    held = st.builds(
        ScaleDownMemory,
        unneeded_since=_few(names, moments),
        grown_at=positive,
        shrunk_at=positive,
        failed_at=positive,
        quarantined_until=positive,
        flapping=_few(groups, st.builds(Flapping, turns=st.integers(1, 9), last=moments, until=moments)),
        moved_pods=_few(names, st.lists(st.builds(MovedPods, moments, st.integers(1, 99)), max_size=2).map(tuple)),
        removal_failures=_few(
            names, st.builds(RemovalFailure, times=st.integers(0, 9), at=moments, until=moments, message=names)
        ),
        removal_started_at=moments,
        marking_failed_at=moments,
    )
    return st.just(ScaleDownMemory()) | held


def _provisionings(
    groups: st.SearchStrategy[GroupRef], machines: st.SearchStrategy[str]
) -> st.SearchStrategy[ProvisioningMemory]:
    """As much of it as is kept."""
    parts = st.builds(
        lambda ref, **rest: ReservationPart(provider=ref.provider, group=ref.group_id, **rest),
        groups,
        expected_target=st.integers(0, 9),
        nodes=st.integers(1, 99),
        ahead=st.integers(0, 9),
        asked=st.booleans(),
        machines=st.lists(machines, max_size=2).map(tuple),
        deadline=moments,
        withdrawn_at=moments,
    )
    reservations = st.builds(
        Reservation,
        key=names,
        started=moments,
        deadline=moments,
        patience=moments,
        nodes=st.integers(1, 99),
        parts=st.lists(parts, max_size=2).map(tuple),
        broken=names,
    )
    return st.builds(
        ProvisioningMemory,
        retries=_few(names, st.builds(Retry, at=moments, wait=moments)),
        homeless_since=_few(names, moments),
        reservations=_few(names, reservations),
    )


def _few(keys: st.SearchStrategy[K], values: st.SearchStrategy[V]) -> st.SearchStrategy[dict[K, V]]:
    return st.dictionaries(keys, values, max_size=2)


_notices = st.builds(
    HeldNotice,
    instance_id=names,
    id=names,
    kind=st.sampled_from(InterruptionKind),
    since=moments,
    deadline=st.none() | moments,
    scope=st.none() | st.sampled_from(FailureScope),
)
_amounts = st.just("1") | st.just("15500Mi")
_corrections = st.dictionaries(names, st.builds(Correction, st.none() | _amounts, st.none() | _amounts), max_size=2)
_learned = st.builds(
    LearnedTemplate,
    machine=names,
    marks=names,
    since=moments,
    shown_at=moments,
    nodes=st.lists(st.builds(ShownNode, names, moments, _corrections), max_size=3).map(tuple),
    corrections=_corrections,
    startup_taints=st.lists(names, max_size=2).map(tuple),
    device_seconds=seconds,
    slices=st.just(()) | st.just((ResourceSliceSpec(driver="d", devices=(Device(name="0"),)),)),
    csi_drivers=st.just(()) | st.just((CsiNodeDriver(name="csi", allocatable=CsiAllocatable(count=3)),)),
    static_pods=st.dictionaries(names, _amounts, max_size=1),
    daemon_extra=st.dictionaries(names, _amounts, max_size=1),
    told=st.lists(names, max_size=2).map(tuple),
)
_templates = st.builds(
    TemplateHistory,
    traits=st.dictionaries(names, names, min_size=1, max_size=2),
    changed=st.dictionaries(names, moments, max_size=2),
)
_pauses = st.builds(MovePause, until=moments, times=st.integers(0, 9), why=names)


def _moves(groups: st.SearchStrategy[GroupRef]) -> st.SearchStrategy[Move]:
    return st.builds(
        Move,
        id=names,
        reason=st.sampled_from(DisruptionReason),
        stage=st.sampled_from(MoveStage),
        sources=st.lists(names, max_size=2).map(tuple),
        removed=st.lists(names, max_size=2).map(tuple),
        added=st.lists(st.builds(Addition, group=groups, nodes=st.integers(1, 9)), max_size=2).map(tuple),
        started=moments,
        deadline=moments,
        savings=moments,
        disruption=moments,
        score=moments,
        why=names,
    )


_planned_pods = st.builds(
    PlannedPods,
    asked=moments,
    copies=st.integers(1, 9),
    pods=st.dictionaries(names, st.integers(1, 9), min_size=1, max_size=2),
)
_purchases = st.builds(
    Purchase, asked=moments, misfits=st.lists(moments, max_size=3).map(tuple), until=moments, reason=names
)
_writes = st.builds(
    WriteInFlight,
    until=moments,
    seconds=seconds,
    target=st.integers(-1, 100),
    instance_ids=st.lists(st.sampled_from(IDS), max_size=3).map(tuple),
)
_requests = st.builds(
    ScaleUpRequest, increase=st.integers(1, 10_000), started=moments, deadline=moments, atomic=st.booleans()
)
_backoffs = st.builds(
    Backoff,
    until=moments,
    duration=seconds,
    last_failure=moments,
    error_class=st.sampled_from(ErrorClass),
    code=names,
    message=names,
    asked=moments,
    shared_from=names,
)
_unhealthy = st.builds(
    UnhealthyCluster,
    since=moments,
    unready=st.integers(1, 99),
    nodes=st.integers(1, 99),
    tolerated=st.integers(0, 99),
    at_fault=st.lists(st.sampled_from(REFS), max_size=2).map(tuple),
    resumes_at=moments,
)
_deferrals = st.builds(Deferral, until=moments, pause=seconds, times=st.integers(1, 9), code=names, message=names)
_bins = st.lists(st.builds(Bin, st.integers(0, 200), st.integers(1, 500)), max_size=2).map(tuple)
_histories = st.builds(
    ArrivalHistory,
    template=names,
    awaited=st.lists(st.builds(Awaited, moments, st.integers(1, 9)), max_size=2).map(tuple),
    scale_ups=st.lists(moments, max_size=3).map(tuple),
    recent=_bins,
    before=_bins,
    held=seconds,
    held_at=moments,
)
_failures = st.builds(
    FailedInstance,
    failure_id=names,
    instance_id=st.none() | names,
    count=st.integers(1, 9),
    error_class=st.sampled_from(ErrorClass),
    scope=st.sampled_from(FailureScope),
    code=names,
    message=names,
)


_OPTIONS = (
    GroupOptions(),
    GroupOptions(max_node_provision_seconds=61.5, max_node_startup_seconds=0.1, zero_or_max_node_scaling=True),
)
_OFF: tuple[dict[Capability, str], ...] = (
    {},
    {Capability.FAST_FAILURE_DETECTION: "größer"},
    {Capability.PRICING: "", Capability.GPU: "none"},
)


def _groups(ref: GroupRef, machines: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    instances = st.builds(Instance, id=machines, state=st.sampled_from(InstanceState))
    described = [NodeGroup(id=ref.group_id, min_size=1, max_size=99, switched_off=off) for off in _OFF]
    described.append(NodeGroup(id=ref.group_id, min_size=0, max_size=99, autoprovisioned="big"))
    return st.builds(
        GroupSeen,
        ref=st.just(ref),
        group=st.sampled_from(described),
        capabilities=st.frozensets(st.sampled_from(Capability), max_size=2),
        target=st.integers(0, 99),
        instances=st.lists(instances, max_size=3).map(tuple),
        failed=st.none() | st.lists(_failures, max_size=1).map(tuple),
        template=st.none() | st.sampled_from(TEMPLATES),
        options=st.sampled_from(_OPTIONS),
        price=st.none() | st.just(Price(per_hour=1.5, source="a list")),
    )
