"""SIMULATION: for clouds that exist only in memory, together with a simulated cluster.

These hooks return facts that a real cloud cannot give: how a machine's kubelet will behave, and when the cloud will
change next. They return the present state, not the state of the last ``refresh``. Injected faults never apply to them,
because the simulated cluster calls them, not the autoscaler.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from nodewright.model.group import Value
from nodewright.model.quantity import Quantity
from nodewright.spec.markers import hookspec


class NodeStart(Value, frozen=True, kw_only=True):
    """The start of one running machine as a node.

    ``running_since`` is in seconds since the epoch. The kubelet registers ``register_after_seconds`` later (None:
    never), and the node becomes ready ``ready_after_seconds`` after that. The node has the resources of the group's
    template; those in ``offers`` replace them.
    """

    instance_id: str
    group_id: str
    node_name: str
    running_since: float
    register_after_seconds: float | None = 0.0
    ready_after_seconds: float = 0.0
    offers: Mapping[str, Quantity] = {}


class SimulationHooks(Protocol):
    """SIMULATION: the cloud can run together with a simulated cluster."""

    @hookspec(firstresult=True)
    def running_machines(self) -> Sequence[NodeStart]:
        """Return how every machine that runs now becomes a node. A machine that is missing has been stopped."""

    @hookspec(firstresult=True)
    def next_change(self) -> float:
        """Return the earliest time at which the cloud changes by itself (seconds since the epoch; inf: never)."""
