"""Machine types: custom ones say what they are in their name."""

import re

from nodewright.spec import ProviderError
from nodewright_gce.shapes import MachineType

_CUSTOM = "custom"
_SHARED = ("micro", "small", "medium")
_NUMBER = re.compile(r"[-+]?[0-9]{1,18}")


def is_custom(name: str) -> bool:
    """``[family-]custom-<cpus>-<MiB>[-ext]``."""
    return _CUSTOM in name.split("-")[:2] and "-" in name


def family_of(name: str) -> str:
    """A custom type without a family is of the first."""
    family = name.partition("-")[0]
    return "n1" if family == _CUSTOM else family


def parse_custom(name: str) -> MachineType:
    """Raises ProviderError."""
    parts = name.split("-")
    start = parts.index(_CUSTOM)
    cpus, memory = (*parts[start + 1 : start + 3], "", "")[:2]
    if family_of(name) == "e2" and cpus in _SHARED:
        cpus = "2"
    if not _NUMBER.fullmatch(cpus) or not _NUMBER.fullmatch(memory):
        raise ProviderError(f"machine type {name} is not of the form custom-<cpus>-<MiB>", code="unknownType")
    return MachineType(name=name, guest_cpus=int(cpus), memory_mb=int(memory))
