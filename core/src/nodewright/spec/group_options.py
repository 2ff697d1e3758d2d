"""PUBLIC, for plugins: read a group's options, and its nodes' resources and taints, from texts (tags, metadata).

The rules are exactly those of cluster-autoscaler (CA).
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
# Name of each option in a text → field of GroupOptions.
OPTION_NAMES = {**_DURATIONS, **_FLOATS, "ignoredaemonsetsutilization": "ignore_daemonsets_utilization"}

# CA accepts a text that contains a colon and an effect at any place. It then uses all text after the first colon as
# the effect.
_HAS_EFFECT = re.compile(r":(NoSchedule|NoExecute|PreferNoSchedule)")


def overlay_options(defaults: GroupOptions, texts: Mapping[str, str]) -> GroupOptions:
    """Return the defaults, changed by ``texts`` (CA's option name → value). An unreadable value keeps the default."""
    changes: dict[str, float | bool | None] = {
        **{field: _duration(texts[name]) for name, field in _DURATIONS.items() if name in texts},
        **{field: _float(texts[name]) for name, field in _FLOATS.items() if name in texts},
        "ignore_daemonsets_utilization": _bool(texts.get("ignoredaemonsetsutilization", "")),
    }
    return msgspec.structs.replace(defaults, **{name: value for name, value in changes.items() if value is not None})


def read_resources(texts: Iterable[tuple[str, str]]) -> dict[str, Quantity]:
    """Return resources by name from pairs of name and quantity. Skip pairs without a name or a valid quantity."""
    resources: dict[str, Quantity] = {}
    for name, text in texts:
        if name:
            try:
                resources[name] = Quantity.of(text)
            except ValueError:
                continue
    return resources


def read_taints(texts: Iterable[tuple[str, str]]) -> tuple[Taint, ...]:
    """Return taints from pairs of key and text (``value:NoSchedule``). Skip texts without an effect."""
    parts = [(key, text.partition(":")) for key, text in texts if _HAS_EFFECT.search(text)]
    return tuple(Taint(key=key, value=value, effect=effect) for key, (value, _, effect) in parts)


def after(prefix: str, key: str) -> str | None:
    """Return the part of ``key`` between the first occurrence of ``prefix`` and the second one or the end.

    Return None if ``key`` does not contain ``prefix``.
    """
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
    """Return the number as CA (Go's ParseFloat) reads it: with underscores, without blanks. None if it is unreadable."""
    if len(text) > _MAX_TEXT:
        return None
    if text.lower() in _NAMED_FLOATS:
        return _NAMED_FLOATS[text.lower()]
    plain = text.replace("_", "")
    if _DECIMAL.fullmatch(plain):
        return float(plain)
    return float.fromhex(plain) if _HEXADECIMAL.fullmatch(plain) else None
