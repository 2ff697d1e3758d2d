"""PUBLIC, for plugins: what of a group is written as texts (tags, metadata), by CA's rules to the letter: its options,
and resources and taints of its nodes.
"""

import re
from collections.abc import Iterable, Mapping
from math import inf, nan

import msgspec

from nodewright.model.duration import parse_duration
from nodewright.model.group import GroupOptions
from nodewright.model.node import Taint
from nodewright.model.quantity import Quantity

_MAX_TEXT = 64
_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_NAMED_FLOATS = {"nan": nan, "inf": inf, "+inf": inf, "-inf": -inf, "infinity": inf, "-infinity": -inf}
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+\.?[0-9a-fA-F]*[pP][-+]?[0-9]+")
_DURATIONS = {
    "scaledownunneededtime": "scale_down_unneeded_seconds",
    "scaledownunreadytime": "scale_down_unready_seconds",
    "maxnodeprovisiontime": "max_node_provision_seconds",
}
_FLOATS = {
    "scaledownutilizationthreshold": "scale_down_utilization_threshold",
    "scaledowngpuutilizationthreshold": "scale_down_gpu_utilization_threshold",
}
# Every option that a text may set, and the field that holds it.
OPTION_NAMES = {**_DURATIONS, **_FLOATS, "ignoredaemonsetsutilization": "ignore_daemonsets_utilization"}

# CA looks for an effect somewhere behind a colon and then takes everything behind the first colon for it.
_HAS_EFFECT = re.compile(r":(NoSchedule|NoExecute|PreferNoSchedule)")


def overlay_options(defaults: GroupOptions, said: Mapping[str, str]) -> GroupOptions:
    """The defaults, overlaid with what is said, by CA's names; a value that cannot be read keeps the default."""
    changes: dict[str, float | bool | None] = {
        **{field: _duration(said[name]) for name, field in _DURATIONS.items() if name in said},
        **{field: _float(said[name]) for name, field in _FLOATS.items() if name in said},
        "ignore_daemonsets_utilization": _bool(said.get("ignoredaemonsetsutilization", "")),
    }
    return msgspec.structs.replace(defaults, **{name: value for name, value in changes.items() if value is not None})


def read_resources(said: Iterable[tuple[str, str]]) -> dict[str, Quantity]:
    """By name; what has no name or is no quantity is passed over."""
    resources: dict[str, Quantity] = {}
    for name, text in said:
        if name:
            try:
                resources[name] = Quantity.of(text)
            except ValueError:
                continue
    return resources


def read_taints(said: Iterable[tuple[str, str]]) -> tuple[Taint, ...]:
    """From keys and texts like ``value:NoSchedule``; a text without an effect is passed over."""
    parts = [(key, text.partition(":")) for key, text in said if _HAS_EFFECT.search(text)]
    return tuple(Taint(key=key, value=value, effect=effect) for key, (value, _, effect) in parts)


def after(prefix: str, key: str) -> str | None:
    """What stands between the first occurrence of the prefix in a key and the next; None without one."""
    parts = key.split(prefix)
    return parts[1] if len(parts) > 1 else None


def _bool(text: str) -> bool | None:
    return text in _TRUE if text in _TRUE | _FALSE else None


def _duration(text: str) -> float | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None


def _float(text: str) -> float | None:
    """Go's ParseFloat as CA's own measurements show it: underscores count, blanks do not."""
    if len(text) > _MAX_TEXT:
        return None
    if text.lower() in _NAMED_FLOATS:
        return _NAMED_FLOATS[text.lower()]
    plain = text.replace("_", "")
    if _DECIMAL.fullmatch(plain):
        return float(plain)
    return float.fromhex(plain) if _HEXADECIMAL.fullmatch(plain) else None
