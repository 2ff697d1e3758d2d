"""What the tags of a scale set say of its nodes: labels, taints, resources and options, by CA's rules to the letter.

Azure forbids slashes in the names of tags: an underscore stands for one, and ``~2`` for an underscore. In names of
resources, which have none, ``~2`` stands for a slash too.
"""

from collections.abc import Mapping

from nodewright.spec import GroupOptions, Quantity, Taint
from nodewright.spec.group_options import after, overlay_options, read_resources, read_taints

_PREFIX = "k8s.io_cluster-autoscaler_node-template_"
_LABEL, _TAINT = f"{_PREFIX}label_", f"{_PREFIX}taint_"
_RESOURCE, _OPTION = f"{_PREFIX}resources_", f"{_PREFIX}autoscaling-options_"
_NO_OPTIONS_HERE = ("maxnodeprovisiontime", "ignoredaemonsetsutilization")

Tags = Mapping[str, str]


def tags_of(tags: Mapping[str, str | None] | None) -> dict[str, str]:
    """Tags without a value have an empty one."""
    return {key: value or "" for key, value in (tags or {}).items()}


def labels_of(tags: Tags) -> dict[str, str]:
    """Labels by ``…label_<key>``."""
    named = ((_decode(after(_LABEL, key) or ""), value) for key, value in tags.items())
    return {key: value for key, value in named if key}


def taints_of(tags: Tags) -> tuple[Taint, ...]:
    """Taints by ``…taint_<key>`` with the value ``<value>:<effect>``."""
    named = ((after(_TAINT, key), said) for key, said in tags.items())
    return read_taints((_decode(name), said) for name, said in named if name is not None)


def resources_of(tags: Tags) -> dict[str, Quantity]:
    """Resources by ``…resources_<name>``; what is no quantity is passed over, as in CA."""
    named = ((after(_RESOURCE, key) or "", value) for key, value in tags.items())
    return read_resources((name.replace("_", "/").replace("~2", "/"), value) for name, value in named)


def options_of(tags: Tags, defaults: GroupOptions) -> GroupOptions:
    """The defaults, overlaid with ``…autoscaling-options_<name>``."""
    named = {key.removeprefix(_OPTION): value.lower() for key, value in tags.items() if key.startswith(_OPTION)}
    return overlay_options(defaults, {key: value for key, value in named.items() if key not in _NO_OPTIONS_HERE})


def _decode(name: str) -> str:
    return name.replace("_", "/").replace("~2", "_")
