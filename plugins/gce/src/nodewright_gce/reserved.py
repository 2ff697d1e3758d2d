"""What kernel, file system and kubelet reserve of a machine, by the rules that CA's authors measured."""

from collections.abc import Mapping
from math import ceil, floor

import msgspec

from nodewright.spec import Quantity

MIB, GIB = 2**20, 2**30
SSD_BYTES = 375 * GIB
COS, UBUNTU = "cos", "ubuntu"
WINDOWS = frozenset(("windows_ltsc", "windows_sac"))
ARM = "arm64"
_DEFAULT_MEMORY = 100 * MIB
_DEFAULT_RATIO = 0.1
# KiB that a file system over this many local SSDs uses, as measured by CA's authors.
_SSD_OVERHEAD: Mapping[str, Mapping[int, int]] = {
    COS: {
        1: 7289472,
        2: 13725224,
        3: 20031312,
        4: 26332924,
        5: 32634536,
        6: 38946604,
        7: 45254008,
        8: 51556096,
        16: 52837800,
        24: 78686620,
    },
    UBUNTU: {
        1: 7219840,
        2: 13651496,
        3: 19953488,
        4: 26255100,
        5: 32556712,
        6: 38860588,
        7: 45163896,
        8: 51465984,
        16: 52747688,
        24: 78601704,
    },
}


class System(msgspec.Struct, frozen=True, kw_only=True):
    """The operating system and architecture of the machine."""

    os: str = "linux"
    distribution: str = COS
    arch: str = "amd64"


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds below which the kubelet evicts pods: bytes of memory, share of the storage."""

    memory: int = _DEFAULT_MEMORY
    storage: float = _DEFAULT_RATIO


def kernel_memory(physical: int, system: System) -> int:
    """Return the bytes of memory that are not part of the node's capacity."""
    if system.os != "linux":
        return 0
    kept = physical // 64 + 16 * MIB
    if physical > 3 * GIB:
        kept += 64 * MIB
    if physical <= 8 * GIB:
        kept += 8 * MIB
    if system.distribution in (COS, UBUNTU):
        kept += int(min(0.00175 * physical, 248 * MIB))
    if system.distribution == UBUNTU:
        kept += 4 * MIB
    if system.distribution == COS and system.arch == ARM:
        kept = floor(kept * 0.9971 + 0.5)
    return kept


def boot_storage(size: int, system: System) -> int:
    """Return the bytes of a boot disk that the operating system uses."""
    spare = min(100 * MIB, ceil(0.001 * size))
    if system.distribution == COS:
        kept = ceil(0.015635 * size) + ceil(4.148 * GIB) + spare
        return kept + (64 * MIB if system.arch == ARM else 0)
    if system.distribution == UBUNTU:
        return ceil(0.03083 * size) + ceil(0.171 * GIB) + spare
    if system.distribution in WINDOWS:
        return ceil(0.1133 * GIB) + ceil(0.010 * GIB)
    return 0


def ssd_storage(count: int, system: System) -> int:
    """Return the bytes that the file system uses of local SSDs. A count that was not measured is rounded up."""
    measured = count if count <= 8 else 16 if count <= 16 else 24
    return _SSD_OVERHEAD.get(system.distribution, {}).get(measured, 0) * 1024


def read_eviction(said: Mapping[str, str]) -> Eviction:
    """Return the thresholds; one that cannot be parsed has its default."""
    memory, ratio = _whole(said.get("memory.available", "")), _ratio(said.get("nodefs.available", ""))
    return Eviction(
        memory=_DEFAULT_MEMORY if memory is None else memory, storage=_DEFAULT_RATIO if ratio is None else ratio
    )


def _whole(text: str) -> int | None:
    try:
        return Quantity.of(text).value
    except ValueError:
        return None


def _ratio(text: str) -> float | None:
    """Return a percentage from 0 to 100 as a share; None: it is none."""
    if not text.endswith("%"):
        return None
    try:
        ratio = float(text[:-1]) / 100
    except ValueError:
        return None
    return ratio if 0 <= ratio <= 1 else None
