"""The table of options in a plugin's README, beside the options themselves."""

import re

import msgspec

from nodewright.model.duration import format_duration
from nodewright.spec.options import Seconds


def shown_options(text: str) -> list[tuple[str, str]]:
    """Name and default of each row: ``| `name` | default | …``."""
    return re.findall(r"^\| `(\w+)` \| (\S*) ?\|", text, re.MULTILINE)


def own_options(kind: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """The same of the struct; what is empty, or has no default, is shown as nothing."""
    return [(field.name, _shown(field.default)) for field in msgspec.structs.fields(kind)]


def _shown(default: object) -> str:
    if isinstance(default, Seconds):
        return format_duration(default)
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, msgspec.Struct):
        return ""  # shown in a section of its own
    return str(default) if default and default is not msgspec.NODEFAULT else ""
