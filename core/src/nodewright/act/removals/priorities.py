"""The order in which the pods of a node are evicted (behaviour/down.md A14; CA's ``--drain-priority-config``)."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from nodewright.model.complaint import printable
from nodewright.model.errors import ConfigError
from nodewright.model.pod import Pod
from nodewright.model.settings import DrainSettings

_ENTRY = re.compile(r"(-?\d{1,10}):(\d{1,9})")
_HIGHEST = 2**31 - 1


class Rank(NamedTuple):
    """Pods of this priority and above, as far as the next rank; ``grace_seconds`` is the most that they get to end."""

    priority: int
    grace_seconds: int


def parse_drain_priorities(text: str) -> tuple[Rank, ...]:
    """``priority:seconds,priority:seconds`` in ascending order; raises ConfigError."""
    ranks = []
    for entry in text.split(",") if text else ():
        found = _ENTRY.fullmatch(entry.strip())
        if found is None:
            raise ConfigError(f"'{printable(entry)}' is not of the form priority:seconds")
        ranks.append(Rank(int(found[1]), int(found[2])))
    priorities = [rank.priority for rank in ranks]
    twice = next((priority for priority in priorities if priorities.count(priority) > 1), None)
    if twice is not None:
        raise ConfigError(f"the priority {twice} is given twice")
    return tuple(sorted(ranks))


def find_ranks(settings: DrainSettings) -> tuple[Rank, ...]:
    """Those in force: without a configuration one for all pods."""
    return parse_drain_priorities(settings.drain_priority_config) or (
        Rank(_HIGHEST, settings.max_graceful_termination_sec),
    )


def sort_into(ranks: tuple[Rank, ...], pods: Iterable[Pod]) -> list[tuple[Rank, list[Pod]]]:
    """Each rank that has pods with its pods, lowest first; below the lowest rank counts as of it."""
    found: dict[Rank, list[Pod]] = {}
    for pod in pods:
        priority = pod.spec.priority or 0
        own = next((rank for rank in reversed(ranks) if rank.priority <= priority), ranks[0])
        found.setdefault(own, []).append(pod)
    return sorted(found.items())
