"""How nodes with accelerators are known, and how many devices they offer."""

from collections.abc import Iterable
from dataclasses import dataclass

from nodewright.model.node import Node
from nodewright.snapshot.observation import ProviderSeen


@dataclass(frozen=True)
class Accelerators:
    """How GPU nodes are known: label keys whose value is the type, and the resources that count devices."""

    labels: tuple[str, ...]
    resources: tuple[str, ...]

    @staticmethod
    def of(providers: Iterable[ProviderSeen]) -> "Accelerators":
        seen = [provider for provider in providers if provider.gpu_label]
        labels = dict.fromkeys(provider.gpu_label for provider in seen)
        resources = dict.fromkeys(name for provider in seen for name in provider.gpu_resources)
        return Accelerators(tuple(labels), tuple(resources))

    def are_missing(self, node: Node) -> bool:
        """A node that should have devices and does not offer any yet (behaviour/up.md §1.5)."""
        kind, devices = self.count(node)
        return bool(kind) and not devices

    def count(self, node: Node) -> tuple[str, int]:
        """The node's GPU type and how many devices it offers; an empty type when it has none."""
        label = next((node.metadata.labels[key] for key in self.labels if key in node.metadata.labels), "")
        amounts = (node.allocatable[name].value for name in self.resources if name in node.allocatable)
        return label, next((amount for amount in amounts if amount > 0), 0) if label else 0


NO_ACCELERATORS = Accelerators((), ())
