"""The cloud of a case behind the provider port; it writes down every call that changes something."""

from collections.abc import Container, Sequence
from typing import Any

from nodewright.model.capability import Capability
from nodewright.model.clock import Clock
from nodewright.model.decode import convert_object
from nodewright.model.errors import ProviderError
from nodewright.model.group import (
    ErrorClass,
    FailedInstance,
    GroupOptions,
    Instance,
    InstanceState,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    ProviderInfo,
)
from nodewright.model.node import Node
from nodewright.spec import CloudProvisioningRequest
from runonce.world import SCHEME, Group, Machine, Refused, World, short_name

NAME = "fake"
GPU_RESOURCES = (
    "nvidia.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/xe",
    "amd.com/gpu",
    "microsoft.com/directx",
)
_CLASSES = {"OutOfResources": ErrorClass.OUT_OF_RESOURCES, "Other": ErrorClass.OTHER}
_OPTIONS = {
    "maxNodeProvisionTimeSeconds": "max_node_provision_seconds",
    "maxNodeStartupTimeSeconds": "max_node_startup_seconds",
    "zeroOrMaxNodeScaling": "zero_or_max_node_scaling",
    "scaleDownUnneededTimeSeconds": "scale_down_unneeded_seconds",
    "scaleDownUtilizationThreshold": "scale_down_utilization_threshold",
}
_CAPABILITIES = frozenset(
    {
        Capability.FAST_FAILURE_DETECTION,
        Capability.GROUP_OPTIONS,
        Capability.FORCE_DELETE,
        Capability.GPU,
        Capability.ATOMIC_RESIZE,
    }
)


class Cloud:
    """Implements ProviderPort. ``calls`` are the increases, decreases and deletions since it was last emptied."""

    def __init__(self, world: World, clock: Clock) -> None:
        self.info = ProviderInfo(name=NAME, capabilities=_CAPABILITIES)
        self.increases: list[dict[str, Any]] = []
        self.decreases: list[dict[str, Any]] = []
        self.deletions: list[tuple[str, str, bool]] = []
        self._world = world
        self._clock = clock

    def forget_calls(self) -> None:
        self.increases, self.decreases, self.deletions = [], [], []

    # Reads

    @property
    def name(self) -> str:
        return NAME

    def note_last_write(self, at: float) -> None:
        pass

    def capabilities(self, group: NodeGroup) -> frozenset[Capability]:  # noqa: ARG002 - every group's are the same
        return _CAPABILITIES

    def refresh(self, wanted: frozenset[str] = frozenset()) -> None:
        """Every read is of this moment."""

    def node_groups(self) -> Sequence[NodeGroup]:
        return [NodeGroup(id=g.id, min_size=g.min_size, max_size=g.max_size) for g in self._world.groups.values()]

    def names_of(self, known: Container[str]) -> frozenset[str]:  # noqa: ARG002 - no flag names a group
        return frozenset()

    def target_size(self, group_id: str) -> int:
        return self._group(group_id).target

    def instances(self, group_id: str) -> tuple[Instance, ...]:
        machines = self._group(group_id).machines.values()
        return tuple(Instance(id=machine.id, state=InstanceState(machine.state)) for machine in machines)

    def failed_instances(self, group_id: str) -> tuple[FailedInstance, ...]:
        return tuple(
            FailedInstance(
                failure_id=machine.id,
                instance_id=machine.id,
                error_class=_CLASSES[machine.error["class"]],
                code=machine.error["code"],
                message=machine.error.get("message", ""),
            )
            for machine in self._group(group_id).machines.values()
            if machine.error is not None and machine.state == "creating"
        )

    def template_node(self, group_id: str) -> NodeTemplate:
        template = self._group(group_id).template
        if template is None:
            raise ProviderError("no template", provider=NAME, group_id=group_id, code="notImplemented")
        node = convert_object(Node, template, f"template of {group_id}")
        return NodeTemplate(
            allocatable=node.status.allocatable,
            capacity=node.status.capacity,
            labels=node.metadata.labels,
            annotations=node.metadata.annotations,
            taints=node.spec.taints,
        )

    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        given = self._group(group_id).options
        own = {field: given[key] for key, field in _OPTIONS.items() if key in given}
        return GroupOptions(**{name: getattr(defaults, name) for name in GroupOptions.__struct_fields__} | own)

    def node_price(self, group_id: str) -> None:
        """There is no price model."""

    def ignored_labels(self) -> tuple[str, ...]:
        return ()

    def same_group_labels(self) -> tuple[str, ...]:
        return ()

    def gpu_label(self) -> str:
        return "example.com/accelerator"

    def gpu_types(self) -> tuple[str, ...]:
        return ()

    def gpu_resources(self) -> tuple[str, ...]:
        return GPU_RESOURCES

    def machine_types(self) -> None:
        """None: groups are made by people."""

    def interruptions(self) -> None:
        return None

    def provisioning_classes(self) -> None:
        """CA knows no such classes."""

    # Writes

    def create_node_group(self, spec: NewNodeGroup) -> None:
        raise ProviderError(f"{spec.group_id} is not made here")

    def delete_node_group(self, group_id: str) -> bool:
        raise ProviderError(f"{group_id} is not deleted here")

    def provision(self, request: CloudProvisioningRequest) -> None:
        raise ProviderError(f"{request.key} is of no class of this cloud")

    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._increase(group_id, target - expected_target, {})

    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._increase(group_id, target - expected_target, {"atomic": True})

    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        group, delta = self._group(group_id), target - expected_target
        call = {"group": group_id, "delta": delta}
        self.decreases.append(call)
        if group.target + delta < len(group.machines):
            call["error"] = True
            raise Refused("machines exist")
        group.target += delta
        return -delta

    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:  # noqa: ARG002 - deletion names its machines
        return self._delete(group_id, instance_ids, force=False)

    def force_delete_instances(
        self,
        group_id: str,
        instance_ids: Sequence[str],
        expected_target: int,  # noqa: ARG002 - deletion names its machines
    ) -> tuple[str, ...]:
        return self._delete(group_id, instance_ids, force=True)

    def _increase(self, group_id: str, delta: int, extra: dict[str, Any]) -> int:
        group, call = self._group(group_id), {"group": group_id, "delta": delta, **extra}
        self.increases.append(call)
        if group.target + delta > group.max_size or group.provisioning.get("mode") == "reject":
            call["error"] = True
            raise Refused("no")
        group.target += delta
        if group.provisioning.get("mode", "none") != "none":
            for _ in range(delta):
                self._make(group)
        return delta

    def _make(self, group: Group) -> None:
        machine = Machine(f"{SCHEME}{group.id}/{group.id}-auto-{group.made}")
        group.made += 1
        group.machines[machine.id] = machine
        how = group.provisioning
        if how["mode"] == "error":
            machine.state, machine.error = "creating", how["error"]
        elif how["mode"] == "nodes":
            machine.registers_at = self._clock.now() + how.get("registerAfterSeconds", 0)
            machine.ready_at = machine.registers_at + how.get("readyAfterSeconds", 0)

    def _delete(self, group_id: str, instance_ids: Sequence[str], *, force: bool) -> tuple[str, ...]:
        group, accepted = self._group(group_id), []
        for instance_id in instance_ids:
            self.deletions.append((group_id, short_name(instance_id), force))
            if instance_id in group.machines:
                self._world.remove_machine(group, instance_id)
                group.target -= 1
                accepted.append(instance_id)
        return tuple(accepted)

    def _group(self, group_id: str) -> Group:
        return self._world.groups[group_id]
