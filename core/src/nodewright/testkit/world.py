"""A small world for tests of planning decisions. It holds only values: there is no cloud and no cluster."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory, PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import IncreaseSize
from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.cluster import DaemonSet, Deployment, PodDisruptionBudget, ResourceQuota
from nodewright.model.gang import PodGroups, SchedulingPodGroup
from nodewright.model.group import GroupRef, Instance, NodeGroup, Price
from nodewright.model.node import Node
from nodewright.model.plan import Plan
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import PodTemplate, ProvisioningClass, ProvisioningRequest
from nodewright.model.removal import Removing
from nodewright.model.settings import (
    AutoprovisioningSettings,
    BufferSettings,
    ConsolidationSettings,
    DrainSettings,
    FailureSettings,
    InterruptionSettings,
    LimitSettings,
    LoopSettings,
    PodSettings,
    ProvisioningSettings,
    RenewalSettings,
    SafetySettings,
    ScaleDownSettings,
    ScaleUpSettings,
    Settings,
    TemplateSettings,
)
from nodewright.planner import make_plan
from nodewright.snapshot.context import Context, Controller, Workloads
from nodewright.snapshot.observation import Buffers, GroupSeen, Observation, ProviderSeen, Provisioning
from nodewright.snapshot.running_gangs import find_running
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node

NOW = 100_000.0
PROVIDER = "cloud"
_SECTIONS = {
    "loop": LoopSettings,
    "pods": PodSettings,
    "templates": TemplateSettings,
    "scale_up": ScaleUpSettings,
    "provisioning": ProvisioningSettings,
    "autoprovisioning": AutoprovisioningSettings,
    "buffers": BufferSettings,
    "scale_down": ScaleDownSettings,
    "drain": DrainSettings,
    "interruptions": InterruptionSettings,
    "renewal": RenewalSettings,
    "consolidation": ConsolidationSettings,
    "limits": LimitSettings,
    "failures": FailureSettings,
    "safety": SafetySettings,
}


def ref(group_id: str) -> GroupRef:
    """Return the reference of a group of the world's only provider."""
    return GroupRef(PROVIDER, group_id)


@dataclass
class World:
    """Groups, nodes and pods of a test. ``plan()`` plans for them at the time ``now`` (seconds since the epoch).

    ``controllers`` is None if controllers were not listed.
    """

    now: float = NOW
    groups: dict[GroupRef, GroupSeen] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    running: list[Pod] = field(default_factory=list)
    pending: list[Pod] = field(default_factory=list)
    daemon_sets: list[DaemonSet] = field(default_factory=list)
    controllers: list[Controller] | None = None
    budgets: list[PodDisruptionBudget] = field(default_factory=list)
    removing: dict[str, Removing] = field(default_factory=dict)
    requests: list[ProvisioningRequest] = field(default_factory=list)
    templates: list[PodTemplate] = field(default_factory=list)
    classes: list[ProvisioningClass] = field(default_factory=list)
    buffers: list[CapacityBuffer] = field(default_factory=list)
    deployments: list[Deployment] = field(default_factory=list)
    resource_quotas: list[ResourceQuota] = field(default_factory=list)
    quotas: list[CapacityQuota] = field(default_factory=list)
    pod_groups: list[SchedulingPodGroup] = field(default_factory=list)
    context: Context = field(default_factory=Context)
    priorities: str | None = None
    memory: Memory = field(default_factory=Memory)
    provider: ProviderSeen = field(default_factory=lambda: ProviderSeen(name=PROVIDER))

    def add_group(self, group_id: str, size: int = 0, *, max_size: int = 10, min_size: int = 0, **extras: Any) -> None:
        """Add a group with ``size`` ready nodes. ``extras`` are fields of GroupSeen or arguments of ``build_node``.

        ``hourly_price`` is a price in USD.
        """
        if "hourly_price" in extras:
            extras["price"] = Price(per_hour=extras.pop("hourly_price"), source="the test")
        seen = {name: extras.pop(name) for name in list(extras) if name in GroupSeen.__dataclass_fields__}
        extras.setdefault("cpu", "4")
        template = build_node(f"template-{group_id}", **extras)
        ids = [f"cloud:///{group_id}/{n}" for n in range(size)]
        self.nodes += [
            build_node(f"{group_id}-{n}", provider_id=instance_id, **extras) for n, instance_id in enumerate(ids)
        ]
        described: dict[str, Any] = {
            "target": size,
            "instances": tuple(Instance(id=instance_id) for instance_id in ids),
            "template": template,
            "group": NodeGroup(id=group_id, min_size=min_size, max_size=max_size),
            **seen,
        }
        self.groups[ref(group_id)] = GroupSeen(ref=ref(group_id), **described)

    def workloads(self) -> Workloads:
        listed = None if self.controllers is None else {(type(one).__name__, one.key): one for one in self.controllers}
        return Workloads(controllers=listed, budgets=tuple(self.budgets))

    def state(self, settings: Settings | None = None) -> ClusterState:
        snapshot = Snapshot()
        snapshot.context = self.context
        snapshot.add_nodes(self.nodes)
        snapshot.place_pods((snapshot.row(pod.spec.node_name), [pod]) for pod in self.running)
        pod_groups = PodGroups(kubernetes={one.key: one for one in self.pod_groups})
        seen = Observation(
            now=self.now,
            snapshot=snapshot,
            pending=tuple(self.pending),
            groups=self.groups,
            providers={PROVIDER: self.provider},
            daemon_sets=tuple(self.daemon_sets),
            priorities=self.priorities,
            workloads=replace(self.workloads(), gangs=find_running(snapshot, pod_groups, self.pending)),
            removing=dict(self.removing),
            provisioning=Provisioning(
                requests=tuple(self.requests),
                templates={one.key: one for one in self.templates},
                classes=tuple(self.classes),
            ),
            buffers=Buffers(
                buffers=tuple(self.buffers),
                templates={one.key: one for one in self.templates},
                deployments={one.key: one for one in self.deployments},
                quotas=tuple(self.resource_quotas),
            ),
            quotas=tuple(self.quotas),
            pod_groups=pod_groups,
        )
        return fold(self.memory, seen, [], settings or Settings())

    def plan(self, **changes: object) -> Plan:
        """Return a plan with the default settings, except for ``changes`` (such as ``expander="price"``)."""
        return self.plan_and_memory(**changes)[0]

    def plan_and_memory(self, **changes: object) -> tuple[Plan, PlanMemory]:
        """Plan as ``plan`` does. Return the plan and its memory for the next loop."""
        settings = settings_with(**changes)
        return make_plan(self.state(settings), settings, Random(1))


def settings_with(**changes: object) -> Settings:
    """Return the default settings with ``changes``, by the settings' own names."""
    sections: dict[str, Any] = {}
    for section, struct in _SECTIONS.items():
        own = {name: value for name, value in changes.items() if name in struct.__struct_fields__}
        sections[section] = struct(**own)
    return Settings(**sections)


def grown(plan: Plan) -> dict[str, tuple[int, int]]:
    """Return the increases of a plan: group id → (old target, new target)."""
    return {
        action.group.group_id: (action.expected_target, action.target)
        for action in plan.actions
        if isinstance(action, IncreaseSize)
    }
