"""Whether growth keeps within CapacityQuotas, told from the rules alone (docs/capacity-quotas.md)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.meta import LabelSelector
from nodewright.model.node import Node
from nodewright.model.quantity import Quantity
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.validate.minima import devices_of
from nodewright.validate.movable import is_selected

Growth = tuple[GroupSeen, int]

_PART = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = re.compile(f"([a-z0-9.-]{{1,253}}/)?(?=.{{1,63}}$){_PART}")
_VALUE = re.compile(f"(?=.{{0,63}}$)({_PART})?")
_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")
_OFFERED = ("cpu", "memory", "ephemeral-storage", "nodes")


def exceeded_quotas(seen: Observation, growth: Sequence[Growth]) -> Iterator[str]:
    """What so many machines more in each group would exceed, beside the nodes that are there."""
    nodes = [node for _, node in seen.snapshot.nodes()]
    by_id = {node.spec.provider_id.lower(): node for node in nodes}
    examples = [(_examples(group, by_id), more) for group, more in growth]
    for quota in seen.quotas:
        for name, limit in _limits(quota, seen, nodes).items():
            held = sum(_amount(quota, node, name, seen) for node in nodes)
            wanted = sum(
                min((_amount(quota, node, name, seen) for node in alike), default=0) * more for alike, more in examples
            )
            if wanted and held + wanted > limit:
                yield f"{name} of {held} and {wanted} more exceeds {limit}, the limit of {quota.id}"


def _limits(quota: CapacityQuota, seen: Observation, nodes: Sequence[Node]) -> Mapping[str, int]:
    """Nothing of a quota that is wrong: it is not enforced."""
    if not _is_legal(quota.spec.selector or LabelSelector()):
        return {}
    templates = (group.template for group in seen.groups.values() if group.template is not None)
    types = {devices_of(node, seen.providers.values())[0] for node in chain(nodes, templates)}
    found: dict[str, int] = {}
    for name, text in quota.spec.limits.resources.items():
        is_known = name in _OFFERED or (name and name in types) or "/" in name or name.startswith("hugepages-")
        try:
            amount = Quantity.of(text)
        except ValueError:
            return {}
        if not is_known or amount.nano < 0 or amount != Quantity.of(amount.value):
            return {}
        found[name] = amount.value
    return found


def _is_legal(selector: LabelSelector) -> bool:
    plain = all(_KEY.fullmatch(key) and _VALUE.fullmatch(value) for key, value in selector.match_labels.items())
    return plain and all(
        _KEY.fullmatch(one.key) is not None
        and all(map(_VALUE.fullmatch, one.values))
        and one.operator in (_WITH_VALUES if one.values else _WITHOUT_VALUES)
        for one in selector.match_expressions
    )


def _examples(group: GroupSeen, by_id: Mapping[str, Node]) -> list[Node]:
    """What one more machine of the group may look like: as its nodes or as its template, of which the least counts."""
    ids = (instance.id.lower() for instance in group.instances or ())
    alike = [by_id[instance_id] for instance_id in ids if instance_id in by_id]
    return [*alike, group.template] if group.template is not None else alike


def _amount(quota: CapacityQuota, node: Node, name: str, seen: Observation) -> int:
    labels, capacity = node.metadata.labels, node.status.capacity
    is_counted = quota.spec.selector is None or is_selected(quota.spec.selector, labels)
    if not is_counted or labels.get("type") == "virtual-kubelet":
        return 0
    if name == "nodes":
        return 1
    kind, devices = devices_of(node, seen.providers.values())
    if name == kind:
        return devices
    return capacity[name].value if name in capacity else 0
