"""The values that ``explain`` shows about a node, pod, group, ProvisioningRequest or CapacityBuffer.

planner/explain has the part about nodes.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random

import msgspec

from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.plan_reasons import find_verdicts, why_group
from nodewright.cli.screen import count, name_some
from nodewright.clusterstate.backoff import is_active, is_deferred
from nodewright.clusterstate.learned_templates import describe
from nodewright.clusterstate.memory import LearnedTemplate
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import IncreaseSize
from nodewright.model.capacity_buffer import ACTIVE_CAPACITY
from nodewright.model.duration import format_moment
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.printable import printable, suggest
from nodewright.planner import find_growth_context
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
    node_with_room,
    outcome_of,
    rejections_of_pending_pod,
    requests_planned,
)

_NAMED = 3
_NAMESPACED = frozenset({"pod", "request", "buffer"})
_DEFAULT_NAMESPACE = "default"
RUNS = "runs"
# The kind without a name: there is only one loop.
LOOP = "loop"
_REQUESTS_OFF = "requests are not served: --enable-provisioning-requests is off"


class PodExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A running pod: what would happen to it if its ``node`` were removed.

    A pending pod: its ``outcome`` and why, per group; ``node`` is where it has room, ``refusals`` say why no node has.
    """

    pod: str
    now: float
    outcome: str
    reason: str = ""
    node: str = ""
    groups: tuple[tuple[str, str], ...] = ()
    refusals: tuple[NodeRejections, ...] = ()
    outlook: PodAfterDrain | None = None
    of_node: NodeExplanation | None = None


class NodesAlike(msgspec.Struct, frozen=True, kw_only=True):
    """The number of nodes of a group that have the same outcome for the same reason; ``nodes`` names the first few.

    ``found``: why the last simulation failed, for nodes that are not simulated again yet; otherwise empty.
    """

    outcome: NodeOutcome
    code: str
    found: str
    count: int
    nodes: tuple[str, ...]


class GroupExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A group: its numbers, what scale-up decided about it and why, and the outcomes of its nodes.

    ``backoff_until`` and ``deferred_until`` (epoch seconds) say when it may grow again. ``template``: where its real
    nodes differ from the provider's template, and what else they showed.
    """

    now: float
    facts: GroupFacts
    upcoming: int
    growth: str
    problem: str = ""
    backoff_until: float | None = None
    deferred_until: float | None = None
    template: tuple[str, ...] = ()
    nodes: tuple[NodesAlike, ...] = ()


class RequestExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A request for capacity as it will be after the loop; ``notes`` are the events of the loop on it and its pods."""

    now: float
    facts: RequestFacts
    notes: tuple[tuple[str, str], ...] = ()


class BufferExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """A buffer of spare capacity as it will be after the loop; ``notes`` are its conditions, by type."""

    now: float
    facts: BufferFacts
    notes: tuple[tuple[str, str], ...] = ()


class LoopExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The last loop: its writes, or why it made none.

    ``stops`` says why all or some writes are stopped, and when that ends. ``does`` has the writes and what is under way.
    ``idle`` counts pods and nodes for which nothing is done, with the command that says more.
    """

    now: float
    stops: tuple[str, ...] = ()
    does: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()


Explanation = (
    NodeExplanation | PodExplanation | GroupExplanation | RequestExplanation | BufferExplanation | LoopExplanation
)
_Ask = Callable[[DryRun, str], Explanation | None]


def explain(dry_run: DryRun, kind: str, name: str) -> Explanation:
    """Explain an object; ``kind`` is a key of ``KINDS``. Raise ConfigError for a name that does not exist.

    A namespaced object without a namespace is looked for in namespace default, as kubectl does.
    """
    ask, list_names = KINDS[kind]
    key = f"{_DEFAULT_NAMESPACE}/{name}" if kind in _NAMESPACED and "/" not in name else name
    found = ask(dry_run, key)
    if found is None:
        raise ConfigError(_why_ignored(dry_run, kind, key) or _missing(kind, key, sorted(set(list_names(dry_run)))))
    return found


def _missing(kind: str, key: str, known: Sequence[str]) -> str:
    """Return a message that there is no such object, with the place of one of that name, or a similar name."""
    namespace, slash, name = key.partition("/")
    others = [one.partition("/")[0] for one in known if one.partition("/")[2] == name] if kind in _NAMESPACED else []
    if not slash or not others:
        there = name_some([*map(printable, known)])
        hint = suggest(key, known) or (
            f"; there is {there}" if len(known) == 1 else f"; there are {there}" if known else ""
        )
        return f"there is no {kind} {printable(key)}{hint}"
    where = f"{'namespace' if len(others) == 1 else 'namespaces'} {name_some([*map(printable, others)])}"
    return f"there is no {kind} {printable(name)} in namespace {printable(namespace)}; there is one in {where}"


def _why_ignored(dry_run: DryRun, kind: str, name: str) -> str:
    """Return why nothing is known about a request or buffer that may exist; empty: it does not exist."""
    if kind == "request" and not dry_run.settings.provisioning.enable_provisioning_requests:
        return _REQUESTS_OFF
    if kind == "buffer" and not dry_run.settings.buffers.are_read:
        return "buffers are not filled: --capacity-buffer-controller-enabled is off"
    if kind == "buffer" and any(one.key == name for one in dry_run.state.observation.buffers.buffers):
        strategy = "provisioningStrategy (without the controller, that of its status)"
        return f"buffer {printable(name)} is not filled: its {strategy} is not {ACTIVE_CAPACITY}"
    return ""


def _node(dry_run: DryRun, name: str) -> NodeExplanation | None:
    settings, start = dry_run.settings, dry_run.planned_from or dry_run.state
    growing = find_growth_context(start, settings, Random(0)) if settings.seeks_moves else None
    return explain_node(dry_run.state, dry_run.plan, settings, name, growing)


def _pod(dry_run: DryRun, key: str) -> PodExplanation | None:
    for verdict in find_verdicts(dry_run):
        if verdict.pod.key == key:
            held = (dry_run.state, dry_run.plan, dry_run.settings.pods, dry_run.settings.policy)
            place = node_with_room(*held, verdict.pod)
            return PodExplanation(
                pod=key,
                now=dry_run.state.now,
                outcome=verdict.outcome.value,
                reason=verdict.reason,
                node=place,
                groups=tuple((str(ref), str(reason)) for ref, reason in verdict.reasons.items()),
                refusals=() if place else rejections_of_pending_pod(*held, verdict.pod),
            )
    host = next((name for name, pod in _running(dry_run) if pod.key == key), None)
    of_node = _node(dry_run, host) if host is not None else None
    if host is None or of_node is None:
        return None
    own = next((one for one in of_node.pods if one.pod == key), None)
    said = "" if own is not None else "gives way to other pods: it neither holds room nor keeps its node"
    return PodExplanation(
        pod=key, now=dry_run.state.now, outcome=RUNS, reason=said, node=host, outlook=own, of_node=of_node
    )


def _group(dry_run: DryRun, name: str) -> GroupExplanation | None:
    ref = next((ref for ref in dry_run.state.groups if str(ref) == name), None)
    if ref is None:
        return None
    group = dry_run.state.groups[ref]
    backoff = group.backoff if is_active(group.backoff, dry_run.state.now) else None
    deferral = group.deferral if is_deferred(group.deferral, dry_run.state.now) else None
    return GroupExplanation(
        now=dry_run.state.now,
        facts=facts_of(group),
        upcoming=group.upcoming,
        growth=why_group(dry_run, ref) or "no pending pod needs it",
        problem=dry_run.state.observation.groups[ref].problem,
        backoff_until=backoff.until if backoff is not None else None,
        deferred_until=deferral.until if deferral is not None else None,
        template=tuple(describe(dry_run.state.memory.learned.get(ref, LearnedTemplate()))),
        nodes=_alike(dry_run, ref),
    )


def _request(dry_run: DryRun, key: str) -> RequestExplanation | None:
    for one in requests_planned(dry_run.state, dry_run.plan):
        if one.request == key:
            events = (event for event in dry_run.plan.provisioning.events if event.request == key)
            notes = [(event.pod.key if event.pod is not None else key, event.message) for event in events]
            notes += [] if dry_run.settings.provisioning.enable_provisioning_requests else [(key, _REQUESTS_OFF)]
            return RequestExplanation(now=dry_run.state.now, facts=one, notes=tuple(notes))
    return None


def _buffer(dry_run: DryRun, key: str) -> BufferExplanation | None:
    found = next((one for one in buffers_planned(dry_run.plan) if one.buffer == key), None)
    if found is None:
        return None
    held = next(one.buffer for one in dry_run.plan.buffers.allocations if one.buffer.key == key)
    notes = ((one.type, ": ".join(filter(None, (one.status, one.message)))) for one in held.status.conditions)
    return BufferExplanation(now=dry_run.state.now, facts=found, notes=tuple(notes))


def _loop(dry_run: DryRun, _: str) -> LoopExplanation:
    return LoopExplanation(
        now=dry_run.state.now,
        stops=tuple(dict.fromkeys(_find_stops(dry_run))),
        does=tuple(_find_doings(dry_run)),
        idle=tuple(_find_idle(dry_run)),
    )


def _find_stops(dry_run: DryRun) -> Iterator[str]:
    """Yield the reasons why writes are stopped, the widest first."""
    state, plan, settings = dry_run.state, dry_run.plan, dry_run.settings
    yield from filter(None, (dry_run.problem, plan.halted))
    if plan.paused:
        yield f"writes to clouds are {plan.paused} (nodewright resume)"
    if state.memory.unhealthy is not None and not plan.halted:
        yield f"the {describe_unhealthy(state.memory.unhealthy, state.now)}"
    yield from filter(None, (plan.cut_short, plan.partial))
    yield from _find_stopped_groups(state)
    for held in plan.held_back:
        yield f"{type(held.action).__name__} of {held.action.group} waits: {held.reason}"
    if not settings.scale_down.scale_down_enabled:
        yield "no node is removed: --scale-down-enabled is off"
    elif plan.scale_down.missing_pods:
        yield f"no node is removed: {plan.scale_down.missing_pods}"
    elif plan.scale_down.cooldown_until > state.now:
        yield f"no removal begins before {format_moment(plan.scale_down.cooldown_until)}"


def _find_stopped_groups(state: ClusterState) -> Iterator[str]:
    for name, provider in state.observation.providers.items():
        if provider.problem:
            yield f"provider {name} cannot be read: {provider.problem}"
    for ref, group in state.groups.items():
        if state.observation.groups[ref].problem:
            yield f"group {ref} is read in part: {state.observation.groups[ref].problem}"
        elif is_active(group.backoff, state.now) and group.backoff is not None:
            yield f"group {ref} does not grow before {format_moment(group.backoff.until)}: it failed"


def _find_doings(dry_run: DryRun) -> Iterator[str]:
    plan = dry_run.plan
    for action in plan.actions:
        change = f" {action.expected_target} -> {action.target}" if isinstance(action, IncreaseSize) else ""
        yield f"{type(action).__name__} of {action.group}{change}" + (f": {action.reason}" if action.reason else "")
    yield from (f"removes node {removal.node}: {removal.reason}" for removal in plan.scale_down.removals)
    yield from (f"node {name} is being removed" for name in dry_run.state.observation.removing)
    upcoming = sum(group.upcoming for group in dry_run.state.groups.values())
    if upcoming:
        yield f"waits for {count(upcoming, 'machine')} on the way"


def _find_idle(dry_run: DryRun) -> Iterator[str]:
    """Yield the number of pods and nodes by outcome, each with the command that says more."""
    pods = Counter(verdict.outcome for verdict in find_verdicts(dry_run))
    if not pods:
        yield "no pod is pending"
    for outcome, number in pods.most_common():
        yield f"{count(number, 'pending pod')}: {outcome} (nodewright explain pod NAME)"
    report = dry_run.plan.scale_down
    staying = Counter(why.code.value for why in {**report.passed_over, **report.unremovable}.values())
    for code, number in staying.most_common(_NAMED):
        yield f"{count(number, 'node')} not removed: {code} (nodewright explain node NAME)"


def _alike(dry_run: DryRun, ref: GroupRef) -> tuple[NodesAlike, ...]:
    report = dry_run.plan.scale_down
    alike: dict[tuple[NodeOutcome, str, str], list[str]] = {}
    for name, own in dry_run.state.group_of_node.items():
        if own == ref:
            reason = report.unremovable.get(name) or report.passed_over.get(name)
            outcome = outcome_of(dry_run.state, dry_run.plan, name)
            is_leaving = outcome in (NodeOutcome.GOING, NodeOutcome.GOES)
            shown = reason if not is_leaving else None
            code = shown.code.value if shown is not None else ""
            found = shown.found.value if shown is not None and shown.found is not None else ""
            alike.setdefault((outcome, code, found), []).append(name)
    return tuple(
        NodesAlike(outcome=outcome, code=code, found=found, count=len(names), nodes=tuple(names[:_NAMED]))
        for (outcome, code, found), names in alike.items()
    )


def _running(dry_run: DryRun) -> Iterator[tuple[str, Pod]]:
    snapshot = dry_run.state.observation.snapshot
    return ((node.name, pod) for row, node in snapshot.nodes() for pod in snapshot.pods(row))


def _node_names(dry_run: DryRun) -> Iterator[str]:
    return (node.name for _, node in dry_run.state.observation.snapshot.nodes())


def _pod_keys(dry_run: DryRun) -> Iterator[str]:
    yield from (pod.key for pod in dry_run.state.observation.pending)
    yield from (pod.key for _, pod in _running(dry_run))


def _request_keys(dry_run: DryRun) -> Iterator[str]:
    return (request.key for request in dry_run.state.observation.provisioning.requests)


def _buffer_keys(dry_run: DryRun) -> Iterator[str]:
    return (one.buffer for one in buffers_planned(dry_run.plan))


def _group_names(dry_run: DryRun) -> Iterator[str]:
    return map(str, dry_run.state.groups)


KINDS: dict[str, tuple[_Ask, Callable[[DryRun], Iterator[str]]]] = {
    "node": (_node, _node_names),
    "pod": (_pod, _pod_keys),
    "group": (_group, _group_names),
    "request": (_request, _request_keys),
    "buffer": (_buffer, _buffer_keys),
    LOOP: (_loop, lambda _: iter(())),
}
