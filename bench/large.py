"""Large clusters: loops in which little happens, pods that depend on each other."""

from collections.abc import Sequence
from functools import partial
from random import Random

from clusters import Cluster
from measure import Benchmark, Loop, Prepared, Result, scaled
from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.plan import Plan
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import grown

_GROUPS = 10


def _idle_cluster(nodes: int) -> tuple[Cluster, list[Pod]]:
    """Nodes with ten pods each, three quarters full: nothing can go."""
    cluster = Cluster()
    for group in range(_GROUPS):
        cluster.add_group(f"g{group}", nodes // _GROUPS, nodes, cpu="4", memory="16Gi", zone=f"z{group % 3}")
    pods = [_running(f"p{k}", node.name, k % 500) for k, node in enumerate(cluster.nodes * 10)]
    cluster.put(pods)
    return cluster, pods


def _running(name: str, node: str, deployment: int) -> Pod:
    owner, labels = ("ReplicaSet", f"rs{deployment}"), {"app": f"a{deployment}"}
    return build_pod(name, "300m", "1Gi", node_name=node, owner=owner, labels=labels)


def prepare_idle(nodes: int, changes: int, share: float) -> Prepared:
    """Prepare a third loop that takes up this many changes: for each, one pod went and another one came."""
    cluster, pods = _idle_cluster(_GROUPS * scaled(nodes // _GROUPS, share))
    loop = Loop(Settings())
    for _ in range(2):
        loop.turn(cluster.look())
    count = scaled(changes, share) if changes else 0
    gone = Random(1).sample(pods, count)
    come = [cluster.sharing.pod(_running(f"q{k}", pod.spec.node_name, k % 500)) for k, pod in enumerate(gone)]
    changed: dict[str, Pod | None] = {pod.key: None for pod in gone}
    changed |= {pod.key: pod for pod in come}

    def run() -> Result:
        cluster.live.apply_pods(changed)
        seen = cluster.look()
        plan = loop.turn(seen)
        told = {"actions": len(plan.actions), "removals": len(plan.scale_down.removals)}
        return {**told, "measured": len(plan.scale_down.utilization), "taken up": _taken_up(seen, come)}

    return Prepared(
        run=run, expected={"actions": 0, "removals": 0, "measured": len(cluster.nodes), "taken up": len(come)}
    )


def _taken_up(seen: Observation, pods: Sequence[Pod]) -> int:
    """How many of these stand in the snapshot, on their nodes."""
    snapshot = seen.snapshot
    return sum(any(pod is held for held in snapshot.pods(snapshot.row(pod.spec.node_name))) for pod in pods)


def prepare_affinity(share: float) -> Prepared:
    """200 deployments, spread over zones and kept apart on nodes; 10 pods of each wait."""
    cluster, deployments = Cluster(), scaled(200, share)
    for group in range(4):
        cluster.add_group(f"g{group}", 5 * deployments // 4, 5000, cpu="8", memory="32Gi", zone=f"z{group % 3}")
    nodes = [node.name for node in cluster.nodes]
    for number in range(deployments):
        cluster.put(
            [
                _choosy(f"d{number}-{k}", number, nodes[(number * 7 + k) % len(nodes)])
                for k in range(min(100, len(nodes)))
            ]
        )
        cluster.put([_choosy(f"w{number}-{k}", number, "") for k in range(10)])
    loop, told = Loop(Settings()), dict[str, int]()
    is_small, waiting = len(nodes) <= 100, deployments * 10

    def run() -> Result:
        told.update(_told(loop.turn(cluster.look())))
        return told if is_small else {"pods": sum(told.values())}

    # In a small cluster every node has one of each, and one zone takes five more of ten. How many find room in a large
    # the expected number is not known: only that all are told of is checked.
    counted = {"fitting": 0, "helped": waiting // 2, "left": waiting // 2}
    return Prepared(run=run, expected=counted if is_small else {"pods": waiting}, notes=lambda: told)


def _told(plan: Plan) -> dict[str, int]:
    """How many pods have room already, are helped by what is bought, and are left."""
    reports = (plan.scale_up, *plan.salvo)
    helped = sum(len(report.triggered) for report in reports)
    left = sum(len(report.awaiting) + len(report.unhelped) for report in reports)
    return {"fitting": len(plan.fitting), "helped": helped, "left": left}


def _choosy(name: str, deployment: int, node: str) -> Pod:
    labels = {"app": f"a{deployment}"}
    own = LabelSelector(match_labels=labels)
    apart = Affinity(
        pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=own),))
    )
    zones = (TopologySpreadConstraint(topology_key=ZONE_LABEL, max_skew=5, label_selector=own),)
    return build_pod(
        name,
        "350m",
        "1Gi",
        node_name=node,
        owner=("ReplicaSet", f"rs{deployment}"),
        labels=labels,
        affinity=apart,
        topology_spread_constraints=zones,
    )


def prepare_backlog(share: float) -> Prepared:
    """Prepare 100 waiting pods of each of 400 ReplicaSets beside a full cluster; every tenth keeps its pods apart."""
    cluster, sets = Cluster(), scaled(400, share)
    for group in range(_GROUPS):
        cluster.add_group(f"g{group}", 2 * sets // _GROUPS, 5000, cpu="8", memory="32Gi", zone=f"z{group % 3}")
    cluster.put([build_pod(f"r{node.name}", "8", "1Gi", node_name=node.name) for node in cluster.nodes])
    for number in range(sets):
        pods = [_waiting(f"w{number}-{k}", number) for k in range(100)]
        cluster.put(pods)
    loop, told, is_small = Loop(Settings()), dict[str, int](), sets <= 100

    def run() -> Result:
        plan = loop.turn(cluster.look())
        told.update(_told(plan))
        bought = sum(to - at for at, to in grown(plan).values())
        found = told if is_small else {"pods": sum(told.values()), "nodes": bought}
        return {**found, "partial": int(bool(plan.partial))}

    # One group is bought; its zone takes five of each set that spreads over zones, as far as --max-nodes-per-scaleup lets
    # it grow.
    choosy = -(-sets // 10)
    helped = 100 * (sets - choosy) + 5 * choosy
    counted = {"fitting": 0, "helped": helped, "left": 100 * sets - helped, "partial": 0}
    as_far = {"pods": 100 * sets, "nodes": loop.settings.scale_up.max_nodes_per_scaleup, "partial": 0}
    return Prepared(run=run, expected=counted if is_small else as_far, notes=lambda: told)


def _waiting(name: str, number: int) -> Pod:
    if number % 10 == 0:
        return _choosy(name, number, "")
    owner, labels = ("ReplicaSet", f"rs{number}"), {"app": f"a{number}"}
    return build_pod(name, f"{100 + number % 97 * 10}m", f"{100 + number % 89}Mi", owner=owner, labels=labels)


def _idle(nodes: int, changes: int) -> Benchmark:
    what = f"{changes} of its pods changed" if changes else "nothing changed"
    is_largest = nodes == _SIZES[-1]
    limit = ({0: 0.1, 1_000: 0.16} if is_largest else {0: 0.05, 10: 0.06, 100: 0.06}).get(changes)
    beyond = (f"idle-loop-{nodes}-0", 0.01) if changes == 100 else None
    return Benchmark(
        workload=f"{nodes:,} nodes with 10 pods each, scale-down on, {what}; a whole loop",
        start="warm snapshot",
        prepare=partial(prepare_idle, nodes, changes),
        limit=limit,
        beyond=beyond,
    )


_SIZES, _CHANGES = (1_000, 5_000, 15_000, 65_000), (0, 10, 100, 1_000)

LARGE: dict[str, Benchmark] = {
    **{f"idle-loop-{nodes}-{changes}": _idle(nodes, changes) for nodes in _SIZES for changes in _CHANGES},
    "affinity-heavy": Benchmark(
        workload="1,000 nodes, 20,000 pods of 200 deployments spread by zone and apart by node, 2,000 pending",
        start="decoded pods",
        prepare=prepare_affinity,
        limit=2,
    ),
    "backlog": Benchmark(
        workload="40,000 pods of 400 ReplicaSets wait beside 800 full nodes; a whole loop",
        start="decoded pods",
        prepare=prepare_backlog,
        limit=10,
        peak_limit_mib=700,
    ),
}
