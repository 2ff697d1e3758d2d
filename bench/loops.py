"""Whole loops of CA's own benchmarks: growth, removals, pods that fit already."""

from functools import partial
from typing import Any

from clusters import Cluster
from estimates import shared
from measure import Benchmark, Loop, Prepared, Result, scaled
from nodewright.model.pod import Pod
from nodewright.model.settings import LimitSettings, ScaleDownSettings, ScaleUpSettings, Settings
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import grown

# How large each of many groups may get.
MOST_OF_MANY = 10
_GO_SETTINGS = Settings(scale_up=ScaleUpSettings(expander="least-waste"), limits=LimitSettings(max_nodes_total=10_000))


def prepare_scale_up(share: float, *, owners: int, warm: bool) -> Prepared:
    """50,000 pods of 200 m, 50 of which fill a node; ``owners`` 0: each stands alone."""
    nodes = scaled(1000, share)
    pods = [_pending(k, owners) for k in range(nodes * 50)]
    cluster, loop = Cluster(), Loop(_GO_SETTINGS)
    cluster.add_group("g", 0, 10_000, cpu="10", memory=10_000, pods=100)
    cluster.put(pods)
    if warm:
        loop.turn(cluster.look())
        loop.memory = type(loop.memory)()

    def run() -> Result:
        return {group: to for group, (_, to) in grown(loop.turn(cluster.look())).items()}

    return Prepared(run=run, expected={"g": nodes}, notes=cluster.notes)


def _pending(number: int, owners: int) -> Pod:
    owner = ("ReplicaSet", f"rs{number % owners}") if owners else None
    labels = {"app": f"a{number % owners}"} if owners else {}
    return build_pod(f"p{number}", "200m", 200, owner=owner, labels=labels)


def prepare_scale_down(share: float, *, warm: bool) -> Prepared:
    """2,000 nodes with 40 pods of 1 % each: three fifths of the nodes can go."""
    nodes = scaled(2000, share)
    cluster = Cluster()
    cluster.add_group("g", nodes, 10_000, cpu="10", memory=10_000, pods=100, unneeded=0.0)
    safe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}
    pods = [
        build_pod(f"p{k}", "100m", 100, owner=None, node_name=f"g-{k % nodes}", annotations=safe)
        for k in range(nodes * 40)
    ]
    arrived = cluster.shared(pods)
    most = ScaleDownSettings(
        scale_down_delay_after_add=0,
        max_scale_down_parallelism=2000,
        max_drain_parallelism=2000,
        max_bulk_soft_taint_count=0,
        max_pod_moves_per_hour=0,
    )
    loop = Loop(Settings(scale_down=most, limits=_GO_SETTINGS.limits))

    def run() -> Result:
        if not warm:
            cluster.live.apply_pods(arrived)
        return {"removed": len(loop.turn(cluster.look()).scale_down.removals)}

    if warm:
        cluster.live.apply_pods(arrived)
        loop.turn(cluster.look())
    return Prepared(run=run, expected={"removed": nodes * 3 // 5})


def prepare_filter(nodes: int, pending: int, share: float) -> Prepared:
    """All pods ask for more memory than any node offers."""
    rows, count = scaled(nodes, share), scaled(pending, share)
    pods = shared([build_pod(f"p{k}", "1", 2_000_000, owner=None) for k in range(count)])
    snapshot = Snapshot()
    snapshot.add_nodes([build_node(f"n{n}", cpu="2", memory=200_000, pods=100) for n in range(rows)])
    running = (build_pod(f"r{row}", "1", 200_000, owner=None, node_name=f"n{row}") for row in range(rows))
    snapshot.place_pods((row, [pod]) for row, pod in enumerate(running))

    def run() -> Result:
        fitting, left = take_fitting(snapshot, pods)
        return {"fitting": len(fitting), "left": len(left)}

    return Prepared(run=run, expected={"fitting": 0, "left": count})


def prepare_many_groups(templates: int, share: float) -> Prepared:
    cluster, groups = Cluster(), many_shapes(templates, share)
    for name, shape in groups.items():
        cluster.add_group(name, 0, MOST_OF_MANY, **shape)
    cluster.put(many_pods(share))
    loop = Loop(Settings())

    def run() -> Result:
        plan = loop.turn(cluster.look())
        nodes = [to for _, to in grown(plan).values()]
        return {"groups": len(nodes), "nodes": sum(nodes), "options": len(plan.scale_up.options)}

    # One group is bought, as large as it may be.
    return Prepared(run=run, expected={"groups": 1, "nodes": MOST_OF_MANY, "options": len(groups)})


def many_shapes(templates: int, share: float) -> dict[str, dict[str, Any]]:
    """500 groups by name, of this many kinds of machine."""
    return {f"g{index}": _shape(index % templates) for index in range(scaled(500, share))}


def _shape(kind: int) -> dict[str, Any]:
    return {"cpu": f"{4000 + 10 * kind}m", "memory": f"{16 + kind}Gi", "labels": {"kind": f"k{kind}"}}


def many_pods(share: float) -> list[Pod]:
    """10,000 of 300 shapes."""
    return [
        build_pod(f"p{k}", f"{100 + (k % 300) * 7}m", "100Mi", owner=("ReplicaSet", f"rs{k % 300}"))
        for k in range(scaled(10_000, share))
    ]


def _down_row(share_of: str) -> tuple[str, float]:
    return (f"ScaleDown, quiet ({share_of})", 14.0)


LOOPS: dict[str, Benchmark] = {
    "owned": Benchmark(
        workload="50,000 pods of 100 ReplicaSets, each its own shape, to 1,000 nodes; a whole loop",
        start="decoded pods",
        prepare=partial(prepare_scale_up, owners=100, warm=False),
        go=("ScaleUp owned 1000/100", 2.738),
        wanted=30,
    ),
    "filter-schedulable-200": Benchmark(
        workload="60,000 pending on 200 full nodes",
        start="decoded pods",
        prepare=partial(prepare_filter, 200, 60_000),
        go=("200 nodes, delta store", 6.43),
        wanted=80,
    ),
    "filter-schedulable-1000": Benchmark(
        workload="12,000 pending on 1,000 full nodes",
        start="decoded pods",
        prepare=partial(prepare_filter, 1000, 12_000),
        go=("1000 nodes, delta store", 5.541),
        wanted=200,
    ),
    "run-once-scale-up": Benchmark(
        workload="50,000 ownerless pods to 1,000 nodes; a whole loop",
        start="decoded pods",
        prepare=partial(prepare_scale_up, owners=0, warm=False),
        go=("ScaleUp, quiet, later runs", 10.7),
        wanted=50,
    ),
    "run-once-scale-up-warm": Benchmark(
        workload="the same again: pods are classed already",
        start="warm snapshot",
        prepare=partial(prepare_scale_up, owners=0, warm=True),
        go=("ScaleUp, quiet, later runs", 10.7),
        wanted=50,
    ),
    "run-once-scale-down": Benchmark(
        workload="2,000 nodes at 40 %, 80,000 pods, 1,200 nodes can go; a whole loop",
        start="decoded pods",
        prepare=partial(prepare_scale_down, warm=False),
        go=_down_row("median"),
        wanted=30,
    ),
    "run-once-scale-down-warm": Benchmark(
        workload="the same in the second loop",
        start="warm snapshot",
        prepare=partial(prepare_scale_down, warm=True),
        go=_down_row("median"),
        wanted=30,
    ),
    "many-groups": Benchmark(
        workload="500 groups of 50 templates, 10,000 pods of 300 shapes; a whole loop",
        start="decoded pods",
        prepare=partial(prepare_many_groups, 50),
        limit=3,
    ),
    "many-groups-500": Benchmark(
        workload="500 groups of 500 templates, 10,000 pods of 300 shapes; a whole loop",
        start="decoded pods",
        prepare=partial(prepare_many_groups, 500),
        limit=10,
    ),
}
