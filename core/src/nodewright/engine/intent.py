"""Durable intent: each cloud write is saved before it is made, so that a process that starts after a crash knows of it.

The gate allows a write only while the saved state covers it (docs/adr/0025-a-short-lease.md).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import Memory, WriteInFlight
from nodewright.clusterstate.requests import opened
from nodewright.clusterstate.reservations import open_reservations
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.ports import StateStore
from nodewright.model.action import (
    Action,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    IncreaseSize,
)
from nodewright.model.clock import Clock
from nodewright.model.group import GroupOptions, GroupRef, Machine
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import ProviderSettings, Settings
from nodewright.model.write_fence import WriteFence

# Seconds after a write was saved within which its call may start.
START_SECONDS = 15.0


def with_intent(memory: Memory, state: ClusterState, actions: tuple[Action, ...]) -> Memory:
    """Return the memory with every planned increase as a scale-up request that starts now, and with its new target.

    After a crash the next process cannot know whether the call was made. If it was not, the next fold removes the request,
    because the cloud owes nothing for it; if it was, its deadline stays. While the group cannot be read the call counts as
    made, so that its machines are not bought twice.
    """
    asked = [(action, state.now) for action in actions]
    known = {ref: group.seen for ref, group in state.groups.items()}
    reservations = open_reservations(memory.provisioning.reservations, asked, memory.last_known, known)
    requests, last_known = dict(memory.requests), dict(memory.last_known)
    for action in actions:
        group = state.groups.get(action.group)
        if isinstance(action, IncreaseSize):
            # A group that is created for this increase is read for the first time in the next loop.
            options = group.seen.options if group is not None else GroupOptions()
            patience = options.max_node_provision_seconds
            more, key = action.target - action.expected_target, action.request.key if action.request is not None else ""
            request = opened(more, state.now, patience, reservation=key)
            request = changed(request, hedged=action.hedged, hedge_for=action.hedge_for)
            requests[action.group] = (*requests.get(action.group, ()), request)
            if action.group in last_known:
                last_known[action.group] = replace(last_known[action.group], target=action.target)
        elif isinstance(action, DecreaseTargetSize) and action.group in requests:
            # After a crash the next process does not know that our own write lowered the target, and not the cloud.
            requests[action.group] = tuple(
                changed(request, accepted=request.accepted and not request.hedged) for request in requests[action.group]
            )
    provisioning = replace(memory.provisioning, reservations=reservations)
    return replace(memory, requests=requests, last_known=last_known, provisioning=provisioning)


def last_write(memory: Memory, provider: str, now: float) -> float:
    """Return when the process that saved the memory may last have written to a provider (epoch seconds; -inf: never).

    A write that may be under way counts as made now, any other from the start of its call. If nothing was saved, nobody
    knows: it may have been now.
    """
    if memory == Memory(named=memory.named):
        return now
    deleted = (memory.deletions, memory.empty_deletions, memory.deletion_tried)
    times = [
        *(min(write.until, now) for ref, write in memory.writes_in_flight.items() if ref.provider == provider),
        *(request.started for ref, held in memory.requests.items() if ref.provider == provider for request in held),
        *(at for ref, at in memory.withdrawn_at.items() if ref.provider == provider),
        *(at for held in deleted for (ref, _), at in held.items() if ref.provider == provider),
    ]
    return min(max(times, default=-math.inf), now)


def writes_in_flight(
    actions: Iterable[Action], now: float, seconds: Mapping[GroupRef, float]
) -> dict[GroupRef, WriteInFlight]:
    """Return what is written to each group by all its actions together, over ``seconds`` after ``now``."""
    writes: dict[GroupRef, WriteInFlight] = {}
    for action in actions:
        lasts = seconds[action.group]
        before = writes.get(action.group, WriteInFlight(until=now, seconds=lasts))
        target, ids = before.target, before.instance_ids
        match action:
            case IncreaseSize() | DecreaseTargetSize():
                target = action.target
            case DeleteInstances():
                ids = (*ids, *action.instance_ids)
                target = target - len(action.instance_ids) if target is not None else None
            case DeleteNodeGroup():
                target = -1
        writes[action.group] = WriteInFlight(until=now + lasts, seconds=lasts, target=target, instance_ids=ids)
    return writes


def with_removals(memory: Memory, removals: Iterable[NodeRemoval]) -> Memory:
    """Return the memory with nodes that are being removed, and since when each was unneeded.

    A removal does not survive its process. The next process then need not wait for the unneeded time again.
    """
    since = {removal.node: removal.unneeded_since for removal in removals if removal.unneeded_since}
    if not since:
        return memory
    held = memory.scale_down
    return replace(memory, scale_down=replace(held, unneeded_since={**held.unneeded_since, **since}))


def machines_of(removals: Iterable[NodeRemoval]) -> frozenset[Machine]:
    """Return the machines for which deletion budgets are charged."""
    return frozenset((removal.group, removal.instance_id) for removal in removals)


def without_charge(memory: Memory, free: frozenset[Machine]) -> Memory:
    """Return the memory without the charges of deletion budgets for machines that were not deleted after all."""
    if free.isdisjoint(memory.deletions) and free.isdisjoint(memory.empty_deletions):
        return memory
    return replace(
        memory,
        deletions={machine: at for machine, at in memory.deletions.items() if machine not in free},
        empty_deletions={machine: at for machine, at in memory.empty_deletions.items() if machine not in free},
    )


class WriteAheadLog:
    """Saves each write to a cloud before it is made, and remembers until when a saved write may be under way.

    A group is covered for as long as a call to its cloud may take, and ``START_SECONDS`` more. A write that starts
    later than that is saved again.
    """

    def __init__(self, store: StateStore, gate: WriteFence, clock: Clock) -> None:
        self._store, self._gate, self._clock = store, gate, clock
        self._saved = Memory()
        # Writes of former leaders that may still be under way.
        self._inherited: Mapping[GroupRef, WriteInFlight] = {}

    def save(self, memory: Memory, actions: Iterable[Action], settings: Settings) -> None:
        """Save ``memory``, which has the open writes of former leaders, and that these actions are about to be made."""
        self._inherited = memory.writes_in_flight
        self._save(memory, actions, settings)

    def _save(self, memory: Memory, actions: Iterable[Action], settings: Settings) -> None:
        actions, began, now = tuple(actions), self._gate.now(), self._clock.now()
        seconds = {action.group: _seconds(action.group, settings) for action in actions}
        writes = writes_in_flight(actions, now, seconds)
        self._saved = replace(memory, writes_in_flight={**memory.writes_in_flight, **writes})
        self._store.save_if_changed(self._saved)
        for ref, lasts in seconds.items():
            self._gate.cover([ref], began + lasts)

    def cover(self, action: Action, settings: Settings, soon: Iterable[str] = ()) -> None:
        """Save that this action is about to be made, unless the saved state covers it. Raise NodewrightError if that fails.

        ``soon`` are machines that may be deleted next: they are saved too, so that each does not need its own save.
        """
        needed = _seconds(action.group, settings) - START_SECONDS + 1.0
        if self._gate.seconds_covered(action.group) >= needed and self._names(action):
            return
        if isinstance(action, DeleteInstances):
            action = changed(action, instance_ids=tuple(dict.fromkeys((*action.instance_ids, *soon))))
        self._save(self._saved, [action], settings)

    def _names(self, action: Action) -> bool:
        """Return whether the saved state names the machines that the action deletes."""
        saved = self._saved.writes_in_flight.get(action.group)
        if not isinstance(action, DeleteInstances) or saved is None:
            return saved is not None
        return set(action.instance_ids) <= set(saved.instance_ids)

    def end(self) -> None:
        """Save that no write of this process is under way: the next leader need not wait. Raise NodewrightError if that fails."""
        if self._saved.writes_in_flight != self._inherited:
            self._store.save_if_changed(replace(self._saved, writes_in_flight=self._inherited))


def _seconds(group: GroupRef, settings: Settings) -> float:
    provider = settings.providers.get(group.provider, ProviderSettings())
    return provider.call_timeout + START_SECONDS
