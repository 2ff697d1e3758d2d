"""What the tags of a group say of its nodes: labels, taints, resources and options, by CA's rules to the letter."""

import re
from collections.abc import Iterable, Mapping

from nodewright.spec import GroupOptions, Quantity, Taint
from nodewright.spec.group_options import overlay_options
from nodewright_aws.shapes import Tag

PREFIX = "k8s.io/cluster-autoscaler/node-template/"
_LABEL, _TAINT = f"{PREFIX}label/", f"{PREFIX}taint/"
_RESOURCE, _OPTION = f"{PREFIX}resources/", f"{PREFIX}autoscaling-options/"
_EKS = "eks:"
# CA looks for an effect somewhere behind a colon and then takes everything behind the first colon for it.
_HAS_EFFECT = re.compile(r":(NoSchedule|NoExecute|PreferNoSchedule)")


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
    """The defaults, overlaid with ``…/autoscaling-options/<name>``."""
    said = {_rest(tag.key, _OPTION): tag.value for tag in tags if _OPTION in tag.key}
    said.pop("maxnodeprovisiontime", None)  # no option of AWS in CA
    return overlay_options(defaults, said)


def tag_texts(tags: Iterable[Tag]) -> dict[str, str]:
    """Key and value of each tag."""
    return {tag.key: tag.value for tag in tags}


def _rest(key: str, prefix: str) -> str:
    """What stands between the first occurrence of the prefix and the next; empty without one."""
    parts = key.split(prefix)
    return parts[1] if len(parts) > 1 else ""
