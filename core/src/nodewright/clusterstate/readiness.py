"""The state of each node and instance of a group, and whether group and cluster are healthy."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.membership import Membership, names_of, unregistered_ids
from nodewright.clusterstate.memory import Backoff, Memory, UnhealthyCluster
from nodewright.clusterstate.state import GroupState, Readiness, has_resumed
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef, Machine
from nodewright.model.node import TO_BE_DELETED_TAINT, Node, NodeCondition
from nodewright.model.policy import Policy
from nodewright.model.settings import LoopSettings, TemplateSettings
from nodewright.snapshot.observation import GroupSeen

_UNREADY_TAINTS = frozenset(
    f"node.kubernetes.io/{what}" for what in ("not-ready", "disk-pressure", "network-unavailable")
)

_STARTUP_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)

# A kubelet's first status follows its registration within these seconds; this allows for small clock differences.
_FIRST_WORD_SECONDS = 30.0
# The node controller's reason for a kubelet that registered and never reported.
_NEVER_UPDATED = "NodeStatusNeverUpdated"
STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"


def is_ready(node: Node, settings: TemplateSettings) -> bool:
    """Return whether a node is Ready, without disk or network pressure and without startup taints."""
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    if conditions.get("Ready") != "True":
        return False
    if conditions.get("DiskPressure") == "True" or conditions.get("NetworkUnavailable") == "True":
        return False
    return not any(t.key in _UNREADY_TAINTS or is_startup_taint(t.key, settings) for t in node.spec.taints)


def is_suspended(node: Node) -> bool:
    """Return whether an operator suspended the machine: it is neither ready nor unready, and is not replaced."""
    return any(condition.type == "Suspended" and condition.status == "True" for condition in node.status.conditions)


def ready_since(node: Node) -> float:
    """Return when the conditions and taints of readiness last changed (epoch seconds; 0: unknown)."""
    times = [c.last_transition_time for c in node.status.conditions if c.type in _READINESS_CONDITIONS]
    times += [t.time_added for t in node.spec.taints if t.key in _UNREADY_TAINTS]
    return max((time.timestamp() for time in times if time is not None), default=0.0)


def was_never_ready(node: Node) -> bool:
    """Return whether the node object alone proves that the node was never Ready.

    Either the condition is still the one that the kubelet reported first, or the kubelet never reported and the node
    controller says so.
    """
    created, said = node.metadata.creation_timestamp, ready_condition(node)
    if said is None or said.status == "True":
        return False
    if said.reason == _NEVER_UPDATED:
        return True
    if created is None or said.last_transition_time is None:
        return False
    return abs((said.last_transition_time - created).total_seconds()) <= _FIRST_WORD_SECONDS


def ready_condition(node: Node) -> NodeCondition | None:
    """Return the condition ``Ready``; None if it was never reported."""
    return next((c for c in node.status.conditions if c.type == "Ready"), None)


def is_reported_ready(node: Node) -> bool:
    """Return whether the condition ``Ready`` is True, regardless of taints."""
    said = ready_condition(node)
    return said is not None and said.status == "True"


def is_startup_taint(key: str, settings: TemplateSettings) -> bool:
    """Return whether a taint means that the node is still starting."""
    named = key in settings.startup_taint or key in settings.ignore_taint
    return named or key.startswith((*_STARTUP_PREFIXES, *settings.startup_taint_prefix))


def is_being_deleted(node: Node) -> bool:
    return any(taint.key == TO_BE_DELETED_TAINT for taint in node.spec.taints)


_READINESS_CONDITIONS = frozenset({"Ready", "DiskPressure", "NetworkUnavailable"})
# Loops at most this many seconds apart miss no node that becomes ready and breaks in between. A node at most this old is
# observed for the first time.
CLOSE_SECONDS = 60.0
# Sentinels instead of a time: the node was Ready before, or was up although its object does not show it.
READY_ONCE, SEEN_UP = 0.0, -1.0


class ReadinessRules(NamedTuple):
    """The settings for the readiness of nodes.

    ``first_backoff``: the first backoff of a group, in seconds. ``is_prompt``: recognize nodes that never became ready.
    """

    templates: TemplateSettings
    first_backoff: float
    is_prompt: bool


def sort_readiness(
    group: GroupSeen,
    members: Membership,
    since: Mapping[Machine, float],
    memory: Memory,
    rules: ReadinessRules,
    now: float,
) -> Readiness:
    """Sort every node, and every instance without a node, into exactly one class.

    Of several nodes that claim one machine only one counts: a ready one, else the oldest. The others have no class. A late
    instance stays late even if a longer provision time is learned from it.
    """
    classes: dict[str, list[str]] = {
        name: [] for name in ("unready", "leaving", "not_started", "unregistered", "long_unregistered")
    }
    never_ready, just_overdue, never_up = list[str](), list[str](), dict[str, float]()
    prompt, templates, startup_seconds = rules.is_prompt, rules.templates, group.options.max_node_startup_seconds
    settled = members.keep((_settle, group.ref), templates, lambda: _settle(group.ref, members, templates))
    for node in settled.others:
        if prompt and node.name in settled.doubles:
            continue
        found = class_of(node, templates, startup_seconds, now, members.accelerators)
        was_up = prompt and _was_seen_up(node, group.ref, memory)
        starts = prompt and not was_up and _was_never_up(node, group.ref, memory, now)
        if starts:
            never_up[node.name] = _reported_at(node)
        elif was_up and was_never_ready(node):
            never_up[node.name] = SEEN_UP
        if found == "unready" and prompt and is_being_deleted(node):
            found = "leaving"
        elif found == "unready" and starts:
            never_ready.append(node.name)
            if node.created + startup_seconds + rules.first_backoff > now:  # at a first start, ignore older failures
                just_overdue.append(node.name)
        classes[found].append(node.name)
    patience = group.options.max_node_provision_seconds
    for instance_id in unregistered_ids(group, members):
        key = (group.ref, instance_id)
        late = key in memory.late or since.get(key, now) + patience < now
        classes["long_unregistered" if late else "unregistered"].append(instance_id)
    return Readiness(
        ready=settled.ready,
        suspended=settled.suspended,
        deleted=settled.deleted,
        never_ready=tuple(never_ready),
        just_overdue=tuple(just_overdue),
        never_up=never_up,
        **{name: tuple(names) for name, names in classes.items()},
    )


class _Settled(NamedTuple):
    """Names of nodes whose class does not change by time, and the others, which are neither ready, suspended nor deleted.

    ``doubles``: names of those others whose machine already counts as another node.
    """

    ready: tuple[str, ...]
    suspended: tuple[str, ...]
    deleted: tuple[str, ...]
    others: tuple[Node, ...]
    doubles: frozenset[str]


def _settle(ref: GroupRef, members: Membership, templates: TemplateSettings) -> _Settled:
    ready, suspended, deleted, others = list[Node](), list[str](), list[str](), list[Node]()
    for node in members.nodes.get(ref, ()):
        if not members.going.isdisjoint(names_of(node)):
            deleted.append(node.name)
        elif is_suspended(node):
            suspended.append(node.name)
        elif is_up(node, templates, members.accelerators):
            ready.append(node)
        else:
            others.append(node)
    doubles = _find_doubles(ready, others) if members.shared else frozenset()
    names = tuple(node.name for node in ready)
    return _Settled(names, tuple(suspended), tuple(deleted), tuple(others), doubles)


def _find_doubles(ready: Sequence[Node], others: Sequence[Node]) -> frozenset[str]:
    """Return the names of those of the others whose machine already counts as another node."""
    counted = {name for node in ready for name in names_of(node)}
    found = set[str]()
    for node in sorted(others, key=lambda node: node.created):
        if not counted.isdisjoint(names_of(node)):
            found.add(node.name)
        counted |= names_of(node)
    return frozenset(found)


def class_of(
    node: Node,
    templates: TemplateSettings,
    startup_seconds: float,
    now: float,
    accelerators: Accelerators = NO_ACCELERATORS,
) -> str:
    """Return a node's class: suspended, ready, not_started within ``startup_seconds``, or unready.

    A node whose accelerators have not appeared yet is not ready.
    """
    if is_suspended(node):
        return "suspended"
    if is_up(node, templates, accelerators):
        return "ready"
    created = node.metadata.creation_timestamp
    return "not_started" if created is not None and created.timestamp() + startup_seconds > now else "unready"


def is_up(node: Node, templates: TemplateSettings, accelerators: Accelerators) -> bool:
    """Return whether a node is ready and has its accelerators."""
    return is_ready(node, templates) and not accelerators.are_missing(node)


def _was_seen_up(node: Node, ref: GroupRef, memory: Memory) -> bool:
    """Return whether a node that is not up was up in an earlier loop.

    If it was up only briefly after it registered, its condition may look as if it never had been.
    """
    known = memory.never_up.get((ref, node.name))
    was_there = memory.members is not None and node.name in memory.members.group_of_node
    return known == SEEN_UP or (known is None and was_there and node.created <= memory.looked_at)


def _was_never_up(node: Node, ref: GroupRef, memory: Memory, now: float) -> bool:
    """Return whether a node that is not up now was never up before.

    The node object proves it; or it was so in the last loop and has reported no change since, or none that closely
    following loops could have missed. So a kubelet that stops reporting still counts as never up. A node that is Ready
    but lacks devices or has a startup taint counts only if it was observed when it was new, until it is up or no longer
    Ready.
    """
    known, reported = memory.never_up.get((ref, node.name)), _reported_at(node)
    is_close = memory.looked_at + CLOSE_SECONDS >= now
    if is_reported_ready(node):
        is_new = node.created > 0 and node.created + CLOSE_SECONDS >= now
        return is_new or (known is not None and (known == reported or is_close))
    if known == READY_ONCE:
        return False
    return was_never_ready(node) or (known is not None and (known == reported or is_close))


def _reported_at(node: Node) -> float:
    """Return when the condition ``Ready`` last changed (epoch seconds); READY_ONCE if it is True or has no time."""
    said = ready_condition(node)
    changed = said.last_transition_time if said is not None else None
    return changed.timestamp() if changed is not None and not is_reported_ready(node) else READY_ONCE


_MOST_NAMED = 5
# Up to this share of unready nodes among the other groups counts as few. With more, no group explains the failure.
_FEW = 0.1


class _Counts(NamedTuple):
    """The number of nodes that should run, and of those that are unready.

    Nodes that never became ready after a scale-up are left out: the failed scale-up is handled separately.
    """

    unready: int
    nodes: int

    def is_tolerated(self, settings: LoopSettings) -> bool:
        """Return False if more nodes are unready than both the count and the share that are tolerated."""
        return not (self.unready > settings.ok_total_unready_count and self.exceeds_share(settings))

    def are_few(self, settings: LoopSettings) -> bool:
        """Return whether so few nodes are unready that the cluster as a whole is not affected."""
        return self.is_tolerated(settings) and self.unready <= max(settings.ok_total_unready_count, _FEW * self.nodes)

    def exceeds_share(self, settings: LoopSettings) -> bool:
        return self.unready > settings.max_total_unready_percentage / 100 * self.nodes


def is_group_healthy(readiness: Readiness, settings: LoopSettings) -> bool:
    """Return False if too many of the group's nodes are unready.

    Machines that are upcoming, failed, given up, never registered or never ready do not count: they are handled
    separately.
    """
    never = len(readiness.never_ready)
    return _Counts(len(readiness.unready) - never, readiness.registered - never).is_tolerated(settings)


def find_unhealthy(
    groups: Mapping[GroupRef, GroupState],
    nodes_without_group: Sequence[str],
    held: UnhealthyCluster | None,
    loop: LoopSettings,
    policy: Policy,
    now: float,
) -> UnhealthyCluster | None:
    """Return why the cluster is unhealthy; None if it is healthy.

    ``nodes_without_group``: the classes of nodes of no group. ``held``: the result of the last loop.
    """
    counts = {ref: _count(group.readiness) for ref, group in groups.items()}
    outside = _Counts(nodes_without_group.count("unready"), len(nodes_without_group))
    whole = _add([outside, *counts.values()])
    if whole.is_tolerated(loop):
        return None
    since = min(held.since, now) if held is not None else now
    at_fault = tuple(ref for ref, group in groups.items() if _is_at_fault(group.backoff, counts[ref], loop, now))
    rest = _add([outside, *(counts[ref] for ref in groups if ref not in at_fault)])
    resumes = policy.resumes_while_unhealthy and len(at_fault) < len(groups) and rest.are_few(loop)
    return UnhealthyCluster(
        since=since,
        unready=whole.unready,
        nodes=whole.nodes,
        tolerated=max(loop.ok_total_unready_count, math.floor(loop.max_total_unready_percentage / 100 * whole.nodes)),
        at_fault=at_fault,
        resumes_at=since + loop.max_unhealthy_duration if resumes else 0.0,
    )


def describe_unhealthy(unhealthy: UnhealthyCluster, now: float) -> str:
    """Return one sentence: why the cluster is unhealthy, what is not planned, and what ends that."""
    counted = f"{unhealthy.unready} of {unhealthy.nodes} nodes are not ready, and {unhealthy.tolerated} may be"
    named = [str(ref) for ref in unhealthy.at_fault[:_MOST_NAMED]]
    more = len(unhealthy.at_fault) - len(named)
    others = f"groups other than {', '.join(named)}" + (f" and {more} more" if more else "")
    if has_resumed(unhealthy, now):
        return f"cluster is unhealthy: {counted}; only {others} are planned for until fewer are not ready"
    end = "nothing is planned until fewer are not ready"
    if unhealthy.resumes_at:
        end += f", or for {others} until {format_moment(unhealthy.resumes_at)}"
    return f"cluster is unhealthy: {counted}; {end}"


def _is_at_fault(backoff: Backoff | None, counts: _Counts, settings: LoopSettings, now: float) -> bool:
    """Return whether a group is at fault: too many of its nodes are unready, or it is also backed off."""
    return counts.unready > 0 and (counts.exceeds_share(settings) or is_active(backoff, now))


def _count(readiness: Readiness) -> _Counts:
    """Count a group's nodes, those being deleted included, as CA does."""
    never = len(readiness.never_ready)
    return _Counts(len(readiness.unready) - never, readiness.registered + len(readiness.deleted) - never)


def _add(counts: Sequence[_Counts]) -> _Counts:
    return _Counts(sum(one.unready for one in counts), sum(one.nodes for one in counts))
