"""Several loops in a small world, each with the memory of the loop before."""

from dataclasses import dataclass, field, replace
from typing import Any

from nodewright.clusterstate.accelerators import DeviceCounter
from nodewright.clusterstate.state import ClusterState
from nodewright.model.limits import ResourceLimits
from nodewright.model.node import Node
from nodewright.model.plan import Plan, ScaleDownReport
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalStage, Removing
from nodewright.model.settings import Settings
from nodewright.planner.context import PlanningContext
from nodewright.planner.limits import Quota
from nodewright.testkit.world import World, ref, settings_with

MINUTE = 60.0


@dataclass
class Loops:
    """``settings`` by their names. No delay after anything, unless one is set."""

    world: World = field(default_factory=World)
    settings: dict[str, Any] = field(default_factory=dict)

    def plan(self, after: float = 0.0) -> Plan:
        """The plan of a loop so many seconds later."""
        self.world.now += after
        state = self.world.state(settings_with(**self.settings))
        self.world.memory = state.memory
        plan, remembered = self.world.plan_and_memory(**self.settings)
        self.world.memory = replace(state.memory, scale_down=remembered.scale_down)
        return plan

    def run(self, after: float = 0.0) -> ScaleDownReport:
        """What scale-down plans so many seconds later."""
        return self.plan(after).scale_down

    def node(self, name: str) -> Node:
        return next(node for node in self.world.nodes if node.name == name)

    def change(self, node: Node) -> None:
        """Put a node in the place of the one of its name."""
        self.world.nodes = [node if held.name == node.name else held for held in self.world.nodes]

    def begin(self, node: str, *, pods: tuple[str, ...] = ()) -> None:
        """A removal of the node is under way."""
        group = node.rpartition("-")[0]
        removal = NodeRemoval(
            node=node, group=ref(group), instance_id=f"cloud:///{group}/x", reason=RemovalReason.EMPTY, pods=pods
        )
        self.world.removing[node] = Removing(removal=removal, stage=RemovalStage.TAINTED, started=self.world.now)


def context_of(state: ClusterState, settings: Settings | None = None) -> PlanningContext:
    """The cluster as it is, to plan removals in."""
    snapshot, devices = state.observation.snapshot, DeviceCounter(state.observation)
    quota = Quota(snapshot, ResourceLimits(), devices)
    return PlanningContext(state=state, settings=settings or Settings(), snapshot=snapshot, templates={}, quota=quota)


def gone(report: ScaleDownReport) -> list[str]:
    """Nodes whose removal begins."""
    return [removal.node for removal in report.removals]


def codes(report: ScaleDownReport) -> dict[str, str]:
    """Node → the code of why it stays, CA's reasons and ours."""
    return {name: str(reason.code) for name, reason in {**report.passed_over, **report.unremovable}.items()}
