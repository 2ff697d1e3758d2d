"""What ``explain`` says of a node, a pod, a group, a request for capacity or a buffer, as values; planner/explain has
the part about nodes.
"""

from collections.abc import Callable, Iterator

import msgspec

from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.plan.tables import why_group
from nodewright.cli.plan.verdicts import find_verdicts
from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.model.capacity_buffer import ACTIVE_CAPACITY
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.printable import printable, suggest
from nodewright.planner.explain import (
    BufferFacts,
    GroupFacts,
    NodeExplanation,
    NodeOutcome,
    NodeRejections,
    PodAfterDrain,
    RequestFacts,
    buffers_planned,
    explain_node,
    facts_of,
    fate_of,
    node_with_room,
    rejections_of_pending_pod,
    requests_planned,
)

_NAMED = 3
RUNS = "runs"
_REQUESTS_OFF = "requests are left alone: --enable-provisioning-requests is off"


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Of a pod that runs: what would become of it if its ``node`` went, and what is said of that. Of one that waits:
    its ``fate`` and why, per group; ``node`` is where it has room, ``refusals`` are why no node has.
    """

    pod: str
    now: float
    fate: str
    reason: str = ""
    node: str = ""
    groups: tuple[tuple[str, str], ...] = ()
    refusals: tuple[NodeRejections, ...] = ()
    outlook: PodAfterDrain | None = None
    of_node: NodeExplanation | None = None


class NodesAlike(msgspec.Struct, frozen=True, kw_only=True):
    """So many nodes of a group of which the same is said; ``nodes`` names the first few."""

    fate: NodeOutcome
    code: str
    count: int
    nodes: tuple[str, ...]


class GroupExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A group: its numbers, what scale-up decided about it and why, and what becomes of its nodes.

    ``backoff_until`` and ``deferred_until`` (epoch seconds) say when it may grow again.
    """

    now: float
    facts: GroupFacts
    upcoming: int
    growth: str
    problem: str = ""
    backoff_until: float | None = None
    deferred_until: float | None = None
    nodes: tuple[NodesAlike, ...] = ()


class RequestExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A request for capacity as it will stand after the loop, and what its pods and it are told."""

    now: float
    facts: RequestFacts
    notes: tuple[tuple[str, str], ...] = ()


class BufferExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A buffer of spare capacity as it will stand after the loop; ``notes`` are its conditions, by type."""

    now: float
    facts: BufferFacts
    notes: tuple[tuple[str, str], ...] = ()


Answer = NodeExplanation | PodExplanation | GroupExplanation | RequestExplanation | BufferExplanation
_Ask = Callable[[Trial, str], Answer | None]


def answer(trial: Trial, kind: str, name: str) -> Answer:
    """``kind`` is a key of ``KINDS``; raises ConfigError for a name that is not there."""
    ask, list_names = KINDS[kind]
    found = ask(trial, name)
    if found is None:
        why = _why_left_alone(trial, kind, name)
        raise ConfigError(why or f"there is no {kind} {printable(name)}{suggest(name, list_names(trial))}")
    return found


def _why_left_alone(trial: Trial, kind: str, name: str) -> str:
    """Why nothing can be said of a request or a buffer that may well be there; empty: it is not."""
    if kind == "request" and not trial.settings.provisioning.enable_provisioning_requests:
        return _REQUESTS_OFF
    if kind == "buffer" and not trial.settings.buffers.are_read:
        return "buffers are left alone: --capacity-buffer-controller-enabled is off"
    if kind == "buffer" and any(one.key == name for one in trial.state.observation.buffers.buffers):
        strategy = "provisioningStrategy (without the controller, that of its status)"
        return f"buffer {printable(name)} is left alone: its {strategy} is not {ACTIVE_CAPACITY}"
    return ""


def _node(trial: Trial, name: str) -> NodeExplanation | None:
    return explain_node(trial.state, trial.plan, trial.settings, name)


def _pod(trial: Trial, key: str) -> PodExplanation | None:
    for verdict in find_verdicts(trial):
        if verdict.pod.key == key:
            held = (trial.state, trial.plan, trial.settings)
            place = node_with_room(*held, verdict.pod)
            return PodExplanation(
                pod=key,
                now=trial.state.now,
                fate=verdict.fate.value,
                reason=verdict.reason,
                node=place,
                groups=tuple((str(ref), str(reason)) for ref, reason in verdict.reasons.items()),
                refusals=() if place else rejections_of_pending_pod(*held, verdict.pod),
            )
    host = next((name for name, pod in _running(trial) if pod.key == key), None)
    of_node = _node(trial, host) if host is not None else None
    if host is None or of_node is None:
        return None
    own = next((told for told in of_node.pods if told.pod == key), None)
    said = "" if own is not None else "gives way to other pods: it neither holds room nor keeps its node"
    return PodExplanation(pod=key, now=trial.state.now, fate=RUNS, reason=said, node=host, outlook=own, of_node=of_node)


def _group(trial: Trial, name: str) -> GroupExplanation | None:
    ref = next((ref for ref in trial.state.groups if str(ref) == name), None)
    if ref is None:
        return None
    group = trial.state.groups[ref]
    backoff = group.backoff if is_active(group.backoff, trial.state.now) else None
    deferral = group.deferral if is_deferred(group.deferral, trial.state.now) else None
    return GroupExplanation(
        now=trial.state.now,
        facts=facts_of(group),
        upcoming=group.upcoming,
        growth=why_group(trial, ref) or "no pending pod needs it",
        problem=trial.state.observation.groups[ref].problem,
        backoff_until=backoff.until if backoff is not None else None,
        deferred_until=deferral.until if deferral is not None else None,
        nodes=_alike(trial, ref),
    )


def _request(trial: Trial, key: str) -> RequestExplanation | None:
    for one in requests_planned(trial.state, trial.plan):
        if one.request == key:
            notes = (note for note in trial.plan.provisioning.notes if note.request == key)
            told = [(note.pod.key if note.pod is not None else key, note.message) for note in notes]
            told += [] if trial.settings.provisioning.enable_provisioning_requests else [(key, _REQUESTS_OFF)]
            return RequestExplanation(now=trial.state.now, facts=one, notes=tuple(told))
    return None


def _buffer(trial: Trial, key: str) -> BufferExplanation | None:
    found = next((one for one in buffers_planned(trial.plan) if one.buffer == key), None)
    if found is None:
        return None
    held = next(one.buffer for one in trial.plan.buffers.allocations if one.buffer.key == key)
    told = ((one.type, ": ".join(filter(None, (one.status, one.message)))) for one in held.status.conditions)
    return BufferExplanation(now=trial.state.now, facts=found, notes=tuple(told))


def _alike(trial: Trial, ref: GroupRef) -> tuple[NodesAlike, ...]:
    report = trial.plan.scale_down
    found: dict[tuple[NodeOutcome, str], list[str]] = {}
    for name, own in trial.state.group_of_node.items():
        if own == ref:
            reason = report.unremovable.get(name) or report.passed_over.get(name)
            fate = fate_of(trial.state, trial.plan, name)
            is_leaving = fate in (NodeOutcome.GOING, NodeOutcome.GOES)
            code = reason.code.value if reason is not None and not is_leaving else ""
            found.setdefault((fate, code), []).append(name)
    return tuple(
        NodesAlike(fate=fate, code=code, count=len(names), nodes=tuple(names[:_NAMED]))
        for (fate, code), names in found.items()
    )


def _running(trial: Trial) -> Iterator[tuple[str, Pod]]:
    snapshot = trial.state.observation.snapshot
    return ((node.name, pod) for row, node in snapshot.nodes() for pod in snapshot.pods(row))


def _node_names(trial: Trial) -> Iterator[str]:
    return (node.name for _, node in trial.state.observation.snapshot.nodes())


def _pod_keys(trial: Trial) -> Iterator[str]:
    yield from (pod.key for pod in trial.state.observation.pending)
    yield from (pod.key for _, pod in _running(trial))


def _request_keys(trial: Trial) -> Iterator[str]:
    return (request.key for request in trial.state.observation.provisioning.requests)


def _buffer_keys(trial: Trial) -> Iterator[str]:
    return (one.buffer for one in buffers_planned(trial.plan))


def _group_names(trial: Trial) -> Iterator[str]:
    return map(str, trial.state.groups)


KINDS: dict[str, tuple[_Ask, Callable[[Trial], Iterator[str]]]] = {
    "node": (_node, _node_names),
    "pod": (_pod, _pod_keys),
    "group": (_group, _group_names),
    "request": (_request, _request_keys),
    "buffer": (_buffer, _buffer_keys),
}
