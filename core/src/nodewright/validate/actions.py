"""Check planned cloud writes before they are made.

The check is written from the rules alone, over plain nodes and pods. It shares no code with the planner. Deletions without
a drain are checked against the nodes of the machines (docs/adr/0023-evidence-for-deletions.md): if a machine has a node, the
cloud's report about the machine is not sufficient, and the node must confirm it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace as changed

from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    DeletionCause,
    GroupWrite,
    IncreaseSize,
    SizeWrite,
)
from nodewright.model.group import GroupRef, Machine, MachineType, NodeGroup, make_template_node
from nodewright.model.limits import make_resource_limits
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.removal import NodeRemoval
from nodewright.model.settings import AutoprovisioningSettings, LimitSettings, Settings
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.validate.quotas import exceeded_devices, exceeded_quotas

# A kubelet that has never been ready reports this at most this many seconds after its node was created.
_FIRST_STATUS_SECONDS = 30.0
# The node controller's reason for a kubelet that registered and never reported a status.
_NEVER_REPORTED = "NodeStatusNeverUpdated"


class NodesOfMachines:
    """The nodes of each machine. Ids are compared without case: the only possible mistake keeps a machine."""

    def __init__(self, nodes: Iterable[Node], pods_on: Callable[[Node], Iterable[Pod]]) -> None:
        self._nodes = nodes
        self._pods_on = pods_on
        self._by_machine: Mapping[str, list[Node]] | None = None

    def broken_by(self, action: DeleteInstances, overdue_before: float = math.inf) -> Iterator[str]:
        """Yield the rules that the deletion breaks.

        A node created after ``overdue_before`` (epoch seconds) may still be starting.
        """
        for instance_id in action.instance_ids:
            for node in self._find(instance_id):
                why = self._why_not(action.cause, node)
                if action.cause == DeletionCause.NEVER_READY and node.created > overdue_before:
                    why = why or "which may still become ready"
                if why:
                    yield f"machine {instance_id} is node {node.name}, {why}"

    def has_any(self, instance_ids: Iterable[str]) -> bool:
        """Return whether one of these machines is a node."""
        return any(map(self._find, instance_ids))

    def _why_not(self, cause: DeletionCause, node: Node) -> str:
        if cause in (DeletionCause.UNREGISTERED, DeletionCause.FAILED_CREATION):
            return "so it did register"
        if cause == DeletionCause.NEVER_READY and _was_ready(node):
            return "which is ready or was"
        if cause in (DeletionCause.RESERVATION, DeletionCause.NEVER_READY):
            pods = (pod for pod in self._pods_on(node) if not (pod.is_daemonset_pod or pod.is_mirror))
            leaves = cause == DeletionCause.NEVER_READY  # without a working kubelet a terminating pod never ends
            running = next((p for p in pods if not (leaves and p.metadata.deletion_timestamp is not None)), None)
            return f"and pod {running.key} runs on it" if running is not None else ""
        return "which is ready or was" if _was_ready(node) else ""

    def _find(self, instance_id: str) -> list[Node]:
        if self._by_machine is None:
            found: dict[str, list[Node]] = {}
            for node in self._nodes:
                found.setdefault(node.spec.provider_id.lower(), []).append(node)
            self._by_machine = found
        return self._by_machine.get(instance_id.lower(), [])


def _was_ready(node: Node) -> bool:
    """Return False only if the node's kubelet never reported a status, or its first status was "not ready" and never changed."""
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    if ready is not None and ready.status != "True" and ready.reason == _NEVER_REPORTED:
        return False
    created = node.metadata.creation_timestamp
    if ready is None or ready.status == "True" or ready.last_transition_time is None or created is None:
        return True
    return abs((ready.last_transition_time - created).total_seconds()) > _FIRST_STATUS_SECONDS


Planned = SizeWrite | GroupWrite
Groups = Mapping[GroupRef, GroupSeen]


@dataclass(frozen=True)
class PlanViolation:
    """An action that must not be carried out, and the rule that it breaks."""

    action: Planned | NodeRemoval
    rule: str


def check_actions(seen: Observation, actions: Sequence[Planned], settings: Settings) -> tuple[PlanViolation, ...]:
    """Return every violation of sizes, limits and identities; empty if the plan is correct."""
    sequence = _ActionSequence(seen, settings)
    found = [PlanViolation(action, rule) for action in actions for rule in sequence.follow(action)]
    growth = [
        (sequence.groups[action.group], action)
        for action in actions
        if isinstance(action, IncreaseSize) and action.group in sequence.groups
    ]
    found += [
        PlanViolation(action, rule)
        for _, action in growth[-1:]
        for rule in _broken_limits(seen, growth, settings.limits, settings.policy)
    ]
    return tuple(found)


class _ActionSequence:
    """The groups with their target sizes and machines, updated after each action of a plan.

    CA requests decreases without a check whether the machines exist; the cloud then refuses. Under
    ``_leaves_refusing_to_cloud`` such decreases are no violation.
    """

    def __init__(self, seen: Observation, settings: Settings) -> None:
        self.groups = dict(seen.groups)
        self._seen = seen
        self._settings = settings
        self._leaves_refusing_to_cloud = not settings.policy.awaits_corrections
        self._targets = {ref: group.target for ref, group in seen.groups.items()}
        self._deleted = set[Machine]()
        snapshot = seen.snapshot
        nodes = (node for _, node in snapshot.nodes())
        self._nodes = NodesOfMachines(nodes, lambda node: snapshot.pods(snapshot.row(node.name)))
        self._hedged = 0

    def follow(self, action: Planned) -> list[str]:
        """Return the rules that the action breaks, and apply its effect for the check of later actions."""
        if isinstance(action, CreateNodeGroup):
            broken = list(broken_by_creation(self._seen, self.groups, action, self._settings.autoprovisioning))
            if not broken:
                self.groups[action.group], self._targets[action.group] = created_group(self._seen, action), 0
            return broken
        broken = list(self._broken_rules(action))
        group = self.groups.get(action.group)
        if group is not None and not broken:
            self._targets[action.group] = self._target_after(group, action)
        return broken

    def _broken_rules(self, action: SizeWrite | DeleteNodeGroup) -> Iterator[str]:
        group, target = self.groups.get(action.group), self._targets.get(action.group)
        if group is None or target is None or group.instances is None:
            yield "the group's size is unknown"
        elif action.expected_target != target:
            yield f"planned for a target of {action.expected_target}, observed {target}"
        elif isinstance(action, DeleteNodeGroup):
            yield from broken_by_group_deletion(group, action, target)
        elif isinstance(action, IncreaseSize):
            yield from _broken_by_increase(group, action)
            yield from self._broken_by_hedge(group, action)
        elif isinstance(action, DeleteInstances):
            yield from _broken_by_deletion(group, action)
            if self._settings.policy.spares_machines_that_ran:
                yield from self._nodes.broken_by(action, self._seen.now - group.options.max_node_startup_seconds)
        elif not action.target < target:
            yield "the target of a decrease is not below the present target"
        elif action.target < self._there(group) and not self._leaves_refusing_to_cloud:
            yield f"a target of {action.target} is below the {self._there(group)} machines that exist"

    def _broken_by_hedge(self, group: GroupSeen, action: IncreaseSize) -> Iterator[str]:
        """Check hedged machines (bought twice, in two groups), over all groups of the plan.

        Hedges of earlier plans are not known here.
        """
        if not action.hedged:
            return
        nodes = sum(1 for _ in self._seen.snapshot.nodes())
        self._hedged += action.hedged
        if self._hedged > self._settings.failures.most_hedged(nodes):
            yield f"{self._hedged} hedged machines exceed --max-hedged-nodes={self._settings.failures.max_hedged_nodes}"
        if action.hedged > action.target - action.expected_target:
            yield "more hedged machines than the increase asks for"
        if action.group in action.hedge_for or not action.hedge_for:
            yield "the hedge names no other group"
        if action.atomic or action.request is not None or group.options.zero_or_max_node_scaling:
            yield "a hedge must not be an all-or-nothing increase"
        if not self._settings.policy.doubts_silent_groups:
            yield f"size correction {self._settings.policy.rule} allows no hedge"

    def _target_after(self, group: GroupSeen, action: SizeWrite | DeleteNodeGroup) -> int | None:
        """Return the target after the action; None: the group is deleted."""
        if isinstance(action, DeleteNodeGroup):
            return None
        if isinstance(action, IncreaseSize):
            return action.target
        if isinstance(action, DecreaseTargetSize):
            return action.target if action.target >= self._there(group) else action.expected_target
        counts = {f.instance_id or f.failure_id: f.count for f in group.failed or ()}
        self._deleted.update((group.ref, instance_id) for instance_id in action.instance_ids)
        return action.expected_target - sum(counts.get(instance_id, 1) for instance_id in action.instance_ids)

    def _there(self, group: GroupSeen) -> int:
        """Return how many machines exist and are not being deleted."""
        return sum((group.ref, instance.id) not in self._deleted for instance in group.staying)


def _broken_by_increase(group: GroupSeen, action: IncreaseSize) -> Iterator[str]:
    if action.target <= action.expected_target:
        yield "the target of an increase is not above the present target"
    if action.target > group.group.max_size:
        yield f"above the group's maximum size of {group.group.max_size}"


def _broken_by_deletion(group: GroupSeen, action: DeleteInstances) -> Iterator[str]:
    known = {instance.id for instance in group.instances or ()}
    known |= {failure.instance_id or failure.failure_id for failure in group.failed or ()}
    unknown_ids = [instance_id for instance_id in action.instance_ids if instance_id not in known]
    if unknown_ids:
        yield f"not machines of the group: {', '.join(unknown_ids)}"
    if len(set(action.instance_ids)) < len(action.instance_ids):
        yield "a machine is named twice"


def _broken_limits(
    seen: Observation, growth: Sequence[tuple[GroupSeen, IncreaseSize]], settings: LimitSettings, policy: Policy
) -> Iterator[str]:
    """Check the limits of the cluster, from the nodes that exist and the machines that the plan adds."""
    limits = make_resource_limits(settings)
    added = [(group, action.target - action.expected_target) for group, action in growth]
    most = settings.max_nodes_total
    # CA compares the limit with each group that it grows to its minimum size, not with the sum of these groups.
    if not policy.limits_minimum_sizes_together:
        growth = [(group, action) for group, action in growth if action.target > group.group.min_size]
    count = sum(action.target - action.expected_target for _, action in growth)
    nodes = [node for _, node in seen.snapshot.nodes()]
    if most and count and len(nodes) + count > most:
        yield f"{len(nodes)} nodes and {count} more exceed --max-nodes-total={most}"
    for name, limit in (("cpu", limits.max_cores), ("memory", limits.max_memory_bytes)):
        offers = [node.status.capacity for node in nodes if node.metadata.labels.get("type") != "virtual-kubelet"]
        held = sum(offer[name].value for offer in offers if name in offer)
        templates = [(g.template.status.capacity, more) for g, more in added if g.template is not None]
        wanted = sum(offer[name].value * more for offer, more in templates if name in offer)
        if wanted and held + wanted > limit:
            yield f"{name} of {held} and {wanted} more exceeds the cluster's limit of {limit}"
    yield from exceeded_devices(seen, added, limits.max_gpu)
    if settings.capacity_quotas_enabled:
        yield from exceeded_quotas(seen, added)


def broken_by_creation(
    seen: Observation, groups: Groups, action: CreateNodeGroup, limits: AutoprovisioningSettings
) -> Iterator[str]:
    """Yield the rules that creating a group breaks. ``groups`` holds the observed groups and those created before it."""
    spec = action.spec
    if not limits.node_autoprovisioning_enabled:
        yield "--node-autoprovisioning-enabled is off"
    if action.group in groups:
        yield "the group exists already"
    if spec.group_id != action.group.group_id:
        yield f"it would be created with the id {spec.group_id}"
    if (
        sum(bool(group.group.autoprovisioned) for group in groups.values())
        >= limits.max_autoprovisioned_node_group_count
    ):
        yield f"more than --max-autoprovisioned-node-group-count={limits.max_autoprovisioned_node_group_count}"
    kind = _machine_type(seen, action)
    if kind is None:
        yield f"the provider cannot create groups of machine type {spec.machine_type}"
    elif any(kind.template.labels.get(key, value) != value for key, value in spec.labels.items()):
        yield "its labels contradict those of its machine type"


def broken_by_group_deletion(group: GroupSeen, action: DeleteNodeGroup, target: int) -> Iterator[str]:
    """Yield the rules that deleting a group breaks.

    ``target`` is the group's target after the actions before this one.
    """
    if not group.group.autoprovisioned:
        yield "nodewright did not create the group"
    if target or group.target or group.instances or group.failed or action.expected_target:
        yield "the group is not empty"


def created_group(seen: Observation, action: CreateNodeGroup) -> GroupSeen:
    """Return the empty group that the action creates. Its machine type must be known."""
    spec, kind = action.spec, _machine_type(seen, action)
    assert kind is not None
    labels, taints = {**kind.template.labels, **spec.labels}, (*kind.template.taints, *spec.taints)
    template = changed(kind.template, labels=labels, taints=taints)
    return GroupSeen(
        ref=action.group,
        group=NodeGroup(id=spec.group_id, min_size=0, max_size=spec.max_size, autoprovisioned=spec.machine_type),
        target=0,
        instances=(),
        template=make_template_node(action.group, template),
    )


def _machine_type(seen: Observation, action: CreateNodeGroup) -> MachineType | None:
    provider = seen.providers.get(action.group.provider)
    kinds = provider.machine_types if provider is not None else ()
    return next((kind for kind in kinds if kind.name == action.spec.machine_type), None)
