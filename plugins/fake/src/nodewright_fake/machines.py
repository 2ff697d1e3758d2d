"""The machines and groups of the fake cloud: their state at one moment."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from msgspec.structs import replace

from nodewright.spec import (
    Capability,
    Device,
    DeviceAttribute,
    DeviceCapacity,
    FailedInstance,
    Instance,
    InstanceState,
    NodeGroup,
    NodeStart,
    NodeTemplate,
    Quantity,
    ResourcePool,
    ResourceSliceSpec,
    Taint,
)
from nodewright_fake.options import DevicesConfig, GroupConfig, MachineShape
from nodewright_fake.supply import Shortage


class Phase(StrEnum):
    """The life of one machine. A requested machine only counts in the target: nothing is listed yet."""

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
    """One machine, from the moment when it counts in the target of its group."""

    id: str
    name: str
    group: str
    phase: Phase = Phase.REQUESTED
    due: float = float("inf")
    start: NodeStart | None = None
    failure: FailedInstance | None = None
    doom: Shortage | None = None
    made_from: str = ""

    @property
    def is_listed(self) -> bool:
        """Whether ``instances`` lists the machine."""
        return self.phase in _STATES

    @property
    def lives(self) -> bool:
        """Whether the machine exists and is not being deleted."""
        return self.phase in (Phase.CREATING, Phase.RUNNING)


@dataclass
class Group:
    """One node group and its machines, in the order of creation. If ``is_listed`` is false, reads do not show it."""

    config: GroupConfig
    autoprovisioned: str = ""
    switched_off: dict[Capability, str] = field(default_factory=dict)
    machines: dict[str, Machine] = field(default_factory=dict)
    target: int = 0
    made: int = 0
    seen: "GroupView | None" = None
    is_listed: bool = True

    @property
    def name(self) -> str:
        return self.config.name

    def add_machine(self) -> Machine:
        """Add a requested machine and return it. The caller raises the target."""
        name = f"{self.name}-{self.made}"
        self.made += 1
        machine = Machine(id=f"fake:///{self.name}/{name}", name=name, group=self.name, made_from=self.config.image)
        self.machines[machine.id] = machine
        return machine

    def set_target(self, target: int) -> None:
        """Set the target size."""
        self.target = target
        self.seen = None

    def in_phase(self, *phases: Phase) -> list[Machine]:
        """Return the machines in these phases, in the order of creation."""
        return [machine for machine in self.machines.values() if machine.phase in phases]

    def named(self, instance_id: str) -> list[Machine]:
        """Return the machines that an id of ``instances`` or ``failed_instances`` names, without those being deleted."""
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
    """What a refresh reads of a group."""

    group: NodeGroup
    config: GroupConfig
    target: int
    instances: tuple[Instance, ...]
    failures: tuple[FailedInstance, ...]
    running: tuple[NodeStart, ...]
    template: NodeTemplate


def view_of(group: Group) -> GroupView:
    """Return the current view of the group: the same object until the group changes."""
    if group.seen is None:
        group.seen = _make_view(group)
    return group.seen


def _make_view(group: Group) -> GroupView:
    config = group.config
    machines = group.machines.values()
    return GroupView(
        group=NodeGroup(
            id=group.name,
            min_size=config.min_size,
            max_size=config.max_size,
            switched_off=dict(group.switched_off),
            autoprovisioned=group.autoprovisioned,
            made_from=config.image,
            buckets=frozenset(config.buckets),
        ),
        config=config,
        target=group.target,
        instances=tuple(
            Instance(id=m.id, state=_STATES[m.phase], made_from=m.made_from) for m in machines if m.is_listed
        ),
        failures=_failures(group.in_phase(Phase.FAILED)),
        running=tuple(m.start for m in machines if m.phase == Phase.RUNNING and m.start is not None),
        template=template_of(config, zone=config.zone, instance_type=config.instance_type),
    )


def template_of(shape: MachineShape, *, zone: str = "", instance_type: str = "") -> NodeTemplate:
    """Return the node that a machine of this shape becomes."""
    offered = {"cpu": shape.cpu, "memory": shape.memory, "pods": shape.pods, **shape.resources}
    placed = {"topology.kubernetes.io/zone": zone, "node.kubernetes.io/instance-type": instance_type}
    return NodeTemplate(
        allocatable={name: Quantity.of(amount) for name, amount in offered.items()},
        labels={**{key: value for key, value in placed.items() if value}, **shape.labels},
        taints=tuple(Taint(key=taint.key, value=taint.value, effect=taint.effect) for taint in shape.taints),
        slices=tuple(_slice_of(devices, str(index)) for index, devices in enumerate(shape.devices)),
    )


def _slice_of(config: DevicesConfig, pool: str) -> ResourceSliceSpec:
    """Return the slice of equal devices, in a pool of its own."""
    attributes = {name: _attribute_of(value) for name, value in config.attributes.items()}
    capacity = {name: DeviceCapacity(value=Quantity.of(amount)) for name, amount in config.capacity.items()}
    devices = (Device(name=f"{index:03}", attributes=attributes, capacity=capacity) for index in range(config.count))
    return ResourceSliceSpec(driver=config.driver, pool=ResourcePool(name=pool), devices=tuple(devices))


def _attribute_of(value: str | int | bool) -> DeviceAttribute:
    if isinstance(value, bool):
        return DeviceAttribute(boolean=value)
    return DeviceAttribute(integer=value) if isinstance(value, int) else DeviceAttribute(string=value)


def _failures(failed: Sequence[Machine]) -> tuple[FailedInstance, ...]:
    """Return one value per failure: machines without an id that failed together are one failure with a count."""
    failures = [machine.failure for machine in failed if machine.failure is not None]
    counts = Counter(failure.failure_id for failure in failures)
    unique = {failure.failure_id: failure for failure in failures}
    return tuple(replace(failure, count=counts[failure_id]) for failure_id, failure in unique.items())
