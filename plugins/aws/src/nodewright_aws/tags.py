"""What the tags of a group say about its nodes: labels, taints, resources and options, by cluster-autoscaler's rules."""

from collections.abc import Iterable, Mapping

from nodewright.spec import GroupOptions, Quantity, Taint
from nodewright.spec.group_options import after, overlay_options, read_resources, read_taints
from nodewright_aws.shapes import Tag

PREFIX = "k8s.io/cluster-autoscaler/node-template/"
_LABEL, _TAINT = f"{PREFIX}label/", f"{PREFIX}taint/"
_RESOURCE, _OPTION = f"{PREFIX}resources/", f"{PREFIX}autoscaling-options/"
_EKS = "eks:"

# The mark of a group that nodewright created. Its value is the machine type; the cluster is at the end of the key.
MARK = "nodewright/autoprovisioned/"
OWNED = "owned"


def cluster_tag(cluster: str) -> str:
    """Return the key of the tag that, with the value ``OWNED``, says that the group belongs to the cluster."""
    return f"k8s.io/cluster-autoscaler/{cluster}"


def mark_of(cluster: str) -> str:
    """Return the key of the tag that marks groups which nodewright created for the cluster."""
    return f"{MARK}{cluster}"


def machine_type_of(tags: Iterable[Tag], cluster: str) -> str:
    """Return the machine type in the mark; "": the group has no mark."""
    return tag_texts(tags).get(mark_of(cluster), "")


def label_tag(key: str, value: str) -> Tag:
    """Return the tag from which ``labels_of`` reads this label."""
    return Tag(key=f"{_LABEL}{key}", value=value)


def taint_tag(taint: Taint) -> Tag:
    """Return the tag from which ``taints_of`` reads this taint."""
    return Tag(key=f"{_TAINT}{taint.key}", value=f"{taint.value}:{taint.effect}")


def labels_of(tags: Iterable[Tag]) -> dict[str, str]:
    """Return the labels in ``…/label/<key>``. Tags of EKS (``eks:cluster-name``) become labels without their prefix."""
    labels: dict[str, str] = {}
    for tag in tags:
        key = after(_LABEL if _LABEL in tag.key else _EKS, tag.key)
        if key:
            labels[key] = tag.value
    return labels


def taints_of(tags: Iterable[Tag]) -> tuple[Taint, ...]:
    """Return the taints in ``…/taint/<key>`` with the value ``<value>:<effect>``."""
    named = ((after(_TAINT, tag.key), tag.value) for tag in tags)
    return read_taints((key, said) for key, said in named if key is not None)


def resources_of(tags: Mapping[str, str]) -> dict[str, Quantity]:
    """Return the resources in ``…/resources/<name>``. As in cluster-autoscaler, what is not a quantity is ignored."""
    return read_resources((after(_RESOURCE, key) or "", value) for key, value in tags.items())


def options_of(tags: Iterable[Tag], defaults: GroupOptions) -> GroupOptions:
    """Return the defaults, overlaid with ``…/autoscaling-options/<name>``."""
    named = ((after(_OPTION, tag.key), tag.value) for tag in tags if tag.key.startswith(_OPTION))
    said = {name: value for name, value in named if name}
    said.pop("maxnodeprovisiontime", None)  # no option of AWS in CA
    return overlay_options(defaults, said)


def tag_texts(tags: Iterable[Tag]) -> dict[str, str]:
    """Return the value of each tag by its key."""
    return {tag.key: tag.value for tag in tags}
