"""What the tags of a group say of its nodes: labels, taints, resources and options, by CA's rules to the letter."""

from collections.abc import Iterable, Mapping

from nodewright.spec import GroupOptions, Quantity, Taint
from nodewright.spec.group_options import after, overlay_options, read_resources, read_taints
from nodewright_aws.shapes import Tag

PREFIX = "k8s.io/cluster-autoscaler/node-template/"
_LABEL, _TAINT = f"{PREFIX}label/", f"{PREFIX}taint/"
_RESOURCE, _OPTION = f"{PREFIX}resources/", f"{PREFIX}autoscaling-options/"
_EKS = "eks:"

# A group that was made on demand: of which machine type, and for which cluster (at the end of the key).
MARK = "nodewright/autoprovisioned/"
OWNED = "owned"


def cluster_tag(cluster: str) -> str:
    """The key of the tag that says, with the value ``OWNED``, that the group is the cluster's."""
    return f"k8s.io/cluster-autoscaler/{cluster}"


def mark_of(cluster: str) -> str:
    """The key of the mark."""
    return f"{MARK}{cluster}"


def machine_type_of(tags: Iterable[Tag], cluster: str) -> str:
    """The machine type in the mark; empty for a group without it."""
    return tag_texts(tags).get(mark_of(cluster), "")


def label_tag(key: str, value: str) -> Tag:
    """What ``labels_of`` reads."""
    return Tag(key=f"{_LABEL}{key}", value=value)


def taint_tag(taint: Taint) -> Tag:
    """What ``taints_of`` reads."""
    return Tag(key=f"{_TAINT}{taint.key}", value=f"{taint.value}:{taint.effect}")


def labels_of(tags: Iterable[Tag]) -> dict[str, str]:
    """Labels by ``…/label/<key>``; EKS' own tags (``eks:cluster-name``) become labels without their prefix."""
    labels: dict[str, str] = {}
    for tag in tags:
        key = after(_LABEL if _LABEL in tag.key else _EKS, tag.key)
        if key:
            labels[key] = tag.value
    return labels


def taints_of(tags: Iterable[Tag]) -> tuple[Taint, ...]:
    """Taints by ``…/taint/<key>`` with the value ``<value>:<effect>``."""
    named = ((after(_TAINT, tag.key), tag.value) for tag in tags)
    return read_taints((key, said) for key, said in named if key is not None)


def resources_of(tags: Mapping[str, str]) -> dict[str, Quantity]:
    """Resources by ``…/resources/<name>``; what is no quantity is passed over, as in CA."""
    return read_resources((after(_RESOURCE, key) or "", value) for key, value in tags.items())


def options_of(tags: Iterable[Tag], defaults: GroupOptions) -> GroupOptions:
    """The defaults, overlaid with ``…/autoscaling-options/<name>``."""
    named = ((after(_OPTION, tag.key), tag.value) for tag in tags)
    said = {name: value for name, value in named if name}
    said.pop("maxnodeprovisiontime", None)  # no option of AWS in CA
    return overlay_options(defaults, said)


def tag_texts(tags: Iterable[Tag]) -> dict[str, str]:
    """Key and value of each tag."""
    return {tag.key: tag.value for tag in tags}
