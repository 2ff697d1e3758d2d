"""Limits written as text: ``min:max``, ``type:min:max``, ``min:max:name`` and ``priority:seconds``."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable
from nodewright.model.settings import LimitSettings

GIB = 2**30
MAX_INT = 2**63 - 1
_NUMBER = re.compile(r"\+?[0-9]{1,19}")
_RANK = re.compile(r"(-?\d{1,10}):(\d{1,9})")


class MinMax(NamedTuple):
    """An inclusive range of amounts, neither of them negative."""

    min: int
    max: int


class NodeGroupFlag(NamedTuple):
    """One value of ``--nodes``."""

    min_size: int
    max_size: int
    name: str


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits for the whole cluster; GPUs by the value of the provider's GPU label."""

    min_cores: int = 0
    max_cores: int = MAX_INT
    min_memory_bytes: int = 0
    max_memory_bytes: int = MAX_INT
    min_gpu: dict[str, int] = {}
    max_gpu: dict[str, int] = {}


def parse_min_max(text: str) -> MinMax:
    """Return the range of a text such as ``0:100``. Raise ConfigError."""
    parts = text.split(":")
    if len(parts) != 2:
        raise ConfigError(f"'{printable(text)}' is not of the form min:max")
    return _read_range(parts[0], parts[1], text)


def parse_gpu_limits(texts: Iterable[str]) -> dict[str, MinMax]:
    """Return ranges by GPU type, from texts such as ``nvidia-tesla-k80:0:16``. Raise ConfigError."""
    limits: dict[str, MinMax] = {}
    for text in texts:
        parts = text.split(":")
        if len(parts) != 3 or not parts[0]:
            raise ConfigError(f"'{printable(text)}' is not of the form type:min:max")
        if parts[0] in limits:
            raise ConfigError(f"the GPU type {printable(parts[0])} is given twice")
        limits[parts[0]] = _read_range(parts[1], parts[2], text)
    return limits


def parse_node_group_flag(text: str) -> NodeGroupFlag:
    """Return the parts of a text such as ``1:10:my-group``; the name may contain colons. Raise ConfigError."""
    parts = text.split(":", 2)
    if len(parts) != 3 or not parts[2]:
        raise ConfigError(f"'{printable(text)}' is not of the form min:max:name")
    size = _read_range(parts[0], parts[1], text)
    return NodeGroupFlag(size.min, size.max, parts[2])


def parse_memory_limits(text: str) -> MinMax:
    """Return the range in bytes of a text such as ``0:6400``, which is in GiB. Raise ConfigError."""
    found = parse_min_max(text)
    if found.max > MAX_INT // GIB:
        raise ConfigError(f"'{printable(text)}' is more memory than can be counted; it is in GiB")
    return MinMax(found.min * GIB, found.max * GIB)


def make_resource_limits(settings: LimitSettings) -> ResourceLimits:
    """Return the limits that the settings' texts describe. Raise ConfigError."""
    cores = parse_min_max(settings.cores_total)
    memory = parse_memory_limits(settings.memory_total)
    gpu = parse_gpu_limits(settings.gpu_total)
    return ResourceLimits(
        min_cores=cores.min,
        max_cores=cores.max,
        min_memory_bytes=memory.min,
        max_memory_bytes=memory.max,
        min_gpu={kind: limit.min for kind, limit in gpu.items()},
        max_gpu={kind: limit.max for kind, limit in gpu.items()},
    )


class DrainRank(NamedTuple):
    """Pods from this priority up to the next rank; ``grace_seconds`` is the longest time that they get to terminate."""

    priority: int
    grace_seconds: int


def parse_drain_priorities(text: str) -> tuple[DrainRank, ...]:
    """Return the ranks of ``priority:seconds,priority:seconds`` in ascending order. Raise ConfigError."""
    ranks = []
    for entry in text.split(",") if text else ():
        found = _RANK.fullmatch(entry.strip())
        if found is None:
            raise ConfigError(f"'{printable(entry)}' is not of the form priority:seconds")
        ranks.append(DrainRank(int(found[1]), int(found[2])))
    priorities = [rank.priority for rank in ranks]
    twice = next((priority for priority in priorities if priorities.count(priority) > 1), None)
    if twice is not None:
        raise ConfigError(f"the priority {twice} is given twice")
    return tuple(sorted(ranks))


def _read_range(low: str, high: str, text: str) -> MinMax:
    shown = printable(text)
    for part in (low, high):
        if not _NUMBER.fullmatch(part) or int(part) > MAX_INT:
            raise ConfigError(f"'{shown}': '{printable(part)}' is not a whole number from 0 up")
    found = MinMax(int(low), int(high))
    if found.max < found.min:
        raise ConfigError(f"'{shown}': the minimum is greater than the maximum")
    return found
