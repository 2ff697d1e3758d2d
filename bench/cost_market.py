"""One case of pending pods against the engine's own planning: plan, bind, buy, and again until no pod is pending.

Every type in every zone is a node group with its price per hour. Time is virtual: machines that a plan buys are ready
nodes before the next loop. Pods are bound as the plan counts on: those that fit on nodes there are first, and those
that machines were bought for on these, as the estimator packs them. A pod that a filter of kube-scheduler keeps off its
place goes to another one, or waits for the next loop.

kube-scheduler spreads pods over the zones that have nodes, Karpenter over those where it could buy. So that both solve
the same problem, each zone of a case with spread has a node without any room from the start. It is in no group.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace as changed

from clusters import NOW, PROVIDER
from cost_cases import Case, MachineType, Workload
from measure import Loop
from nodewright.adapters.kube.cluster import LiveCluster
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.estimator.binpacking import Template
from nodewright.estimator.pod_group import group_pods
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef, Instance, NodeGroup, Price
from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, PodStatus, TopologySpreadConstraint
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings
from nodewright.model.sharing import Sharing
from nodewright.planner import make_plan
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.pending_pods import Bought, Hints, hint_key, take_fitting_classes
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import PodExtras, build_node, build_pod

_APP, _INSTANCE_TYPE = "app", "node.kubernetes.io/instance-type"
_SPREAD_KEYS = {"zone": ZONE_LABEL, "hostname": HOSTNAME_LABEL}
_SCAN_INTERVAL = 10.0


class Machine(NamedTuple):
    """A kind of machine: the names of its type and of the zone in which it is sold."""

    type: str
    zone: str


class Market:
    """A case while it is played.

    ``seconds`` of the processor went into plans, ``loops`` were planned so far. ``machines`` were bought, by the name of
    their node; ``placed`` says how many pods of each workload were bound to each node.
    """

    def __init__(self, case: Case, settings: Settings) -> None:
        self.case = case
        self.seconds = 0.0
        self.loops = 0
        self.machines: dict[str, Machine] = {}
        self.placed: dict[str, Counter[str]] = {}
        self._now = NOW
        self._types = {one.name: one for one in case.types}
        self._prices = {Machine(one.name, offer.zone): offer.price for one in case.types for offer in one.offers}
        self._sold = {machine_ref(machine): machine for machine in self._prices}
        self._live = LiveCluster()
        self._groups: dict[GroupRef, GroupSeen] = {}
        self._templates: dict[GroupRef, Template] = {}
        self._loop = Loop(settings, planning=Planning(make_plan=self._plan, strict=True))
        self._begin()

    def play(self) -> None:
        """Plan until no pod is pending, or a plan neither buys nor binds anything."""
        while self._live.pending():
            self._now += _SCAN_INTERVAL
            plan = self._loop.turn(self._look())
            self.loops += 1
            bound = self._bind(plan.fitting, self._loop.memory.scale_down.pending_hints)
            planned = self._buy(plan)
            bound += self._bind([pod for report in _growth(plan) for pod in report.triggered], planned)
            if not (bound or plan.actions):
                return

    @property
    def unplaced(self) -> int:
        return len(self._live.pending())

    @property
    def price(self) -> float:
        """Return the price of the bought machines, in USD an hour."""
        return sum(self._prices[machine] for machine in self.machines.values())

    def _begin(self) -> None:
        """Make groups, existing nodes with their pods, and pending pods."""
        members: dict[GroupRef, list[Instance]] = {}
        for node in self.case.nodes:
            machine, known_as = Machine(node.type, node.zone), _instance_id(node.name)
            self._live.apply_nodes({node.name: self._node(node.name, machine, known_as)})
            members.setdefault(machine_ref(machine), []).append(Instance(id=known_as))
        for ref, machine in self._sold.items():
            held = tuple(members.get(ref, ()))
            template = self._node(f"template-{ref.group_id}", machine)
            self._templates[ref] = Template(template)
            most = self.case.maxima.get(machine.type, len(held) + self.case.pods)
            self._groups[ref] = GroupSeen(
                ref=ref,
                group=NodeGroup(id=ref.group_id, min_size=0, max_size=most),
                target=len(held),
                instances=held,
                template=template,
                price=Price(per_hour=self._prices[machine], source="the case"),
            )
        self._live.apply_nodes({node.name: node for node in self._nodes_without_room()})
        sharing = Sharing()
        pods = (sharing.pod(pod) for workload in self.case.workloads for pod in self._pods(workload))
        self._live.apply_pods({pod.key: pod for pod in pods})

    def _node(self, name: str, machine: Machine, instance_id: str = "") -> Node:
        return make_node(name, self._types[machine.type], machine, provider_id=instance_id, created_at=self._now)

    def _nodes_without_room(self) -> Iterator[Node]:
        """Yield a node in each zone in which a workload that is spread could run."""
        demands = [workload.selector for workload in self.case.workloads if workload.spread]
        for number, selector in enumerate(one for place, one in enumerate(demands) if one not in demands[:place]):
            for zone in sorted({machine.zone for machine in self._sold.values()}):
                labels = {ZONE_LABEL: zone, **selector}
                if labels[ZONE_LABEL] == zone:
                    yield build_node(f"no-room-{number}-{zone}", cpu=0, memory=0, pods=0, labels=labels)

    def _pods(self, workload: Workload) -> Iterator[Pod]:
        """Yield the pods of a workload, the placed ones last."""
        requests, owner = dict(workload.requests), ("ReplicaSet", workload.name)
        cpu, memory = requests.pop("cpu"), requests.pop("memory")
        extras = extras_of(workload, requests)
        for number in range(workload.pending):
            yield build_pod(f"{workload.name}-{number:05}", cpu, memory, owner=owner, **extras)
        for node, count in workload.placed.items():
            for number in range(count):
                name = f"{workload.name}-{node}-{number}"
                yield build_pod(name, cpu, memory, owner=owner, node_name=node, **extras)

    def _look(self) -> Observation:
        return Observation(
            now=self._now,
            snapshot=self._live.fork(),
            pending=self._live.pending(),
            groups=dict(self._groups),
            providers={PROVIDER: ProviderSeen(name=PROVIDER)},
        )

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        began = time.process_time()
        found = make_plan(replace(state, elapsed=lambda: time.process_time() - began), settings, random)
        self.seconds += time.process_time() - began
        return found

    def _bind(self, pods: Iterable[Pod], planned: Mapping[str, str]) -> int:
        """Bind pods that fit on nodes there are, to their node in ``planned`` (by hint key) if it takes them; return how many."""
        snapshot, hints = self._live.fork(), Hints(before=planned)
        by_class = snapshot.vocabulary.classes.sort(pods)
        fitting, _ = take_fitting_classes(snapshot, by_class, hints, Bought(lambda _: (), lambda _: {}))
        for pod in fitting:
            self.placed.setdefault(hints.fresh[hint_key(pod)], Counter())[pod.metadata.labels[_APP]] += 1
        self._live.apply_pods({pod.key: _bound(pod, hints.fresh[hint_key(pod)]) for pod in fitting})
        return len(fitting)

    def _buy(self, plan: Plan) -> dict[str, str]:
        """Let the machines of a plan come; return on which of their nodes each pod (by hint key) is planned."""
        before, fresh = self._live.fork(), dict[GroupRef, list[str]]()
        for action in plan.actions:
            if not isinstance(action, IncreaseSize):
                raise TypeError(f"a plan for pending pods holds {type(action).__name__}")
            seen, machine = self._groups[action.group], self._sold[action.group]
            instances = seen.instances or ()
            names = [f"bought-{len(self.machines) + k}" for k in range(action.target - len(instances))]
            fresh.setdefault(action.group, []).extend(names)
            self.machines |= dict.fromkeys(names, machine)
            self._live.apply_nodes({name: self._node(name, machine, _instance_id(name)) for name in names})
            instances += tuple(Instance(id=_instance_id(name)) for name in names)
            self._groups[action.group] = replace(seen, target=action.target, instances=instances)
        planned: dict[str, str] = {}
        for report in _growth(plan):
            planned |= self._pack(report, before, fresh)
        return planned

    def _pack(self, report: ScaleUpReport, before: Snapshot, fresh: Mapping[GroupRef, list[str]]) -> dict[str, str]:
        """Return the new node of each pod, by hint key, as the estimator packs what was bought for these pods.

        The estimate of one group is that of the plan: pods that find no place open nodes, too, which others fill.
        """
        if report.nodes:
            return self._as_planned(report, fresh)
        is_mix = len(report.expansions) > 1
        left, planned = report.triggered if is_mix else self._live.pending(), dict[str, str]()
        for expansion in report.expansions:
            ref, own = expansion.group, fresh[expansion.group]
            names, own[: expansion.added] = own[: expansion.added], []
            fit = NodeGroupFit(before, {ref: self._templates[ref]}, {})
            groups = [group for group in group_pods(left, before) if ref in fit.fits(group.pod_class)]
            most = expansion.added if is_mix else expansion.maximum - expansion.current
            found = fit.estimate(ref, groups, most, fastpath=False)
            for name, pods in zip(names, filter(None, found.packing), strict=False):
                planned |= {hint_key(pod): name for pod in pods}
            left = tuple(pod for pod in left if hint_key(pod) not in planned)
        return planned

    def _as_planned(self, report: ScaleUpReport, fresh: Mapping[GroupRef, list[str]]) -> dict[str, str]:
        """Return the new node of each pod, by hint key, where the plan says which pods each node is for."""
        own = {ref: iter(names) for ref, names in fresh.items()}
        return {hint_key(pod): name for node in report.nodes for name in [next(own[node.group])] for pod in node.pods}


def machine_ref(machine: Machine) -> GroupRef:
    return GroupRef(PROVIDER, f"{machine.type}@{machine.zone}")


def _growth(plan: Plan) -> tuple[ScaleUpReport, ...]:
    return (plan.scale_up, *plan.salvo)


def _instance_id(node: str) -> str:
    return f"cloud:///{node}"


def _bound(pod: Pod, node: str) -> Pod:
    return changed(pod, spec=changed(pod.spec, node_name=node), status=PodStatus(phase="Running"))


def make_node(name: str, kind: MachineType, machine: Machine, **extras: Any) -> Node:
    """Return a node of a machine; ``extras`` are those of build_node."""
    offered = dict(kind.allocatable)
    return build_node(
        name,
        offered.pop("cpu"),
        offered.pop("memory"),
        Quantity.of(offered.pop("pods")).value,
        extended=offered,
        labels={**kind.labels, _INSTANCE_TYPE: kind.name},
        zone=machine.zone,
        **extras,
    )


def extras_of(workload: Workload, requests: Mapping[str, str]) -> PodExtras:
    """Return what the pods of a workload demand besides CPU and memory."""
    labels = {_APP: workload.name}
    selector = LabelSelector(match_labels=labels)
    extras = PodExtras(labels=labels, extended=requests, node_selector=workload.selector)
    if workload.priority is not None:
        extras["priority"] = workload.priority
    if workload.anti_hostname:
        term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
        extras["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=(term,)))
    extras["topology_spread_constraints"] = tuple(
        TopologySpreadConstraint(
            topology_key=_SPREAD_KEYS[key],
            max_skew=workload.max_skew,
            when_unsatisfiable="DoNotSchedule",
            label_selector=selector,
        )
        for key in workload.spread
    )
    return extras
