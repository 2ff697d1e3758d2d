"""Packing pods on new nodes: CA's own benchmark of its estimator, and harder shapes."""

from collections.abc import Callable, Iterator
from functools import partial

from measure import Benchmark, Prepared, Result, scaled
from nodewright.estimator.binpacking import Template, estimate
from nodewright.estimator.pod_group import PodGroup, group_pods
from nodewright.model.meta import LabelSelector
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.model.sharing import Sharing
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit.builders import build_node, build_pod


def numbers(seed: int = 1) -> Iterator[int]:
    """Yield the numbers of the distinct workload: x ← x·1664525 + 1013904223 mod 2³²."""
    while True:
        seed = (seed * 1664525 + 1013904223) % 2**32
        yield seed >> 8


def shared(pods: list[Pod]) -> list[Pod]:
    """Pods as they come from the decoder: equal parts are one object."""
    sharing = Sharing()
    return [sharing.pod(pod) for pod in pods]


def _packed(snapshot: Snapshot, template: Template, groups: list[PodGroup], limit: int = 3000) -> Result:
    found = estimate(snapshot, template, groups, limit)
    return {"nodes": found.node_count, "pods": len(found.pods)}


def _beside_a_node() -> Snapshot:
    snapshot = Snapshot()
    snapshot.add_node(build_node("existing", cpu="100m", memory="100Mi", pods=10, zone="jupiter"))
    return snapshot


def _estimatee(count: int, cpu: str, memory: int) -> list[Pod]:
    labels, owner = {"app": "estimatee"}, ("ReplicaSet", f"estimatee-{cpu}")
    return [
        build_pod(f"{cpu}-{k}", cpu, memory, namespace="universe", labels=labels, owner=owner) for k in range(count)
    ]


def prepare_estimate(share: float, *, grouped: bool) -> Prepared:
    hundreds = scaled(10, share)  # 100 large pods, and 5,000 small ones beside and after them
    pods = shared(_estimatee(hundreds * 5_000, "50m", 100) + _estimatee(hundreds * 100, "95m", 190))
    template = Template(build_node("template", cpu="1", memory="5000Mi", pods=100, zone="mars"))
    nodes = hundreds * 10 + -(-(hundreds * 5_000 - hundreds * 10) // 20)
    expected = {"nodes": nodes, "pods": len(pods)}
    if grouped:
        snapshot = _beside_a_node()
        return Prepared(run=partial(_packed, snapshot, template, group_pods(pods, snapshot)), expected=expected)

    def run() -> Result:
        snapshot = _beside_a_node()
        return _packed(snapshot, template, group_pods(pods, snapshot))

    return Prepared(run=run, expected=expected)


def _large_template() -> Template:
    return Template(build_node("template", cpu="16", memory="64000Mi", pods=110, zone="mars"))


def prepare_distinct(share: float) -> Prepared:
    draws, pods, count = numbers(), [], scaled(5_000, share)
    for index in range(count):
        cpu, memory = 50 + next(draws) % (4000 - 50), 64 + next(draws) % (16000 - 64)
        pods.append(build_pod(f"d{index}", f"{cpu}m", memory, owner=None, labels={"app": f"a{index}"}))
    snapshot = _beside_a_node()
    run = partial(_packed, snapshot, _large_template(), group_pods(pods, snapshot))
    # At a share of the size CA's result is not known: the pods alone are checked.
    if count == 5_000:
        return Prepared(run=run, expected={"nodes": 632, "pods": 5_000})
    return Prepared(run=lambda: {"pods": run()["pods"]}, expected={"pods": count})


def prepare_apart(make: Callable[[LabelSelector], dict[str, object]], share: float) -> Prepared:
    pods: list[Pod] = []
    each = scaled(200, share)
    for index in range(10):
        labels, owner = {"app": f"a{index}"}, ("ReplicaSet", f"rs{index}")
        extras = make(LabelSelector(match_labels=labels))
        pods += [
            build_pod(f"a{index}-{k}", f"{500 + 10 * index}m", 1000, owner=owner, labels=labels, **extras)  # type: ignore[arg-type]  # one of two known extras
            for k in range(each)
        ]
    snapshot = _beside_a_node()
    run = partial(_packed, snapshot, _large_template(), group_pods(shared(pods), snapshot))
    return Prepared(run=run, expected={"nodes": each, "pods": 10 * each})


def anti_affinity(selector: LabelSelector) -> dict[str, object]:
    term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
    return {"affinity": Affinity(pod_anti_affinity=PodAffinity(required=(term,)))}


def hostname_spread(selector: LabelSelector) -> dict[str, object]:
    constraint = TopologySpreadConstraint(topology_key=HOSTNAME_LABEL, max_skew=1, label_selector=selector)
    return {"topology_spread_constraints": (constraint,)}


ESTIMATES: dict[str, Benchmark] = {
    "estimate": Benchmark(
        workload="51,000 pods of two groups",
        start="prepared groups",
        prepare=partial(prepare_estimate, grouped=True),
        go=("BinpackingEstimate, quiet", 4.50),
        wanted=1000,
    ),
    "estimate-pods": Benchmark(
        workload="the same, classed and grouped first",
        start="decoded pods",
        prepare=partial(prepare_estimate, grouped=False),
        go=("BinpackingEstimate, quiet", 4.50),
        wanted=80,
    ),
    "estimate-distinct": Benchmark(
        workload="5,000 pods, all different",
        start="prepared groups",
        prepare=prepare_distinct,
        go=("distinct", 1.84),
        wanted=40,
    ),
    "estimate-anti-affinity": Benchmark(
        workload="10 groups of 200 pods that repel their own by hostname",
        start="prepared groups",
        prepare=partial(prepare_apart, anti_affinity),
        go=("anti-affinity", 0.67),
        wanted=20,
    ),
    "estimate-spread": Benchmark(
        workload="10 groups of 200 pods spread by hostname, maxSkew 1",
        start="prepared groups",
        prepare=partial(prepare_apart, hostname_spread),
        go=("spread", 0.35),
        wanted=20,
    ),
}
