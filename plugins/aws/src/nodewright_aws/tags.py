"""What the tags of a group say of its nodes: labels, taints, resources and options, by CA's rules to the letter."""

import re
from collections.abc import Iterable, Mapping
from math import inf, nan

import msgspec

from nodewright.model.duration import parse_duration
from nodewright.spec import GroupOptions, Quantity, Taint
from nodewright_aws.shapes import Tag

PREFIX = "k8s.io/cluster-autoscaler/node-template/"
_LABEL, _TAINT = f"{PREFIX}label/", f"{PREFIX}taint/"
_RESOURCE, _OPTION = f"{PREFIX}resources/", f"{PREFIX}autoscaling-options/"
_EKS = "eks:"
# CA looks for an effect somewhere behind a colon and then takes everything behind the first colon for it.
_HAS_EFFECT = re.compile(r":(NoSchedule|NoExecute|PreferNoSchedule)")
_MAX_TEXT = 64

_TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
_FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
_NAMED_FLOATS = {"nan": nan, "inf": inf, "+inf": inf, "-inf": -inf, "infinity": inf, "-infinity": -inf}
_DECIMAL = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[-+]?0[xX][0-9a-fA-F]+\.?[0-9a-fA-F]*[pP][-+]?[0-9]+")


def labels_of(tags: Iterable[Tag]) -> dict[str, str]:
    """Labels by ``…/label/<key>``; EKS' own tags (``eks:cluster-name``) become labels without their prefix."""
    labels: dict[str, str] = {}
    for tag in tags:
        key = _rest(tag.key, _LABEL) if _LABEL in tag.key else _rest(tag.key, _EKS)
        if key:
            labels[key] = tag.value
    return labels


def taints_of(tags: Iterable[Tag]) -> tuple[Taint, ...]:
    """Taints by ``…/taint/<key>`` with the value ``<value>:<effect>``."""
    taints = []
    for tag in tags:
        if _TAINT in tag.key and _HAS_EFFECT.search(tag.value):
            value, _, effect = tag.value.partition(":")
            taints.append(Taint(key=_rest(tag.key, _TAINT), value=value, effect=effect))
    return tuple(taints)


def resources_of(tags: Mapping[str, str]) -> dict[str, Quantity]:
    """Resources by ``…/resources/<name>``; what is no quantity is passed over, as in CA."""
    resources: dict[str, Quantity] = {}
    for key, value in tags.items():
        name = _rest(key, _RESOURCE)
        if name:
            try:
                resources[name] = Quantity.of(value)
            except ValueError:
                continue
    return resources


def options_of(tags: Iterable[Tag], defaults: GroupOptions) -> GroupOptions:
    """The defaults, overlaid with ``…/autoscaling-options/<name>``; a value that cannot be read keeps the default."""
    said = {_rest(tag.key, _OPTION): tag.value for tag in tags if _OPTION in tag.key}
    durations = {
        "scaledownunneededtime": "scale_down_unneeded_seconds",
        "scaledownunreadytime": "scale_down_unready_seconds",
    }
    floats = {
        "scaledownutilizationthreshold": "scale_down_utilization_threshold",
        "scaledowngpuutilizationthreshold": "scale_down_gpu_utilization_threshold",
    }
    changes: dict[str, float | bool | None] = {
        **{field: _duration(said[name]) for name, field in durations.items() if name in said},
        **{field: _float(said[name]) for name, field in floats.items() if name in said},
        "ignore_daemonsets_utilization": _bool(said.get("ignoredaemonsetsutilization", "")),
    }
    return msgspec.structs.replace(defaults, **{name: value for name, value in changes.items() if value is not None})


def tag_texts(tags: Iterable[Tag]) -> dict[str, str]:
    """Key and value of each tag."""
    return {tag.key: tag.value for tag in tags}


def _rest(key: str, prefix: str) -> str:
    """What stands between the first occurrence of the prefix and the next; empty without one."""
    parts = key.split(prefix)
    return parts[1] if len(parts) > 1 else ""


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
