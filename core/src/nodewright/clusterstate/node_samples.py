"""Sample nodes: existing nodes that show what a group's next node will be like."""

from collections.abc import Mapping

from msgspec.structs import replace

from nodewright.clusterstate.accelerators import Accelerators
from nodewright.clusterstate.membership import Membership
from nodewright.clusterstate.memory import Memory, SampleNode
from nodewright.clusterstate.purchases import asked_since
from nodewright.clusterstate.readiness import STATUS_PREFIX, is_being_deleted, is_startup_taint, is_up, ready_since
from nodewright.model.group import GroupRef
from nodewright.model.node import DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT, Node, Taint
from nodewright.model.policy import Policy
from nodewright.model.settings import TemplateSettings
from nodewright.snapshot.observation import GroupSeen, Observation

STABLE_SECONDS = 60.0

# The resources that a kubelet reports with its first status; devices come later.
STANDARD_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")

_NODE = "node.kubernetes.io/"
_CONDITION_TAINTS = frozenset(
    {
        *(f"{_NODE}{what}" for what in ("not-ready", "unreachable", "unschedulable", "network-unavailable")),
        *(f"{_NODE}{what}-pressure" for what in ("memory", "disk", "pid")),
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
        "cloud.google.com/impending-node-termination",
        "NodeWithImpairedVolumes",
    }
)


def update_samples(
    memory: Memory,
    members: Membership,
    groups: Mapping[GroupRef, GroupSeen],
    seen: Observation,
    templates: TemplateSettings,
    policy: Policy,
) -> dict[GroupRef, SampleNode]:
    """Return a sample node for each group that has one.

    Under profile "ca": the first good node, else the remembered one. Otherwise: the newest node that was bought,
    because older ones may have another size, else the remembered one. Of a group with a template, the node must exist and
    be no older than the template (``memory.learned``). A group without a template takes any node.
    """
    samples: dict[GroupRef, SampleNode] = {}
    for ref, group in groups.items():
        nodes, held = members.nodes.get(ref, []), memory.samples.get(ref)
        if not policy.samples_newest_node:
            good = next((node for node in nodes if _is_good(node, members.accelerators, templates, seen.now)), None)
            found = sample_of(good, seen) if good is not None else held
        else:
            found = _find_newest(ref, group, memory, members, seen, templates)
        if found is not None and _is_current(ref, found, group, members, memory):
            samples[ref] = found
        elif group.template is None and nodes:
            samples[ref] = sample_of(nodes[0], seen)
    return samples


def _find_newest(
    ref: GroupRef, group: GroupSeen, memory: Memory, members: Membership, seen: Observation, templates: TemplateSettings
) -> SampleNode | None:
    held, since = memory.samples.get(ref), asked_since(memory.purchases, ref)
    learned = memory.learned.get(ref)
    current = learned.since if learned is not None and group.template is not None else 0.0
    nodes = members.nodes.get(ref, [])
    if current:
        nodes = [node for node in nodes if node.created >= current]
    shown = held.node if held is not None else group.template

    def shows(node: Node) -> bool:
        """Return whether the node is good, or already offers less than the current sample."""
        if _is_good(node, members.accelerators, templates, seen.now):
            return True
        return shown is not None and is_usable(node, members.accelerators, templates) and _offers_less(node, shown)

    bought = [node for node in nodes if node.created >= since and shows(node)]
    if bought:
        return sample_of(max(bought, key=lambda node: node.created), seen)
    row = seen.snapshot.find_row(held.node.name) if held is not None else None
    if held is not None and row is not None and members.group_of_node.get(held.node.name) == ref:
        node = seen.snapshot.node(row)
        good = _is_good(node, members.accelerators, templates, seen.now)
        return sample_of(_without_new_taints(node, held.node), seen) if good else held
    others = [node for node in nodes if _is_good(node, members.accelerators, templates, seen.now)]
    return sample_of(max(others, key=lambda node: node.created), seen) if others else held


def _is_current(ref: GroupRef, sample: SampleNode, group: GroupSeen, members: Membership, memory: Memory) -> bool:
    """Return whether a sample may take precedence over the provider's template."""
    learned = memory.learned.get(ref)
    if learned is None or group.template is None:
        return True
    return sample.node.created >= learned.since and members.group_of_node.get(sample.node.name) == ref


def is_passing(taint: Taint, settings: TemplateSettings) -> bool:
    """Return whether a taint concerns one node now, not every node of the group."""
    own = taint.key in (TO_BE_DELETED_TAINT, DELETION_CANDIDATE_TAINT) or taint.key in _CONDITION_TAINTS
    status = taint.key in settings.status_taint or taint.key.startswith(STATUS_PREFIX)
    return own or status or is_startup_taint(taint.key, settings)


def is_usable(node: Node, accelerators: Accelerators, templates: TemplateSettings) -> bool:
    """Return whether a node is ready, schedulable, has its accelerators and is not being deleted."""
    stays = not node.spec.unschedulable and not is_being_deleted(node)
    return stays and is_up(node, templates, accelerators)


def is_stable(node: Node, now: float, seconds: float = STABLE_SECONDS) -> bool:
    """Return whether a ready node has been ready long enough to show its devices, labels and DaemonSets."""
    return ready_since(node) + seconds < now


def sample_of(node: Node, seen: Observation) -> SampleNode:
    """Return the node with its mirror and DaemonSet pods."""
    pods = seen.snapshot.pods(seen.snapshot.row(node.name)) if node.name in seen.snapshot else ()
    stays = (pod for pod in pods if pod.is_mirror or pod.is_daemonset_pod)
    return SampleNode(node=node, pods=tuple(pod for pod in stays if pod.metadata.deletion_timestamp is None))


def _without_new_taints(node: Node, before: Node) -> Node:
    """Return the node without taints that it got after it became a sample: they concern this node only."""
    taints = tuple(taint for taint in node.spec.taints if taint in before.spec.taints)
    if len(taints) == len(node.spec.taints):
        return node
    return replace(node, spec=replace(node.spec, taints=taints))


def _is_good(node: Node, accelerators: Accelerators, templates: TemplateSettings, now: float) -> bool:
    return is_usable(node, accelerators, templates) and is_stable(node, now)


def _offers_less(node: Node, other: Node) -> bool:
    mine, its = node.allocatable, other.allocatable
    return any(name in mine and name in its and mine[name].nano < its[name].nano for name in STANDARD_RESOURCES)
