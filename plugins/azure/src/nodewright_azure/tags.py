"""What the tags of a scale set say of its nodes: labels, taints, resources and options, by CA's rules to the letter.

Azure forbids slashes in the names of tags: an underscore stands for one, and ``~2`` for an underscore. In names of
resources, which have none, ``~2`` stands for a slash too.
"""

import re
from collections.abc import Mapping

from nodewright.spec import GroupOptions, Quantity, Taint
from nodewright.spec.group_options import overlay_options

_PREFIX = "k8s.io_cluster-autoscaler_node-template_"
_LABEL, _TAINT = f"{_PREFIX}label_", f"{_PREFIX}taint_"
_RESOURCE, _OPTION = f"{_PREFIX}resources_", f"{_PREFIX}autoscaling-options_"
# CA looks for an effect somewhere behind a colon and then takes everything behind the first colon for it.
_HAS_EFFECT = re.compile(r":(NoSchedule|NoExecute|PreferNoSchedule)")
_NO_OPTIONS_HERE = ("maxnodeprovisiontime", "ignoredaemonsetsutilization")

Tags = Mapping[str, str]


def tags_of(tags: Mapping[str, str | None] | None) -> dict[str, str]:
    """Tags without a value have an empty one."""
    return {key: value or "" for key, value in (tags or {}).items()}


def labels_of(tags: Tags) -> dict[str, str]:
    """Labels by ``…label_<key>``."""
    named = ((_decode(_rest(key, _LABEL) or ""), value) for key, value in tags.items())
    return {key: value for key, value in named if key}


def taints_of(tags: Tags) -> tuple[Taint, ...]:
    """Taints by ``…taint_<key>`` with the value ``<value>:<effect>``."""
    taints = []
    for key, said in tags.items():
        name = _rest(key, _TAINT)
        if name is not None and _HAS_EFFECT.search(said):
            value, _, effect = said.partition(":")
            taints.append(Taint(key=_decode(name), value=value, effect=effect))
    return tuple(taints)


def resources_of(tags: Tags) -> dict[str, Quantity]:
    """Resources by ``…resources_<name>``; what is no quantity is passed over, as in CA."""
    resources: dict[str, Quantity] = {}
    for key, value in tags.items():
        name = (_rest(key, _RESOURCE) or "").replace("_", "/").replace("~2", "/")
        if name:
            try:
                resources[name] = Quantity.of(value)
            except ValueError:
                continue
    return resources


def options_of(tags: Tags, defaults: GroupOptions) -> GroupOptions:
    """The defaults, overlaid with ``…autoscaling-options_<name>``."""
    named = {key.removeprefix(_OPTION): value.lower() for key, value in tags.items() if key.startswith(_OPTION)}
    return overlay_options(defaults, {key: value for key, value in named.items() if key not in _NO_OPTIONS_HERE})


def _rest(key: str, prefix: str) -> str | None:
    """What stands between the first occurrence of the prefix and the next; None without one."""
    parts = key.split(prefix)
    return parts[1] if len(parts) > 1 else None


def _decode(name: str) -> str:
    return name.replace("_", "/").replace("~2", "_")
