"""An engine whose ports and planning a test can replace."""

from collections.abc import Callable, Container, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from nodewright import spec
from nodewright.actuation import AuditLog
from nodewright.clusterstate.memory import Memory, PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.planning import Planning
from nodewright.engine.ports import ClusterObservation, Event, Eviction, GangView, Loaded, NodeView, Pause, Ports
from nodewright.model.capability import Capability
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.errors import KubeApiError, NodewrightError, OutOfCapacity, ProviderError
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
)
from nodewright.model.meta import Condition
from nodewright.model.node import Node
from nodewright.model.plan import Plan, PlannedAction
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import FakeClock, build_group, build_node, build_template
from nodewright.validate import PlanViolation


class EngineHarness:
    """All ports of an engine, and a planning that returns the plans of the test.

    ``order`` keeps the sequence in which things were asked; ``plans`` what the next loops plan.
    """

    def __init__(self) -> None:
        self.name = "p"
        self.info = ProviderInfo(name="p")
        self.clock = FakeClock(1000.0)
        self.order: list[str] = []
        self.events: list[Event] = []
        self.plans: list[Plan] = []
        self.violations: tuple[PlanViolation, ...] = ()
        self.saved: list[Memory] = []
        self.states: list[ClusterState] = []
        self.target = 1
        self.pending: tuple[Pod, ...] = ()
        self.call_seconds = 0.0
        # What the engine said of a former process (None: nothing).
        self.wrote_last: float | None = None
        self.list_error: KubeApiError | None = None
        self.read_error: NodewrightError | None = None
        self.save_error: NodewrightError | None = None
        self.refusal: ProviderError | None = None
        self.problem = ""
        self.pause: Pause | NodewrightError | None = None
        self.warning = ""
        self.unreadable = False
        self.audit = AuditLog()
        self.settings = Settings()

    def engine(self, *, strict: bool = False, memory: Memory | None = None) -> Autoscaler:
        if memory is not None:
            self.saved.append(memory)
        world = Ports(cluster=self, providers=(self,), store=self, events=self, audit=self.audit)
        planning = Planning(make_plan=self._plan, check_actions=self._check, strict=strict)
        return Autoscaler(world, self.clock, self.settings, Random(1), self.load(), planning=planning)

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        assert settings == self.settings
        assert random.random() >= 0
        self.order.append("plan")
        self.states.append(state)
        return self.plans.pop(0) if self.plans else Plan(), PlanMemory.of(state.memory)

    def _check(
        self, seen: Observation, actions: Sequence[PlannedAction], settings: Settings
    ) -> tuple[PlanViolation, ...]:
        assert seen.now == self.states[-1].now
        assert settings == self.settings
        return tuple(violation for violation in self.violations if violation.action in actions)

    # The cluster

    def read(self, now: float) -> ClusterObservation:
        assert now == self.clock.now()
        self.order.append("read")
        if self.read_error is not None:
            raise self.read_error
        return ClusterObservation(snapshot=Snapshot(), pending=self.pending, problem=self.problem)

    def get_node_view(self, node: str) -> NodeView:
        self.order.append(f"look {node}")
        return NodeView(node=None)

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        self.order.append(f"look for pods of {node}")
        return ()

    def get_gang_view(self, namespace: str) -> GangView:
        self.order.append(f"list pods of {namespace}")
        return GangView()

    def list_nodes(self) -> Iterator[Node]:
        self.order.append("list nodes")
        if self.list_error is not None:
            raise self.list_error
        return iter(())

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        self.order.append(f"edit {edit(build_node(name)).name}")
        return None

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        raise KubeApiError(f"{pod.key} {grace_seconds}", retryable=False)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        raise KubeApiError(f"{pod.key} {grace_seconds}", retryable=False)

    def write_conditions(
        self, request: ProvisioningRequest, conditions: Sequence[Condition], *, is_apply: bool
    ) -> None:
        raise KubeApiError(f"{request.key} {conditions} {is_apply}", retryable=False)

    def delete_request(self, request: ProvisioningRequest) -> None:
        raise KubeApiError(request.key, retryable=False)

    def write_buffer_status(self, buffer: CapacityBuffer) -> None:
        raise KubeApiError(buffer.key, retryable=False)

    def write_quota_status(self, quota: CapacityQuota) -> None:
        raise KubeApiError(quota.key, retryable=False)

    def record(self, event: Event) -> None:
        self.events.append(event)

    # The store

    def load(self) -> Loaded:
        return Loaded(memory=self.saved[-1] if self.saved else Memory(), warning=self.warning)

    def load_pause(self) -> Pause | None:
        if isinstance(self.pause, NodewrightError):
            raise self.pause
        return self.pause

    def save_if_changed(self, memory: Memory) -> None:
        self.order.append("save")
        if self.save_error is not None:
            raise self.save_error
        self.saved.append(memory)

    # The provider

    def note_last_write(self, at: float) -> None:
        self.wrote_last = at

    def capabilities(self, group: NodeGroup) -> frozenset[Capability]:
        return frozenset() - group.switched_off.keys()

    def refresh(self, wanted: frozenset[str] = frozenset()) -> None:
        self.order.append(f"refresh {''.join(sorted(wanted))}".strip())

    def node_groups(self) -> list[NodeGroup]:
        return [build_group("a")]

    def names_of(self, known: Container[str]) -> frozenset[str]:  # noqa: ARG002 - no flag names a group
        return frozenset()

    def target_size(self, group_id: str) -> int:
        assert group_id == "a"
        if self.unreadable:
            raise ProviderError("cannot be read")
        return self.target

    def instances(self, group_id: str) -> tuple[Instance, ...]:
        return tuple(Instance(id=f"{group_id}-{n}") for n in range(self.target))

    def failed_instances(self, group_id: str) -> tuple[FailedInstance, ...] | None:
        return None if group_id else ()

    def template_node(self, group_id: str) -> NodeTemplate:
        return build_template(labels={"group": group_id})

    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        return defaults if group_id else GroupOptions()

    def node_price(self, group_id: str) -> Price | None:
        return Price(per_hour=1.0, source="a list") if group_id else None

    def ignored_labels(self) -> tuple[str, ...] | None:
        return None

    same_group_labels = ignored_labels
    gpu_resources = ignored_labels

    def machine_types(self) -> None:
        """None: groups are made by people."""

    def interruptions(self) -> None:
        return None

    def provisioning_classes(self) -> None:
        """None of its own."""

    def create_node_group(self, spec: NewNodeGroup) -> None:
        self.order.append(f"create {spec.group_id}")

    def delete_node_group(self, group_id: str) -> bool:
        self.order.append(f"delete group {group_id}")
        return True

    def provision(self, request: spec.CloudProvisioningRequest) -> None:
        self.order.append(f"provision {request.key}")

    def gpu_label(self) -> str | None:
        return None

    def gpu_types(self) -> tuple[str, ...] | None:
        return None

    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self.order.append(f"increase {group_id} {expected_target} {target}")
        self.clock.sleep(self.call_seconds)
        if self.refusal is not None:
            raise self.refusal
        self.target = target
        return target - expected_target

    atomic_increase_size = increase_size

    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        raise OutOfCapacity(f"{group_id} {expected_target} {target}")

    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        raise OutOfCapacity(f"{group_id} {instance_ids} {expected_target}")

    force_delete_instances = delete_instances


@pytest.fixture
def harness() -> Any:
    return EngineHarness()
