"""What devices nodes count for in limits, told from the observation alone (behaviour/up.md §4.9)."""

from nodewright.model.node import Node
from nodewright.snapshot.observation import Observation


class Devices:
    """Knows the devices of nodes.

    A node that offers none, although its label promises some, has as many as its group's template or, where they offer
    fewer, its group's other nodes.
    """

    def __init__(self, seen: Observation) -> None:
        self._seen = seen
        self._promised: dict[str, int] | None = None

    def of(self, node: Node) -> tuple[str, int]:
        """Return the kind of a node's devices, which a label of its provider tells, and how many it counts for."""
        kind, offered = self._offered(node)
        if not kind or offered:
            return kind, offered
        if self._promised is None:
            self._promised = self._find_promised()
        return kind, self._promised.get(node.spec.provider_id.lower(), 0)

    def _find_promised(self) -> dict[str, int]:
        """Return the devices that machines of groups with a template should have, by their ids in lower case."""
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
                return kind, next((amount for amount in amounts if amount > 0), 0)
        return "", 0
