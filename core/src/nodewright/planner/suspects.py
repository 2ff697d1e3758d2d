"""Whom to ask after a group failed to deliver and nobody said why."""

from collections.abc import Iterable, Iterator, Sequence

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.failures import INSTANCE_TYPE_LABEL
from nodewright.expander.option import Option
from nodewright.model.group import GroupRef
from nodewright.model.node import ZONE_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.planner.candidates import ScaleUpContext


def least_alike(ground: ScaleUpContext, options: Sequence[Option]) -> Sequence[Option]:
    """The options that have least in common with groups whose machines did not appear in time.

    A cloud that tells says whether a zone or a machine type is the cause, and their groups are backed off with the
    one that failed. Where time alone tells, it may be either; pods that have waited for one such group in vain are
    not sent to another of its zone and type, as long as one differs in more. They are sent back to a group that failed
    while they waited, and may grow again, only where no other may. Other pods go where the expander says.
    """
    if ground.settings.size_correction != "prompt":
        return options
    in_vain = _waited_for_in_vain(ground, [option.pods for option in options])
    likeness = [
        len(_RUNS_OUT) + 1 if _has_failed(ground, option) else _likeness(ground, option.group, in_vain)
        for option in options
    ]
    least = min(likeness, default=0)
    return [option for option, shared in zip(options, likeness, strict=True) if shared == least]


def no_more_alike(
    ground: ScaleUpContext, chosen: GroupRef, similar: Sequence[GroupRef], pods: Sequence[Sequence[Pod]]
) -> Sequence[GroupRef]:
    """The groups over which growth of ``chosen`` for these pods may be spread without a share for one that has more in
    common than itself with groups that the pods have waited for in vain.
    """
    in_vain = _waited_for_in_vain(ground, pods) if similar else []
    if not in_vain:
        return similar
    most = _likeness(ground, chosen, in_vain)
    return [other for other in similar if _likeness(ground, other, in_vain) <= most]


def _waited_for_in_vain(ground: ScaleUpContext, pods: Iterable[Sequence[Pod]]) -> list[GroupRef]:
    if ground.settings.size_correction != "prompt":
        return []
    silent = list(_silent(ground))
    return [ref for ref, asked in silent if any(_waited(some, asked) for some in pods)] if silent else []


def _silent(ground: ScaleUpContext) -> Iterator[tuple[GroupRef, float]]:
    """Groups in backoff because a request was out of time, or silent now, and when it was made (epoch seconds)."""
    for ref, silence in ground.silent.items():
        yield ref, silence.asked
    for ref, group in ground.state.groups.items():
        backoff = group.backoff
        if backoff is not None and backoff.asked and is_active(backoff, ground.state.now):
            yield ref, backoff.asked


def _has_failed(ground: ScaleUpContext, option: Option) -> bool:
    """Did the group itself fail while some of the pods waited?"""
    backoff = ground.state.groups[option.group].backoff
    return backoff is not None and not backoff.shared_from and _waited(option.pods, backoff.last_failure)


def _waited(pods: Sequence[Pod], since: float) -> bool:
    return any(0.0 < pod.created <= since for pod in pods)


def _likeness(ground: ScaleUpContext, ref: GroupRef, failed: Iterable[GroupRef]) -> int:
    """How much of what runs out, zone and machine type, a group shares with one of these of its provider, at most."""
    node = ground.templates[ref].node
    others = [ground.templates[other].node for other in failed if _is_comparable(ground, ref, other)]
    return max(
        (sum(_value(node, label) == _value(other, label) != "" for label in _RUNS_OUT) for other in others), default=0
    )


def _is_comparable(ground: ScaleUpContext, ref: GroupRef, failed: GroupRef) -> bool:
    return failed in ground.templates and failed.provider == ref.provider


def _value(node: Node, label: str) -> str:
    return node.metadata.labels.get(label, "")


_RUNS_OUT = (ZONE_LABEL, INSTANCE_TYPE_LABEL)
