"""Makes a schedule smaller while it still fails: a few seconds, where general shrinking takes minutes."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from tests.faults.schedules import Schedule

_TRIES = 200
_LISTS = (
    "faults",
    "stock_outs",
    "failures",
    "dead_boots",
    "slow_boots",
    "small_machines",
    "false_failures",
    "interference",
    "groups",
)
_COUNTS = ("replicas", "count", "nodes", "machines", "size")


def shrink(schedule: Schedule, fails: Callable[[Schedule], bool]) -> Schedule:
    """A smallest schedule that fails, as far as some hundred runs tell."""
    tries = 0
    while True:
        for smaller in _smaller(schedule):
            tries += 1
            if tries > _TRIES:
                return schedule
            if fails(smaller):
                schedule = smaller
                break
        else:
            return schedule


def _smaller(schedule: Schedule) -> Iterator[Schedule]:
    """With one thing less, or with fewer of one thing."""
    for path in _removable(schedule):
        yield _without(schedule, path)
    for path, value in _counted(schedule):
        for less in {value // 2, value - 1}:
            yield _with(schedule, path, less)


def _removable(schedule: Schedule) -> Iterator[tuple[Any, ...]]:
    cloud = schedule["providers"]["fake"]
    for key in _LISTS:
        for number in range(len(cloud.get(key, ()))):
            yield ("providers", "fake", key, number)
    for key in ("timeline", "jobs", "provisioning_requests"):
        for number in range(len(schedule.get(key, ()))):
            yield (key, number)
    for key in schedule["settings"]:
        if key not in ("max-node-provision-time", "expander", "scale-down-enabled"):
            yield ("settings", key)
    for number, group in enumerate(cloud["groups"]):
        for key in ("min_size", "switched_off", "size", "request_delay", "delete_delay"):
            if key in group:
                yield ("providers", "fake", "groups", number, key)


def _counted(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], int]]:
    """Where a count above 1 stands, and which."""
    entries = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in entries:
        if key in _COUNTS and isinstance(value, int) and value > 1:
            yield (*path, key), value
        else:
            yield from _counted(value, (*path, key))


def _without(schedule: Schedule, path: tuple[Any, ...]) -> Schedule:
    copy, last = _at(schedule, path)
    del last[path[-1]]
    return copy


def _with(schedule: Schedule, path: tuple[Any, ...], value: int) -> Schedule:
    copy, last = _at(schedule, path)
    last[path[-1]] = value
    return copy


def _at(schedule: Schedule, path: tuple[Any, ...]) -> tuple[Schedule, Any]:
    """A copy, and what in it holds the last step of the path."""
    copy: Any = deepcopy(dict(schedule))
    last = copy
    for step in path[:-1]:
        last = last[step]
    return copy, last
