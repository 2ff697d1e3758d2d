"""What the tags of a scale set say about its nodes: labels, taints, resources and options, by CA's rules.

Azure forbids slashes in the names of tags: an underscore stands for a slash, and ``~2`` for an underscore. In names of
resources, which have no underscores, ``~2`` stands for a slash too.
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
    """Return the tags; one without a value has the value ""."""
    return {key: value or "" for key, value in (tags or {}).items()}


def plain_tags(tags: Tags) -> dict[str, str]:
    """Return the tags that say nothing of the template."""
    return {key: value for key, value in tags.items() if not key.startswith(_PREFIX)}


def labels_of(tags: Tags) -> dict[str, str]:
    """Return the labels in ``…label_<key>``."""
    named = ((_decode(after(_LABEL, key) or ""), value) for key, value in tags.items())
    return {key: value for key, value in named if key}


def taints_of(tags: Tags) -> tuple[Taint, ...]:
    """Return the taints in ``…taint_<key>`` with the value ``<value>:<effect>``."""
    named = ((after(_TAINT, key), said) for key, said in tags.items())
    return read_taints((_decode(name), said) for name, said in named if name is not None)


def resources_of(tags: Tags) -> dict[str, Quantity]:
    """Return the resources in ``…resources_<name>``. As in CA, what is not a quantity is ignored."""
    named = ((after(_RESOURCE, key) or "", value) for key, value in tags.items())
    return read_resources((name.replace("_", "/").replace("~2", "/"), value) for name, value in named)


def options_of(tags: Tags, defaults: GroupOptions) -> GroupOptions:
    """Return the defaults, overlaid with ``…autoscaling-options_<name>``."""
    named = {key.removeprefix(_OPTION): value.lower() for key, value in tags.items() if key.startswith(_OPTION)}
    return overlay_options(defaults, {key: value for key, value in named.items() if key not in _NO_OPTIONS_HERE})


def _decode(name: str) -> str:
    return name.replace("_", "/").replace("~2", "_")
