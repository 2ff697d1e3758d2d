"""Whom to ask after a group failed to deliver and nobody said why."""

from collections.abc import Iterator, Sequence

from nodewright.expander.option import Option
from nodewright.model.group import GroupRef
from nodewright.model.node import ZONE_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.planner.candidates import Ground
from nodewright.registry.backoff import is_active
from nodewright.registry.failures import INSTANCE_TYPE_LABEL, TIMEOUT


def least_alike(ground: Ground, options: Sequence[Option]) -> Sequence[Option]:
    """The options that have least in common with groups whose machines did not appear in time.

    A cloud that tells says whether a zone or a machine type is the cause, and their groups are backed off with the
    one that failed. Where time alone tells, it may be either; pods that have waited for one such group in vain are
    not sent to another of its zone and type, as long as one differs in more. Other pods go where the expander says.
    """
    silent = list(_silent(ground))
    if ground.settings.size_correction != "prompt" or not silent:
        return options
    waited_in_vain = [ref for ref, asked in silent if any(_waited(option.pods, asked) for option in options)]
    likeness = [max((_likeness(ground, option, ref) for ref in waited_in_vain), default=0) for option in options]
    return [option for option, shared in zip(options, likeness, strict=True) if shared == min(likeness)]


def _silent(ground: Ground) -> Iterator[tuple[GroupRef, float]]:
    """Groups in backoff because a request was out of time, and about when it was made (epoch seconds)."""
    for ref, group in ground.state.groups.items():
        backoff = group.backoff
        if backoff is not None and backoff.code == TIMEOUT and is_active(backoff, ground.state.now):
            yield ref, backoff.last_failure - group.seen.options.max_node_provision_seconds


def _waited(pods: Sequence[Pod], since: float) -> bool:
    created = (pod.metadata.creation_timestamp for pod in pods)
    return any(moment is not None and moment.timestamp() <= since for moment in created)


def _likeness(ground: Ground, option: Option, failed: GroupRef) -> int:
    """How much of what runs out, zone and machine type, an option shares with a group of the same provider."""
    template = ground.templates.get(failed)
    if template is None or option.group.provider != failed.provider:
        return 0
    return sum(_value(option.node, label) == _value(template.node, label) != "" for label in _RUNS_OUT)


def _value(node: Node, label: str) -> str:
    return node.metadata.labels.get(label, "")


_RUNS_OUT = (ZONE_LABEL, INSTANCE_TYPE_LABEL)
