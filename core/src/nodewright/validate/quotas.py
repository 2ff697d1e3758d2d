"""Check that growth respects CapacityQuotas and device limits, from the rules alone (docs/capacity-quotas.md)."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.meta import LabelSelector
from nodewright.model.node import Node
from nodewright.model.quantity import Quantity
from nodewright.snapshot.observation import GroupSeen, Observation
from nodewright.validate.pods import is_selected

Growth = tuple[GroupSeen, int]
_PART = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_KEY = re.compile(f"([a-z0-9.-]{{1,253}}/)?(?=.{{1,63}}$){_PART}")
_VALUE = re.compile(f"(?=.{{0,63}}$)({_PART})?")
_WITH_VALUES, _WITHOUT_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")
_OFFERED = ("cpu", "memory", "ephemeral-storage", "nodes")


class Devices:
    """Counts the accelerator devices of nodes.

    A node whose label names accelerators, but which does not offer them yet, counts with the smallest number of devices
    on its group's template and its group's other nodes.
    """

    def __init__(self, seen: Observation) -> None:
        self._seen = seen
        self._promised: dict[str, int] | None = None

    def of(self, node: Node) -> tuple[str, int]:
        """Return the type of a node's devices, from the GPU label of its provider, and how many devices it counts for."""
        kind, offered = self._offered(node)
        if not kind or offered:
            return kind, offered
        if self._promised is None:
            self._promised = self._find_promised()
        return kind, self._promised.get(node.spec.provider_id.lower(), 0)

    def _find_promised(self) -> dict[str, int]:
        """Return the number of devices that each machine of a group with a template should have, by its id in lower case."""
        nodes = {node.spec.provider_id.lower(): node for _, node in self._seen.snapshot.nodes()}
        promised = dict[str, int]()
        for group in self._seen.groups.values():
            ids = [instance.id.lower() for instance in group.instances or ()]
            if group.template is not None:
                alike = [group.template, *(nodes[machine] for machine in ids if machine in nodes)]
                amounts = [amount for amount in (self._offered(node)[1] for node in alike) if amount]
                promised |= dict.fromkeys(ids, min(amounts, default=0))
        return promised

    def _offered(self, node: Node) -> tuple[str, int]:
        providers = self._seen.providers.values()
        for provider in providers:
            kind = node.metadata.labels.get(provider.gpu_label, "") if provider.gpu_label else ""
            if kind:
                names = (name for other in providers for name in other.gpu_resources)
                amounts = (node.allocatable[name].value for name in names if name in node.allocatable)
                return kind, next((amount for amount in amounts if amount > 0), 0) or _in_slices(node)
        return "", 0


def _in_slices(node: Node) -> int:
    """Return how many whole devices of drivers for accelerators the slices of a template have."""
    slices = [one.spec for one in node.device_slices if re.match(r"(gpu|neuron|tpu)(\.|$)", one.spec.driver)]
    kinds = [device.attributes.get("type") for one in slices for device in one.devices]
    return sum(kind is None or kind.string in (None, "", "gpu", "neuron", "tpu") for kind in kinds)


def exceeded_quotas(seen: Observation, growth: Sequence[Growth]) -> Iterator[str]:
    """Yield the quotas that the existing nodes and the machines of ``growth`` together would exceed."""
    nodes, devices = [node for _, node in seen.snapshot.nodes()], Devices(seen)
    examples = _all_examples(nodes, growth)
    for quota in seen.quotas:
        chosen: list[Node] | None = None
        for name, limit in _limits(quota, seen, nodes).items():
            wanted = sum(_least(quota, alike, name, devices) * more for alike, more in examples)
            if not wanted:
                continue
            chosen = [node for node in nodes if _is_counted(quota, node)] if chosen is None else chosen
            held = sum(_amount(node, name, devices) for node in chosen)
            if held + wanted > limit:
                yield f"{name} of {held} and {wanted} more exceeds {limit}, the limit of {quota.id}"


def exceeded_devices(seen: Observation, growth: Sequence[Growth], most: Mapping[str, int]) -> Iterator[str]:
    """Yield the limits of --gpu-total that the existing nodes and the machines of ``growth`` would exceed."""
    nodes, devices = [node for _, node in seen.snapshot.nodes()], Devices(seen)
    examples = _all_examples(nodes, growth) if most else []
    for kind, limit in most.items():
        wanted = sum(
            min((_devices_of(kind, node, devices) for node in alike), default=0) * more for alike, more in examples
        )
        held = sum(_devices_of(kind, node, devices) for node in nodes) if wanted else 0
        if wanted and held + wanted > limit:
            yield f"{held} devices of {kind} and {wanted} more exceed the cluster's limit of {limit}"


def _devices_of(kind: str, node: Node, devices: Devices) -> int:
    found, amount = devices.of(node)
    return amount if found == kind and node.metadata.labels.get("type") != "virtual-kubelet" else 0


def _all_examples(nodes: Iterable[Node], growth: Sequence[Growth]) -> list[tuple[list[Node], int]]:
    by_id = {node.spec.provider_id.lower(): node for node in nodes}
    return [(_examples(group, by_id), more) for group, more in growth]


def _limits(quota: CapacityQuota, seen: Observation, nodes: Sequence[Node]) -> Mapping[str, int]:
    """Return the limits of a quota; none for an invalid quota, which is not enforced."""
    if not _is_legal(quota.spec.selector or LabelSelector()):
        return {}
    found: dict[str, int] = {}
    for name, text in quota.spec.limits.resources.items():
        try:
            amount = Quantity.of(text)
        except ValueError:
            return {}
        if not _is_known(name, seen, nodes) or amount.nano < 0 or amount != Quantity.of(amount.value):
            return {}
        found[name] = amount.value
    return found


def _is_known(name: str, seen: Observation, nodes: Iterable[Node]) -> bool:
    """Return whether nodes offer the resource, or a node, template or provider has accelerators of this type."""
    if name in _OFFERED or "/" in name or name.startswith("hugepages-"):
        return True
    if any(provider.gpu_label and name in provider.gpu_types for provider in seen.providers.values()):
        return True
    templates = (group.template for group in seen.groups.values() if group.template is not None)
    devices = Devices(seen)
    return any(name == devices.of(node)[0] for node in chain(nodes, templates) if name)


def _is_legal(selector: LabelSelector) -> bool:
    plain = all(_KEY.fullmatch(key) and _VALUE.fullmatch(value) for key, value in selector.match_labels.items())
    return plain and all(
        _KEY.fullmatch(one.key) is not None
        and all(map(_VALUE.fullmatch, one.values))
        and one.operator in (_WITH_VALUES if one.values else _WITHOUT_VALUES)
        for one in selector.match_expressions
    )


def _examples(group: GroupSeen, by_id: Mapping[str, Node]) -> list[Node]:
    """Return the nodes of the group and its template: one more machine may be like any of these."""
    ids = (instance.id.lower() for instance in group.instances or ())
    alike = [by_id[instance_id] for instance_id in ids if instance_id in by_id]
    return [*alike, group.template] if group.template is not None else alike


def _least(quota: CapacityQuota, alike: Sequence[Node], name: str, devices: Devices) -> int:
    """Return the smallest amount that one more machine like one of ``alike`` counts for."""
    if not all(_is_counted(quota, node) for node in alike):
        return 0
    return min((_amount(node, name, devices) for node in alike), default=0)


def _is_counted(quota: CapacityQuota, node: Node) -> bool:
    labels = node.metadata.labels
    is_chosen = quota.spec.selector is None or is_selected(quota.spec.selector, labels)
    return is_chosen and labels.get("type") != "virtual-kubelet"


def _amount(node: Node, name: str, devices: Devices) -> int:
    capacity = node.status.capacity
    if name == "nodes":
        return 1
    if name in capacity:
        return capacity[name].value
    kind, amount = devices.of(node)
    return amount if name == kind else 0
