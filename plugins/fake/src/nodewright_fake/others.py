"""What other writers do to groups: at a given time, and at the moment of nodewright's own writes."""

from typing import Protocol

from msgspec import structs

from nodewright_fake.machines import Group
from nodewright_fake.options import (
    Change,
    Event,
    GroupConfig,
    Interloper,
    Interrupt,
    Recreate,
    Resize,
    TakeBack,
    Vanish,
    changed,
)


class WrittenCloud(Protocol):
    """What other writers use of the cloud."""

    def has_group(self, group_id: str) -> bool: ...
    def group(self, group_id: str) -> Group: ...
    def add_group(self, config: GroupConfig) -> Group: ...
    def remove_group(self, group_id: str) -> None: ...
    def set_target(self, group_id: str, target: int) -> None: ...
    def take_away(self, group_id: str, machines: int) -> None: ...
    def take_back(self, group_id: str, machines: int) -> None: ...
    def interrupt(self, rule: Interrupt) -> tuple[str, ...]: ...


class Others:
    """Carries out the options ``interference`` and ``interlopers``. Their seconds count from ``built`` (epoch)."""

    def __init__(
        self, cloud: WrittenCloud, events: tuple[Event, ...], interlopers: tuple[Interloper, ...], built: float
    ) -> None:
        self._cloud = cloud
        self._built = built
        self._coming = sorted(events, key=lambda event: event.start)
        self._interlopers = [(rule, rule.times) for rule in interlopers]
        # Groups that will be created or listed again, and when (epoch seconds).
        self._returns: list[tuple[float, Group]] = []

    def coming(self) -> tuple[Event, ...]:
        """Return the events that have not happened yet, the earliest first."""
        return tuple(self._coming)

    def next_due(self) -> float:
        """Return when the next event happens (epoch seconds; inf: never)."""
        first = [self._built + event.start for event in self._coming[:1]]
        return min([*first, *(at for at, _ in self._returns)], default=float("inf"))

    def catch_up(self, now: float) -> None:
        """Carry out the events that are due by ``now``."""
        while self._coming and self._built + self._coming[0].start <= now:
            event = self._coming.pop(0)
            if self._cloud.has_group(event.group):  # otherwise it was removed before
                self._happen(event)
        for due in [due for due in self._returns if due[0] <= now]:
            self._returns.remove(due)
            self._return(due[1])

    def write_between(self, group_id: str, when: str, now: float) -> None:
        """Let those interlopers write whose ``when`` this is: ``before`` or ``after`` nodewright's write takes effect."""
        age = now - self._built
        for number, (rule, times) in enumerate(self._interlopers):
            if times and rule.when == when and rule.group in ("*", group_id) and rule.start <= age < rule.end:
                self._interlopers[number] = (rule, times - 1)
                self._interlope(rule, self._cloud.group(group_id))

    def _happen(self, event: Event) -> None:
        group = self._cloud.group(event.group)
        match event:
            case Recreate():
                self._cloud.remove_group(event.group)
                self._returns.append((self._built + event.start + event.gone_for, group))
            case Resize():
                self._cloud.set_target(event.group, event.size)
            case TakeBack():
                self._cloud.take_back(event.group, event.machines)
            case Interrupt():
                self._cloud.interrupt(event)
            case Vanish():
                _change(group, event)
                group.is_listed = False
                self._returns.append((self._built + event.start + event.gone_for, group))
            case Change():
                _change(group, event)

    def _return(self, group: Group) -> None:
        """List the group again, or create it again without machines."""
        if not group.is_listed:
            group.is_listed = True
            group.seen = None
            return
        made = self._cloud.add_group(structs.replace(group.config, size=0))
        made.made = group.made  # no machine gets the id of an earlier one

    def _interlope(self, rule: Interloper, group: Group) -> None:
        match rule.does:
            case "resize":
                target = max(0, min(group.target + rule.by, group.config.max_size))
                self._cloud.set_target(group.name, target)
            case "delete":
                self._cloud.take_away(group.name, rule.machines)
            case _:
                self._cloud.take_back(group.name, rule.machines)


def _change(group: Group, event: Change) -> None:
    group.config = changed(group.config, event)
    group.seen = None
