"""Encodes memory as bytes, and decodes it.

Only what a new engine cannot observe is saved. Sample nodes are left out, since a new engine takes them from ready nodes.
So are the machines of groups about which nothing else is remembered.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import (
    ArrivalHistory,
    Backoff,
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
    ScaleDownMemory,
    ScaleUpRequest,
    TemplateHistory,
    UnhealthyCluster,
    WriteInFlight,
)
from nodewright.model.capability import Capability
from nodewright.model.decode import decode_quantity
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import FailedInstance, GroupOptions, GroupRef, Instance, Machine, NodeGroup
from nodewright.model.move import Move, MovePause
from nodewright.model.node import Node
from nodewright.model.provisioning_request import Retry
from nodewright.model.quantity import Quantity
from nodewright.snapshot.observation import GroupSeen

KIND = "nodewright-state"
SCHEMA = 1

Moment = float
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of the saved records; empty fields are left out."""


class SavedInstances(Record, frozen=True, kw_only=True):
    """The machines of a group whose memory refers to them, so that they still count while the group cannot be read."""

    instances: tuple[Instance, ...] = ()
    failed: tuple[FailedInstance, ...] | None = None
    template: Node | None = None


class SavedGroup(Record, GroupOptions, frozen=True, kw_only=True):
    """One node group: how it was last seen, then what is remembered of it. Times in epoch seconds.

    ``target`` is None for a group that was never seen. ``in_flight`` is set if memory refers to the group's
    machines. ``departed`` are providerIDs whose instance is gone.
    """

    provider: str
    id: str
    min_size: int = 0
    max_size: int = 0
    target: int | None = None
    capabilities: tuple[str, ...] = ()
    switched_off: dict[str, str] = {}
    autoprovisioned: str = ""
    in_flight: SavedInstances | None = None
    requests: tuple[ScaleUpRequest, ...] = ()
    backoff: Backoff | None = None
    deferral: Deferral | None = None
    given_up: Count = 0
    withdrawn_at: Moment = 0
    size_gap: IncorrectSize | None = None
    arrivals: ArrivalHistory | None = None
    unregistered: dict[str, Moment] = {}
    late: tuple[str, ...] = ()
    seen_failures: tuple[str, ...] = ()
    never_ran: tuple[str, ...] = ()
    ran: tuple[str, ...] = ()
    deletions: dict[str, Moment] = {}
    empty_deletions: dict[str, Moment] = {}
    deletion_tried: dict[str, Moment] = {}
    never_up: dict[str, Moment] = {}
    departed: tuple[str, ...] = ()
    grown_at: Moment = 0
    shrunk_at: Moment = 0
    failed_at: Moment = 0
    quarantined_until: Moment = 0
    flapping: Flapping | None = None
    write_in_flight: WriteInFlight | None = None
    purchases: dict[str, Purchase] = {}
    planned_pods: tuple[PlannedPods, ...] = ()
    notices: tuple[HeldNotice, ...] = ()
    template: TemplateHistory | None = None
    learned: LearnedTemplate | None = None


class SavedScaleDown(Record, frozen=True, kw_only=True):
    """The saved part of scale-down's memory that belongs to no group; times in epoch seconds.

    ``unneeded`` and ``setbacks`` are by node, ``moves`` by the key of the pods' controller.
    """

    unneeded: dict[str, Moment] = {}
    moves: dict[str, tuple[MovedPods, ...]] = {}
    setbacks: dict[str, RemovalFailure] = {}
    removal_started_at: Moment | None = None
    marking_failed_at: Moment | None = None


class SavedProvisioning(Record, frozen=True, kw_only=True):
    """The saved memory of requests for capacity, by their ids; times in epoch seconds."""

    retries: dict[str, Retry] = {}
    homeless: dict[str, Moment] = {}
    grants: dict[str, Reservation] = {}


class Document(Record, frozen=True, kw_only=True):
    """The whole saved state; windows in seconds, ``named`` by provider.

    ``returns``: the keys of the moves whose reason is ``preferred``. They are saved as ``replaced``, since version 0.1.0 refuses a
    state with a reason that it does not know.
    """

    kind: str = ""
    schema: int = 0
    groups: tuple[SavedGroup, ...] = ()
    deletion_window: Seconds | None = None
    empty_deletion_window: Seconds | None = None
    scale_down: SavedScaleDown | None = None
    provisioning: SavedProvisioning | None = None
    moves: dict[str, Move] = {}
    returns: tuple[str, ...] = ()
    move_pauses: dict[str, MovePause] = {}
    return_pauses: dict[str, MovePause] = {}
    unhealthy: UnhealthyCluster | None = None
    named: dict[str, tuple[str, ...]] = {}


_CAPABILITIES = {capability.value: capability for capability in Capability}


# Fields of a group's record that do not refer to its present machines.
_NO_MACHINES = {
    "backoff",
    "deferral",
    "departed",
    "deletions",
    "empty_deletions",
    "never_up",
    "ran",
    "size_gap",
    "arrivals",
    "purchases",
    "planned_pods",
    "notices",
    "template",
    "learned",
}
_NO_MACHINES |= {"grown_at", "shrunk_at", "failed_at", "quarantined_until", "flapping"}


# A record's field, and the field of memory that holds one such value for each group.
_BY_GROUP = {
    "requests": "requests",
    "backoff": "backoffs",
    "deferral": "deferrals",
    "given_up": "given_up",
    "withdrawn_at": "withdrawn_at",
    "size_gap": "size_gaps",
    "arrivals": "arrivals",
    "write_in_flight": "writes_in_flight",
    "purchases": "purchases",
    "planned_pods": "planned_pods",
    "notices": "notices",
    "template": "templates",
    "learned": "learned",
}
# The same for scale-down's memory, where both names are equal.
_BY_GROUP_OF_SCALE_DOWN = ("grown_at", "shrunk_at", "failed_at", "quarantined_until", "flapping")


class UnreadableState(Exception):
    """Saved memory that this version cannot read; the message says why."""


def encode_memory(memory: Memory) -> bytes:
    """Encode the memory; equal memories give equal bytes."""
    fields = _by_group(memory)
    saved = []
    for ref in sorted(fields):
        sketch = _sketch(memory.last_known.get(ref), in_flight=not fields[ref].keys() <= _NO_MACHINES)
        saved.append(SavedGroup(provider=ref.provider, id=ref.group_id, **sketch, **fields[ref]))
    scale_down = _scale_down(memory.scale_down)
    requests = _provisioning(memory.provisioning)
    moves = dict(sorted(memory.moves.under_way.items()))
    returns = tuple(name for name, move in moves.items() if move.reason == DisruptionReason.PREFERRED)
    document = Document(
        kind=KIND,
        schema=SCHEMA,
        groups=tuple(saved),
        deletion_window=memory.deletion_window,
        empty_deletion_window=memory.empty_deletion_window,
        scale_down=scale_down,
        provisioning=requests,
        moves=moves | {name: changed(moves[name], reason=DisruptionReason.REPLACED) for name in returns},
        returns=returns,
        move_pauses=dict(sorted(memory.moves.pauses.items())),
        return_pauses=dict(sorted(memory.moves.returns.items())),
        unhealthy=memory.unhealthy,
        named=_named(memory.named),
    )
    return _ENCODER.encode(document)


def find_groups(memory: Memory) -> frozenset[GroupRef]:
    """Return every group of which something is saved."""
    return frozenset(_by_group(memory))


def decode_memory(raw: bytes) -> Memory:
    """Decode what was saved; raise UnreadableState."""
    try:
        head = _HEAD.decode(raw)
        if head.kind != KIND or head.schema < 1:
            raise UnreadableState("it is no saved state of nodewright")
        if head.schema > SCHEMA:
            raise UnreadableState(f"a later version wrote it (schema {head.schema}, this version reads {SCHEMA})")
        found = _DECODER.decode(raw)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnreadableState(f"it is damaged: {error}") from error
    groups = {GroupRef(group.provider, group.id): group for group in found.groups}
    memory = _memory(groups, found.scale_down or SavedScaleDown())
    saved = found.provisioning or SavedProvisioning()
    requests = ProvisioningMemory(retries=saved.retries, homeless_since=saved.homeless, reservations=saved.grants)
    if found.deletion_window is not None:
        memory = replace(memory, deletion_window=found.deletion_window)
    if found.empty_deletion_window is not None:
        memory = replace(memory, empty_deletion_window=found.empty_deletion_window)
    returns = {
        name: changed(move, reason=DisruptionReason.PREFERRED)
        for name, move in found.moves.items()
        if name in found.returns
    }
    moves = MoveMemory(under_way=found.moves | returns, pauses=found.move_pauses, returns=found.return_pauses)
    named = frozenset(GroupRef(provider, name) for provider, names in found.named.items() for name in names)
    return replace(memory, provisioning=requests, moves=moves, unhealthy=found.unhealthy, named=named)


def _by_group(memory: Memory) -> dict[GroupRef, dict[str, Any]]:
    """Return the non-empty fields of each group's record; a group that was only observed has none."""
    found: dict[GroupRef, dict[str, Any]] = defaultdict(dict)
    for ref in memory.last_known:
        found[ref] = {}
    for field, held in _BY_GROUP.items():
        for ref, value in getattr(memory, held).items():
            found[ref][field] = value
    for field in _BY_GROUP_OF_SCALE_DOWN:
        for ref, value in getattr(memory.scale_down, field).items():
            found[ref][field] = value
    for field, moments in _by_machine(memory).items():
        for (ref, instance_id), moment in sorted(moments.items()):
            found[ref].setdefault(field, {})[instance_id] = moment
    _collect(found, "late", memory.late)
    _collect(found, "seen_failures", memory.seen_failures)
    _collect(found, "never_ran", memory.never_ran)
    _collect(found, "ran", memory.ran)
    _collect(found, "departed", _departed(memory))
    return found


def _by_machine(memory: Memory) -> dict[str, Mapping[Machine, float]]:
    """Return each field of a record that keeps times by machine."""
    return {
        "unregistered": memory.unregistered_since,
        "deletions": memory.deletions,
        "empty_deletions": memory.empty_deletions,
        "deletion_tried": memory.deletion_tried,
        "never_up": memory.never_up,
    }


def _collect(found: dict[GroupRef, dict[str, Any]], field: str, pairs: Iterable[tuple[GroupRef, str]]) -> None:
    for ref, name in sorted(pairs):
        found[ref][field] = (*found[ref].get(field, ()), name)


def _departed(memory: Memory) -> list[tuple[GroupRef, str]]:
    """Return nodes with a known group whose instance is gone. All others can be observed again."""
    living = {instance.id for group in memory.last_known.values() for instance in group.instances or ()}
    missing = memory.node_groups.keys() - living
    if missing:  # some providers' ids are known in lower case
        living = {instance_id.lower() for instance_id in living}
    return [(memory.node_groups[name], name) for name in missing if name.lower() not in living]


def _sketch(seen: GroupSeen | None, *, in_flight: bool) -> dict[str, Any]:
    """Return the group as it was last observed, with its machines only if memory refers to them."""
    if seen is None:
        return {}
    # As the cloud stated it: changes by schedules are computed again.
    group, options = seen.stated or (seen.group, seen.options)
    flight = SavedInstances(instances=seen.instances or (), failed=seen.failed, template=seen.template)
    return {
        "min_size": group.min_size,
        "max_size": group.max_size,
        "target": seen.target,
        "capabilities": tuple(sorted(seen.capabilities)),
        "switched_off": dict(sorted(seen.group.switched_off.items())),
        "autoprovisioned": seen.group.autoprovisioned,
        "in_flight": flight if in_flight and seen.instances is not None else None,
        **msgspec.structs.asdict(options),
    }


def _scale_down(memory: ScaleDownMemory) -> SavedScaleDown | None:
    """Return the saved part of scale-down's memory. Recheck times and places of pods are computed again instead."""
    saved = SavedScaleDown(
        unneeded=dict(sorted(memory.unneeded_since.items())),
        moves=dict(sorted(memory.moved_pods.items())),
        setbacks=dict(sorted(memory.removal_failures.items())),
        removal_started_at=memory.removal_started_at or None,
        marking_failed_at=memory.marking_failed_at or None,
    )
    return saved if saved != SavedScaleDown() else None


def _provisioning(memory: ProvisioningMemory) -> SavedProvisioning | None:
    """Return what is saved about ProvisioningRequests; None if there is nothing."""
    saved = SavedProvisioning(
        retries=dict(sorted(memory.retries.items())),
        homeless=dict(sorted(memory.homeless_since.items())),
        grants=dict(sorted(memory.reservations.items())),
    )
    return saved if saved != SavedProvisioning() else None


def _named(refs: frozenset[GroupRef]) -> dict[str, tuple[str, ...]]:
    named: dict[str, tuple[str, ...]] = {}
    for ref in sorted(refs):
        named[ref.provider] = (*named.get(ref.provider, ()), ref.group_id)
    return named


def _memory(groups: dict[GroupRef, SavedGroup], scale_down: SavedScaleDown) -> Memory:
    of_groups: dict[str, Any] = {field: _gather(groups, field) for field in _BY_GROUP_OF_SCALE_DOWN}
    by_group: dict[str, Any] = {held: _gather(groups, field) for field, held in _BY_GROUP.items()}
    return Memory(
        **by_group,
        unregistered_since={(ref, i): at for ref, group in groups.items() for i, at in group.unregistered.items()},
        late=frozenset((ref, i) for ref, group in groups.items() for i in group.late),
        seen_failures=frozenset((ref, i) for ref, group in groups.items() for i in group.seen_failures),
        never_ran=frozenset((ref, i) for ref, group in groups.items() for i in group.never_ran),
        ran=frozenset((ref, i) for ref, group in groups.items() for i in group.ran),
        deletions={(ref, i): at for ref, group in groups.items() for i, at in group.deletions.items()},
        empty_deletions={(ref, i): at for ref, group in groups.items() for i, at in group.empty_deletions.items()},
        deletion_tried={(ref, i): at for ref, group in groups.items() for i, at in group.deletion_tried.items()},
        never_up={(ref, name): at for ref, group in groups.items() for name, at in group.never_up.items()},
        node_groups={name: ref for ref, group in groups.items() for name in group.departed},
        last_known={ref: _seen(ref, group) for ref, group in groups.items() if group.target is not None},
        scale_down=ScaleDownMemory(
            **of_groups,
            unneeded_since=scale_down.unneeded,
            moved_pods=scale_down.moves,
            removal_failures=scale_down.setbacks,
            removal_started_at=scale_down.removal_started_at or 0.0,
            marking_failed_at=scale_down.marking_failed_at or 0.0,
        ),
    )


def _gather(groups: dict[GroupRef, SavedGroup], field: str) -> dict[GroupRef, Any]:
    """Return the field of every group that has it."""
    values = {ref: getattr(group, field) for ref, group in groups.items()}
    return {ref: value for ref, value in values.items() if value not in (None, 0, (), {})}


def _seen(ref: GroupRef, saved: SavedGroup) -> GroupSeen:
    """Return the group as it was observed; its instances are None if they were not saved."""
    flight = saved.in_flight
    switched_off = {_CAPABILITIES[name]: why for name, why in saved.switched_off.items() if name in _CAPABILITIES}
    return GroupSeen(
        ref=ref,
        group=NodeGroup(
            id=saved.id,
            min_size=saved.min_size,
            max_size=saved.max_size,
            switched_off=switched_off,
            autoprovisioned=saved.autoprovisioned,
        ),
        capabilities=frozenset(_CAPABILITIES[name] for name in saved.capabilities if name in _CAPABILITIES),
        target=saved.target,
        instances=flight.instances if flight is not None else None,
        failed=flight.failed if flight is not None else None,
        template=flight.template if flight is not None else None,
        options=GroupOptions(**{name: getattr(saved, name) for name in GroupOptions.__struct_fields__}),
    )


def _encode_quantity(value: object) -> str:
    if isinstance(value, Quantity):
        return str(value)
    raise TypeError(f"saved memory holds no {type(value).__name__}")


class _Head(msgspec.Struct):
    """The fields that every version must be able to read."""

    kind: str = ""
    schema: int = 0


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_quantity)
_DECODER = msgspec.json.Decoder(Document, dec_hook=decode_quantity)
_HEAD = msgspec.json.Decoder(_Head)
