"""Re-checks a plan before it is carried out (design.md §7).

Written from the rules alone, over plain nodes and pods: it shares no code with what made the plan.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nodewright.model.action import DecreaseTargetSize, DeleteInstances, IncreaseSize
from nodewright.model.group import InstanceState
from nodewright.model.limits import make_resource_limits
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import GroupSeen, Observation

Planned = IncreaseSize | DecreaseTargetSize | DeleteInstances


@dataclass(frozen=True)
class Violation:
    """An action that must not be carried out, and the rule that it breaks."""

    action: Planned
    rule: str


def check_actions(seen: Observation, actions: Sequence[Planned], settings: Settings) -> tuple[Violation, ...]:
    """Every violation of sizes, limits and identities; none for a sound plan."""
    found = [Violation(action, rule) for action in actions for rule in _broken_rules(seen, action)]
    growth = [action for action in actions if isinstance(action, IncreaseSize)]
    grown = Counter(action.group for action in growth)
    found += [Violation(action, "two increases of one group") for action in growth if grown[action.group] > 1]
    found += [Violation(action, rule) for action in growth[-1:] for rule in _broken_limits(seen, growth, settings)]
    return tuple(found)


def _broken_rules(seen: Observation, action: Planned) -> Iterator[str]:
    group = seen.groups.get(action.group)
    if group is None or group.target is None or group.instances is None:
        yield "the group's size is unknown"
    elif action.expected_target != group.target:
        yield f"planned for a target of {action.expected_target}, observed {group.target}"
    elif isinstance(action, IncreaseSize):
        yield from _broken_by_increase(group, action)
    elif isinstance(action, DecreaseTargetSize):
        there = sum(1 for instance in group.instances if instance.state != InstanceState.DELETING)
        if not there <= action.target < action.expected_target:
            yield f"a target of {action.target} is below the {there} machines that exist"
    else:
        yield from _broken_by_deletion(group, action)


def _broken_by_increase(group: GroupSeen, action: IncreaseSize) -> Iterator[str]:
    if action.target <= action.expected_target:
        yield "an increase that does not increase"
    if action.target > group.group.max_size:
        yield f"beyond the maximum of {group.group.max_size}"


def _broken_by_deletion(group: GroupSeen, action: DeleteInstances) -> Iterator[str]:
    known = {instance.id for instance in group.instances or ()}
    known |= {failure.instance_id or failure.failure_id for failure in group.failed or ()}
    strangers = [instance_id for instance_id in action.instance_ids if instance_id not in known]
    if strangers:
        yield f"no machines of the group: {', '.join(strangers)}"
    if len(set(action.instance_ids)) < len(action.instance_ids):
        yield "a machine is named twice"


def _broken_limits(seen: Observation, growth: Sequence[IncreaseSize], settings: Settings) -> Iterator[str]:
    """Cluster limits, from the nodes that are there and the machines asked for."""
    limits = make_resource_limits(settings.limits)
    added = [(seen.groups[a.group], a.target - a.expected_target) for a in growth if a.group in seen.groups]
    most, count = settings.limits.max_nodes_total, sum(more for _, more in added)
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
