"""Recognize nodes with accelerators, and count the devices that they offer."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from nodewright.model.devices import Device
from nodewright.model.node import Node
from nodewright.snapshot.observation import Observation, ProviderSeen

# Drivers of dynamic resource allocation for accelerators are called gpu.nvidia.com, tpu.google.com and the like. Other drivers
# of such a node, as those for networks, do not stand for its accelerators.
_KINDS = frozenset({"gpu", "neuron", "tpu"})


@dataclass(frozen=True)
class Accelerators:
    """The way to recognize nodes with accelerators.

    ``labels``: label keys whose value is the type. ``resources``: the resources that count devices. ``late``: names of
    nodes on which a driver has not published all ResourceSlices yet. ``published``: names of nodes whose accelerators are
    in ResourceSlices; the resources may be missing there.
    """

    labels: tuple[str, ...]
    resources: tuple[str, ...]
    late: frozenset[str] = frozenset()
    published: frozenset[str] = frozenset()

    @staticmethod
    def of(providers: Iterable[ProviderSeen]) -> "Accelerators":
        seen = [provider for provider in providers if provider.gpu_label]
        labels = dict.fromkeys(provider.gpu_label for provider in seen)
        resources = dict.fromkeys(name for provider in seen for name in provider.gpu_resources)
        return Accelerators(tuple(labels), tuple(resources))

    def are_missing(self, node: Node) -> bool:
        """Return whether a node should have devices and offers none yet.

        See docs/behaviour/loop.md#nodes-that-are-not-ready-yet.
        """
        if node.name in self.late:
            return True
        kind, devices = self.count(node)
        return bool(kind) and not devices and node.name not in self.published

    def count(self, node: Node) -> tuple[str, int]:
        """Return the node's type of accelerator, empty if it has none, and how many devices it offers.

        A template without such a resource offers the devices of its ResourceSlices.
        """
        label = next((node.metadata.labels[key] for key in self.labels if key in node.metadata.labels), "")
        if not label:
            return "", 0
        amounts = (node.allocatable[name].value for name in self.resources if name in node.allocatable)
        offered = next((amount for amount in amounts if amount > 0), 0)
        return label, offered or sum(
            is_whole(device)
            for one in node.device_slices
            if serves_accelerators(one.spec.driver)
            for device in one.spec.devices
        )


def serves_accelerators(driver: str) -> bool:
    """Return whether a driver's name says that its devices are accelerators."""
    return driver.partition(".")[0] in _KINDS


def is_whole(device: Device) -> bool:
    """Return whether a device is a whole accelerator, and not a part of one (``type: mig``)."""
    kind = device.attributes.get("type")
    return kind is None or kind.string in (None, "", *_KINDS)


NO_ACCELERATORS = Accelerators((), ())


class DeviceCounter:
    """Counts devices for limits.

    A node whose device plugin has not reported yet counts the devices of its group's template, because the machine has
    them; CA counts them too. A node of no group counts what it offers.
    """

    def __init__(self, seen: Observation) -> None:
        self._accelerators = Accelerators.of(seen.providers.values())
        self._seen = seen

    def count(self, node: Node) -> tuple[str, int]:
        """Return the node's GPU type, empty where it has none, and how many devices it counts for."""
        kind, devices = self._accelerators.count(node)
        if not kind or devices:
            return kind, devices
        template = self._templates.get(node.spec.provider_id.lower())
        return kind, self._accelerators.count(template)[1] if template is not None else 0

    @cached_property
    def _templates(self) -> Mapping[str, Node]:
        """Return the templates of groups with accelerators, by the ids of their machines in lower case."""
        return {
            instance.id.lower(): group.template
            for group in self._seen.groups.values()
            if group.template is not None and self._accelerators.count(group.template)[1]
            for instance in group.instances or ()
        }
