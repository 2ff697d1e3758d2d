"""Saves what is about to be written, so that the gate lets it pass (docs/adr/0025-a-short-lease.md)."""

from collections.abc import Iterable
from dataclasses import replace

from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import Memory
from nodewright.engine.intent import writes_in_flight
from nodewright.engine.ports import StateStore
from nodewright.model.action import Action, DeleteInstances
from nodewright.model.clock import Clock
from nodewright.model.group import GroupRef
from nodewright.model.settings import ProviderSettings, Settings
from nodewright.model.write_fence import WriteFence

# A call may start so long after it was saved that it is about to.
START_SECONDS = 15.0


class Covering:
    """What was saved last, and with it the writes that may be under way until when.

    A group is covered for as long as a call to its cloud may take, and ``START_SECONDS`` more. A write that starts
    later than that is saved anew.
    """

    def __init__(self, store: StateStore, gate: WriteFence, clock: Clock) -> None:
        self._store, self._gate, self._clock = store, gate, clock
        self._saved = Memory()

    def save(self, memory: Memory, actions: Iterable[Action], settings: Settings) -> None:
        """Save memory, and that these actions are about to be made."""
        actions, began, now = tuple(actions), self._gate.now(), self._clock.now()
        seconds = {action.group: _seconds(action.group, settings) for action in actions}
        writes = writes_in_flight(actions, now, seconds)
        self._saved = replace(memory, writes_in_flight={**memory.writes_in_flight, **writes})
        self._store.save_if_changed(self._saved)
        for ref, lasts in seconds.items():
            self._gate.cover([ref], began + lasts)

    def cover(self, action: Action, settings: Settings, soon: Iterable[str] = ()) -> None:
        """Save that this action is about to be made, unless what was saved still covers it. Raises NodewrightError.

        ``soon`` are machines that may be deleted next: they are saved along, so that each does not take a save of its own.
        """
        needed = _seconds(action.group, settings) - START_SECONDS + 1.0
        if self._gate.seconds_covered(action.group) >= needed and self._names(action):
            return
        if isinstance(action, DeleteInstances):
            action = changed(action, instance_ids=tuple(dict.fromkeys((*action.instance_ids, *soon))))
        self.save(self._saved, [action], settings)

    def _names(self, action: Action) -> bool:
        """Whether what was saved names the machines that the action deletes."""
        saved = self._saved.writes_in_flight.get(action.group)
        if not isinstance(action, DeleteInstances) or saved is None:
            return saved is not None
        return set(action.instance_ids) <= set(saved.instance_ids)

    def end(self) -> None:
        """Save that no write is under way: the next leader need not wait. Raise NodewrightError if that fails."""
        if self._saved.writes_in_flight:
            self._store.save_if_changed(replace(self._saved, writes_in_flight={}))


def _seconds(group: GroupRef, settings: Settings) -> float:
    provider = settings.providers.get(group.provider, ProviderSettings())
    return provider.call_timeout + START_SECONDS
