"""The marks that a removal leaves on its node, as pure edits (behaviour/down.md A13)."""

from collections.abc import Callable

from msgspec.structs import replace

from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node, Taint

# On nodes that nodewright has cordoned: what a human cordoned stays so.
CORDONED_ANNOTATION = "nodewright.io/cordoned"

NodeEdit = Callable[[Node], Node]


def has_taint(node: Node, key: str) -> bool:
    return any(taint.key == key for taint in node.spec.taints)


def hard_tainted(node: Node, now: float, *, cordon: bool) -> Node:
    """Nothing more is scheduled there. A taint that is there already stays as it is, and so does the rest."""
    if has_taint(node, TO_BE_DELETED_TAINT):
        return node
    marked = _with_taint(node, Taint(key=TO_BE_DELETED_TAINT, effect="NoSchedule", value=str(int(now))))
    if not cordon or node.spec.unschedulable:
        return marked
    annotations = {**node.metadata.annotations, CORDONED_ANNOTATION: "true"}
    return replace(
        marked,
        metadata=replace(marked.metadata, annotations=annotations),
        spec=replace(marked.spec, unschedulable=True),
    )


def hard_untainted(node: Node, *, uncordon: bool, whoever: bool) -> Node:
    """The node as it was before, if it is marked at all; ``whoever``: uncordoned even if a human cordoned it (CA)."""
    if not has_taint(node, TO_BE_DELETED_TAINT):
        return node
    bare = _without_taint(node, TO_BE_DELETED_TAINT)
    ours = CORDONED_ANNOTATION in node.metadata.annotations
    if not uncordon or not (ours or whoever):
        return bare
    annotations = {key: value for key, value in node.metadata.annotations.items() if key != CORDONED_ANNOTATION}
    return replace(
        bare, metadata=replace(bare.metadata, annotations=annotations), spec=replace(bare.spec, unschedulable=False)
    )


def soft_tainted(node: Node, now: float) -> Node:
    """Schedulers would rather not use it. A taint that is there already keeps its time."""
    if has_taint(node, DELETION_CANDIDATE_TAINT):
        return node
    return _with_taint(node, Taint(key=DELETION_CANDIDATE_TAINT, effect="PreferNoSchedule", value=str(int(now))))


def soft_untainted(node: Node) -> Node:
    return _without_taint(node, DELETION_CANDIDATE_TAINT) if has_taint(node, DELETION_CANDIDATE_TAINT) else node


def _with_taint(node: Node, taint: Taint) -> Node:
    return replace(node, spec=replace(node.spec, taints=(*node.spec.taints, taint)))


def _without_taint(node: Node, key: str) -> Node:
    return replace(node, spec=replace(node.spec, taints=tuple(t for t in node.spec.taints if t.key != key)))
