"""Machines and groups of the fake cloud: what is, without what happens to it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec.structs import replace

from nodewright.spec import (
    Capability,
    FailedInstance,
    Instance,
    InstanceState,
    NodeGroup,
    NodeStart,
    NodeTemplate,
    Quantity,
    Taint,
)
from nodewright_fake.options import GroupConfig, MachineShape
from nodewright_fake.supply import Shortage


class Phase(StrEnum):
    """The life of one machine. A requested one is a mere number in the target: nothing is listed yet."""

    REQUESTED = "requested"
    CREATING = "creating"
    RUNNING = "running"
    DELETING = "deleting"
    FAILED = "failed"


_STATES = {
    Phase.CREATING: InstanceState.CREATING,
    Phase.RUNNING: InstanceState.RUNNING,
    Phase.DELETING: InstanceState.DELETING,
}


@dataclass
class Machine:
    """One machine, from the moment it counts in its group's target."""

    id: str
    name: str
    group: str
    phase: Phase = Phase.REQUESTED
    due: float = float("inf")
    start: NodeStart | None = None
    failure: FailedInstance | None = None
    doom: Shortage | None = None

    @property
    def is_listed(self) -> bool:
        return self.phase in _STATES

    @property
    def lives(self) -> bool:
        """There is a machine, and it is not on its way out."""
        return self.phase in (Phase.CREATING, Phase.RUNNING)


@dataclass
class Group:
    """One node group and everything in it, in the order of creation."""

    config: GroupConfig
    created_on_demand: bool = False
    switched_off: dict[Capability, str] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    target: int = 0
    made: int = 0

    @property
    def name(self) -> str:
        return self.config.name

    def add_machine(self) -> Machine:
        """A further requested machine; the target is the caller's business."""
        name = f"{self.name}-{self.made}"
        self.made += 1
        machine = Machine(id=f"fake:///{self.name}/{name}", name=name, group=self.name)
        self.machines[machine.id] = machine
        return machine

    def in_phase(self, *phases: Phase) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.phase in phases]

    def named(self, instance_id: str) -> list[Machine]:
        """What an id of ``instances`` or ``failed_instances`` stands for; nothing if it is gone or going."""
        machine = self.machines.get(instance_id)
        if machine is not None and machine.phase != Phase.DELETING:
            return [machine] if machine.phase != Phase.REQUESTED else []
        return [
            failed
            for failed in self.in_phase(Phase.FAILED)
            if failed.failure is not None and failed.failure.failure_id == instance_id
        ]


@dataclass(frozen=True)
class GroupView:
    """What a refresh sees of a group."""

    group: NodeGroup
    config: GroupConfig
    target: int
    instances: tuple[Instance, ...]
    failures: tuple[FailedInstance, ...]
    seen_at: float


def view_of(group: Group, now: float) -> GroupView:
    config = group.config
    listed = [machine for machine in group.machines.values() if machine.is_listed]
    return GroupView(
        group=NodeGroup(
            id=group.name,
            min_size=config.min_size,
            max_size=config.max_size,
            switched_off=dict(group.switched_off),
        ),
        config=config,
        target=group.target,
        instances=tuple(Instance(id=machine.id, state=_STATES[machine.phase]) for machine in listed),
        failures=_failures(group.in_phase(Phase.FAILED)),
        seen_at=now,
    )


def template_of(shape: MachineShape, *, zone: str = "", instance_type: str = "") -> NodeTemplate:
    """The node that a machine of this shape becomes."""
    offered = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods, **shape.resources}
    placed = {"topology.kubernetes.io/zone": zone, "node.kubernetes.io/instance-type": instance_type}
    return NodeTemplate(
        allocatable={name: Quantity.of(amount) for name, amount in offered.items()},
        labels={**{key: value for key, value in placed.items() if value}, **shape.labels},
        taints=tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in shape.taints),
    )


def _failures(failed: Sequence[Machine]) -> tuple[FailedInstance, ...]:
    """One value per failure: machines that failed together and have no id are one, with their count."""
    failures = [machine.failure for machine in failed if machine.failure is not None]
    counts = Counter(failure.failure_id for failure in failures)
    unique = {failure.failure_id: failure for failure in failures}
    return tuple(replace(failure, count=counts[failure_id]) for failure_id, failure in unique.items())
