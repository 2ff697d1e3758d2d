"""The workloads of the real cluster-autoscaler's own benchmarks, rebuilt, each with the result it must reach."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from nodewright.estimator.binpacking import Template, estimate
from nodewright.estimator.pod_group import PodGroup, group_pods
from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import World, grown

Result = dict[str, int]


@dataclass(frozen=True)
class Benchmark:
    """``prepare`` makes the input, untimed, and answers what is timed; that must answer ``expected``."""

    workload: str
    prepare: Callable[[], Callable[[], Result]]
    expected: Result


def _numbers(seed: int = 1) -> Iterator[int]:
    """The generator of the distinct workload: x ← x·1664525 + 1013904223 mod 2³²."""
    while True:
        seed = (seed * 1664525 + 1013904223) % 2**32
        yield seed >> 8


def _packed(snapshot: Snapshot, template: Template, groups: list[PodGroup]) -> Result:
    found = estimate(snapshot, template, groups, 3000)
    return {"nodes": found.node_count, "pods": len(found.pods)}


def _beside_a_node() -> Snapshot:
    snapshot = Snapshot()
    snapshot.add_node(build_node("existing", cpu="100m", memory="100Mi", pods=10, zone="jupiter"))
    return snapshot


def _estimatee(count: int, cpu: str, memory: int) -> list[Pod]:
    labels = {"app": "estimatee"}
    owner = ("ReplicaSet", f"estimatee-{cpu}")
    return [
        build_pod(f"{cpu}-{k}", cpu, memory, namespace="universe", labels=labels, owner=owner) for k in range(count)
    ]


def prepare_estimate(*, grouped: bool) -> Callable[[], Result]:
    pods = _estimatee(50_000, "50m", 100) + _estimatee(1_000, "95m", 190)
    template = Template(build_node("template", cpu="1", memory="5000Mi", pods=100, zone="mars"))
    snapshot = _beside_a_node()
    if grouped:
        return partial(_packed, snapshot, template, group_pods(pods, snapshot))
    return lambda: _packed(_beside_a_node(), template, group_pods(pods, Snapshot()))


def _large_template() -> Template:
    return Template(build_node("template", cpu="16", memory="64000Mi", pods=110, zone="mars"))


def prepare_distinct() -> Callable[[], Result]:
    numbers = _numbers()
    pods = []
    for index in range(5_000):
        cpu, memory = 50 + next(numbers) % (4000 - 50), 64 + next(numbers) % (16000 - 64)
        pods.append(build_pod(f"d{index}", f"{cpu}m", memory, owner=None, labels={"app": f"a{index}"}))
    snapshot = _beside_a_node()
    return partial(_packed, snapshot, _large_template(), group_pods(pods, snapshot))


def prepare_apart(make: Callable[[LabelSelector], dict[str, object]]) -> Callable[[], Result]:
    pods: list[Pod] = []
    for index in range(10):
        labels = {"app": f"a{index}"}
        extras = make(LabelSelector(match_labels=labels))
        owner = ("ReplicaSet", f"rs{index}")
        pods += [
            build_pod(f"a{index}-{k}", f"{500 + 10 * index}m", 1000, owner=owner, labels=labels, **extras)  # type: ignore[arg-type]  # one of two known extras
            for k in range(200)
        ]
    snapshot = _beside_a_node()
    return partial(_packed, snapshot, _large_template(), group_pods(pods, snapshot))


def anti_affinity(selector: LabelSelector) -> dict[str, object]:
    term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
    return {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=(term,)))}


def hostname_spread(selector: LabelSelector) -> dict[str, object]:
    constraint = TopologySpreadConstraint(topology_key=HOSTNAME_LABEL, max_skew=1, label_selector=selector)
    return {"topology_spread_constraints": (constraint,)}


def _targets(world: World) -> Result:
    return {group: to for group, (_, to) in grown(world.plan(max_nodes_total=10_000)).items()}


def prepare_scale_up() -> Callable[[], Result]:
    world = World(pending=[build_pod(f"p{k}", "200m", 200, owner=None) for k in range(50_000)])
    world.add_group("g", cpu="10", memory=10_000, pods=100, max_size=10_000)
    return partial(_targets, world)


def prepare_owned() -> Callable[[], Result]:
    pods = [
        build_pod(f"p{k}", "200m", 200, owner=("ReplicaSet", f"rs{k % 100}"), labels={"app": f"a{k % 100}"})
        for k in range(50_000)
    ]
    world = World(pending=pods)
    world.add_group("g", cpu="10", memory=10_000, pods=100, max_size=10_000)
    return partial(_targets, world)


def prepare_filter(nodes: int, running: int, pending: int) -> Callable[[], Result]:
    world = World(pending=[build_pod(f"p{k}", "1", 2_000_000, owner=None) for k in range(pending)])
    world.add_group("full", size=nodes, cpu="2", memory=200_000, pods=100, max_size=nodes)
    world.running = [
        build_pod(f"r{k}", "1", 200_000, owner=None, node_name=f"full-{k % nodes}") for k in range(running)
    ]
    return lambda: {"left": len(world.plan().scale_up.unhelped)}


def prepare_many_groups(templates: int) -> Callable[[], Result]:
    world = World()
    for index in range(500):
        kind = index % templates
        world.add_group(f"g{index}", cpu=str(4 + kind % 28), memory=f"{16 + kind}Gi", labels={"kind": f"k{kind}"})
    world.pending = [
        build_pod(f"p{k}", f"{100 + (k % 300) * 7}m", "100Mi", owner=("ReplicaSet", f"rs{k % 300}"))
        for k in range(10_000)
    ]
    return lambda: {"groups": len(grown(world.plan())), "options": len(world.plan().scale_up.options)}


BENCHMARKS: dict[str, Benchmark] = {
    "estimate": Benchmark(
        "51,000 pods of two groups, from prepared groups",
        partial(prepare_estimate, grouped=True),
        {"nodes": 2595, "pods": 51_000},
    ),
    "estimate-pods": Benchmark(
        "the same from decoded pods", partial(prepare_estimate, grouped=False), {"nodes": 2595, "pods": 51_000}
    ),
    "estimate-distinct": Benchmark("5,000 pods, all different", prepare_distinct, {"nodes": 632, "pods": 5_000}),
    "estimate-anti-affinity": Benchmark(
        "10 groups of 200 pods that repel their own",
        partial(prepare_apart, anti_affinity),
        {"nodes": 200, "pods": 2_000},
    ),
    "estimate-spread": Benchmark(
        "10 groups of 200 pods spread by hostname",
        partial(prepare_apart, hostname_spread),
        {"nodes": 200, "pods": 2_000},
    ),
    "owned": Benchmark("50,000 pods of 100 ReplicaSets, a whole plan", prepare_owned, {"g": 1000}),
    "run-once-scale-up": Benchmark("50,000 ownerless pods, a whole plan", prepare_scale_up, {"g": 1000}),
    "filter-schedulable-200": Benchmark(
        "60,000 pending on 200 full nodes", partial(prepare_filter, 200, 200, 60_000), {"left": 60_000}
    ),
    "filter-schedulable-1000": Benchmark(
        "12,000 pending on 1,000 full nodes", partial(prepare_filter, 1000, 1000, 12_000), {"left": 12_000}
    ),
    "many-groups": Benchmark(
        "500 groups of 50 kinds, 10,000 pods of 300 shapes, two plans",
        partial(prepare_many_groups, 50),
        {"groups": 1, "options": 500},
    ),
}
