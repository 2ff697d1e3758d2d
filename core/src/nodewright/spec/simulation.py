"""SIMULATION: for clouds that exist in memory only, whose kubelets a simulated cluster plays.

These hooks tell what no cloud can say: how the machine's kubelet will behave, and when the cloud will
change next. They answer the truth of this moment, not that of the last ``refresh``, and are never subject to
injected faults: the simulated cluster is the world, not a client.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from nodewright.model.group import Value
from nodewright.model.quantity import Quantity
from nodewright.spec.markers import hookspec


class NodeStart(Value, frozen=True, kw_only=True):
    """How one running machine becomes a node.

    ``running_since`` is in epoch seconds. The kubelet registers ``register_after_seconds`` later, or never
    (None), and the node is ready ``ready_after_seconds`` after it registered. It offers what the group's template says,
    but for what is in ``offers``.
    """

    instance_id: str
    group_id: str
    node_name: str
    running_since: float
    register_after_seconds: float | None = 0.0
    ready_after_seconds: float = 0.0
    offers: Mapping[str, Quantity] = {}


class SimulationHooks(Protocol):
    """SIMULATION: the cloud can be simulated together with a cluster."""

    @hookspec(firstresult=True)
    def node_start(self, instance_id: str) -> NodeStart:
        """How this running machine becomes a node; raises ProviderError for a machine that does not run."""

    @hookspec(firstresult=True)
    def running_machines(self) -> Sequence[NodeStart]:
        """``node_start`` of every machine that runs now; one that is missing has been stopped."""

    @hookspec(firstresult=True)
    def next_change(self) -> float:
        """Epoch seconds at which the cloud changes next by itself, at the earliest; infinity if never."""
