"""One cluster that costs too much against the engine's own planning: move by move, until no move is left.

Every type in every zone is a node group with its price per hour. A move is carried out as it is planned: its pods go to the nodes
it names, what it buys is there at once, and its nodes go. Time stands at one moment, at which all nodes may go.
"""

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from msgspec.structs import replace as changed

from clusters import NOW, PROVIDER
from consolidation_cases import Cluster, PlacedWorkload
from cost_market import Machine, extras_of, machine_ref, make_node
from nodewright.adapters.kube.cluster import LiveCluster
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory
from nodewright.model.cluster import DaemonSet
from nodewright.model.group import GroupRef, Instance, NodeGroup, Price
from nodewright.model.node import Node
from nodewright.model.pod import SAFE_TO_EVICT_ANNOTATION, Pod
from nodewright.model.settings import Settings
from nodewright.model.sharing import Sharing
from nodewright.planner import find_growth_context
from nodewright.planner.consolidation.find_moves import Proposal, find_moves
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED
from nodewright.snapshot.context import Workloads
from nodewright.snapshot.observation import GroupSeen, Observation, ProviderSeen
from nodewright.testkit.builders import build_budget, build_controller, build_pod

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
# No case needs this many moves.
MOST_MOVES = 200


class Market:
    """A case while it is played.

    ``places``: the node of each pod; ``machines``: what each node is; ``trace``: the moves so far; ``seconds`` of the processor
    that each decision took.
    """

    def __init__(self, case: Cluster, settings: Settings) -> None:
        self.case = case
        self.machines = {node.name: Machine(node.type, node.zone) for node in case.nodes}
        self.trace: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self._settings = settings
        self._types = {one.name: one for one in case.types}
        self._prices = {Machine(one.name, offer.zone): offer.price for one in case.types for offer in one.offers}
        self._pinned = {node.name for node in case.nodes if node.do_not_disrupt}
        self._sharing, self._random = Sharing(), Random(1)
        self._pods: dict[str, Pod] = {}
        self._workload_of: dict[str, str] = {}
        self.places: dict[str, str] = {}
        for workload in case.workloads:
            for node, pod in self._placed(workload):
                self.places[pod.key], self._pods[pod.key] = node, pod
                self._workload_of[pod.key] = workload.name

    @property
    def price(self) -> float:
        return sum(self._prices[machine] for machine in self.machines.values())

    @property
    def evictions(self) -> int:
        return sum(move["evicted"] for move in self.trace)

    def play(self) -> None:
        """Carry out moves until none is found."""
        while len(self.trace) < MOST_MOVES:
            found = self._decide()
            if not found:
                return
            for move in found:
                self._carry_out(move)

    def _decide(self) -> tuple[Proposal, ...]:
        """Return the moves of one loop. Only the decision with its context is timed, by the processor."""
        seen = self.look()
        state = fold(Memory(), seen, [], self._settings)
        began = time.process_time()
        state = replace(state, elapsed=lambda: time.process_time() - began)
        context = find_growth_context(state, self._settings, self._random)
        if context is None:
            raise AssertionError("there is no context to plan in")
        most = self.case.most_nodes(len(self.machines))
        found = find_moves(context, self._settings.consolidation, self._random, most_nodes=most).proposals
        self.seconds.append(time.process_time() - began)
        return found

    def _carry_out(self, move: Proposal) -> None:
        moves: dict[str, dict[str, Counter[str]]] = {}
        added, going = [], set(move.sources)
        evicted = [key for key, node in self.places.items() if node in going]
        targets = dict(move.places)
        for number, node in enumerate(move.new_nodes):
            name, machine = f"move-{len(self.trace)}-{number}", Machine(*node.group.group_id.split("@"))
            added.append({"name": name, "type": machine.type, "zone": machine.zone})
            self.machines[name] = machine
            targets |= {pod.key: name for pod in node.pods}
        for key in evicted:
            workload, before = self._workload_of[key], self.places[key]
            self.places[key] = targets[key]
            moves.setdefault(workload, {}).setdefault(before, Counter())[targets[key]] += 1
        for name in move.sources:
            del self.machines[name]
        self.trace.append(
            {
                "deleted": list(move.sources),
                "added": added,
                "evicted": len(evicted),
                "moves": moves,
                "score": move.score,
            }
        )

    def _placed(self, workload: PlacedWorkload) -> Iterator[tuple[str, Pod]]:
        requests, owner = dict(workload.requests), ("ReplicaSet", workload.name)
        cpu, memory = requests.pop("cpu"), requests.pop("memory")
        annotations = {SAFE_TO_EVICT_ANNOTATION: "false"} if workload.do_not_disrupt else {}
        if workload.deletion_cost is not None:
            annotations[_DELETION_COST] = str(workload.deletion_cost)
        extras = extras_of(workload, requests)
        extras["annotations"] = annotations
        for node, count in workload.placed.items():
            for number in range(count):
                name = f"{workload.name}-{node}-{number}"
                yield node, build_pod(name, cpu, memory, owner=owner, node_name=node, **extras)

    def _node(self, name: str, machine: Machine, *, is_there: bool) -> Node:
        return make_node(
            name,
            self._types[machine.type],
            machine,
            annotations={SCALE_DOWN_DISABLED: "true"} if name in self._pinned else {},
            provider_id=f"cloud:///{name}" if is_there else "",
            created_at=NOW - 86400.0,
        )

    def look(self) -> Observation:
        """Return what the engine sees of the cluster as it is now."""
        live = LiveCluster()
        nodes = {name: self._node(name, machine, is_there=True) for name, machine in self.machines.items()}
        live.apply_nodes(nodes)
        pods = [_on(pod, self.places[key]) for key, pod in self._pods.items()]
        daemons = self._daemon_sets()
        for daemon in daemons:
            asked = (self.case.daemon or {})["cpu"], (self.case.daemon or {})["memory"]
            owner = ("DaemonSet", daemon.name)
            pods += [build_pod(f"daemon-{name}", *asked, owner=owner, node_name=name) for name in nodes]
        live.apply_pods({pod.key: self._sharing.pod(pod) for pod in pods})
        return Observation(
            now=NOW,
            snapshot=live.fork(),
            groups=dict(self._groups()),
            providers={PROVIDER: ProviderSeen(name=PROVIDER)},
            workloads=Workloads(controllers=None, budgets=tuple(self._budgets())),
            daemon_sets=daemons,
        )

    def _groups(self) -> Iterator[tuple[GroupRef, GroupSeen]]:
        members: dict[Machine, list[Instance]] = {}
        for name, machine in self.machines.items():
            members.setdefault(machine, []).append(Instance(id=f"cloud:///{name}"))
        for machine, price in self._prices.items():
            ref, held = machine_ref(machine), tuple(members.get(machine, ()))
            yield (
                ref,
                GroupSeen(
                    ref=ref,
                    group=NodeGroup(id=ref.group_id, min_size=0, max_size=len(held) + len(self._pods)),
                    target=len(held),
                    instances=held,
                    template=self._node(f"template-{ref.group_id}", machine, is_there=False),
                    price=Price(per_hour=price, source="the case"),
                ),
            )

    def _budgets(self) -> Iterator[Any]:
        """Yield the budgets of the cases: how many pods may go now is what the case begins with."""
        for workload in self.case.workloads:
            if workload.min_available is not None:
                yield build_budget(
                    f"budget-{workload.name}", max(0, workload.pods - workload.min_available), {"app": workload.name}
                )

    def _daemon_sets(self) -> tuple[DaemonSet, ...]:
        if self.case.daemon is None:
            return ()
        pod = build_pod("daemon", self.case.daemon["cpu"], self.case.daemon["memory"])
        daemon = build_controller("DaemonSet", "daemon")
        if not isinstance(daemon, DaemonSet):
            raise TypeError(daemon)
        spec = changed(daemon.spec, template=changed(daemon.spec.template, spec=pod.spec))
        return (changed(daemon, spec=spec),)


def _on(pod: Pod, node: str) -> Pod:
    return pod if pod.spec.node_name == node else changed(pod, spec=changed(pod.spec, node_name=node))
