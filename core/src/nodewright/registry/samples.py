"""Real nodes that show what a group's next node will be like (behaviour/up.md §4.2)."""

from collections.abc import Mapping

from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.settings import Settings
from nodewright.registry.accelerators import Accelerators
from nodewright.registry.membership import Membership
from nodewright.registry.readiness import is_being_deleted, is_ready, ready_since
from nodewright.registry.state import SampleNode
from nodewright.snapshot.observation import GroupSeen, Observation

STABLE_SECONDS = 60.0


def learn_samples(
    held: Mapping[GroupRef, SampleNode],
    members: Membership,
    groups: Mapping[GroupRef, GroupSeen],
    seen: Observation,
    settings: Settings,
) -> dict[GroupRef, SampleNode]:
    """The first good node of each group; else the one remembered; else, without a template, any node."""
    samples: dict[GroupRef, SampleNode] = {}
    for ref, group in groups.items():
        nodes = members.nodes.get(ref, [])
        good = next((node for node in nodes if _is_good(node, members.accelerators, settings, seen.now)), None)
        if good is not None:
            samples[ref] = _sample(good, seen)
        elif ref in held:
            samples[ref] = held[ref]
        elif group.template is None and nodes:
            samples[ref] = _sample(nodes[0], seen)
    return samples


def _is_good(node: Node, accelerators: Accelerators, settings: Settings, now: float) -> bool:
    """Ready for a while, with its accelerators, open for pods and not about to go."""
    usable = not node.spec.unschedulable and not is_being_deleted(node) and not accelerators.are_missing(node)
    return usable and is_ready(node, settings.templates) and ready_since(node) + STABLE_SECONDS < now


def _sample(node: Node, seen: Observation) -> SampleNode:
    pods = seen.snapshot.pods(seen.snapshot.row(node.name)) if node.name in seen.snapshot else ()
    stays = (pod for pod in pods if pod.is_mirror or pod.is_daemonset_pod)
    return SampleNode(node=node, pods=tuple(pod for pod in stays if pod.metadata.deletion_timestamp is None))
