"""Whole loops that plan a mix of groups at the least price: the first mix, without time for improvements."""

from functools import partial
from typing import Any

from clusters import Cluster
from measure import Benchmark, Loop, Prepared, Result, scaled
from nodewright.model.pod import Pod
from nodewright.model.settings import ScaleUpSettings, Settings
from nodewright.testkit.builders import build_pod

_SHAPES = 300
_MOST = 10_000
FIRST_MIX = Settings(scale_up=ScaleUpSettings(expander="least-cost", least_cost_budget=0.0, max_nodes_per_scaleup=0))
_CORES, _GIB_PER_CORE = (2, 4, 8, 16, 32), (2, 4, 8, 16)


def prepare_mix(pods: int, groups: int, share: float) -> Prepared:
    """Every pod is helped, by nodes of several groups."""
    cluster = Cluster()
    for number in range(groups):
        price, shape = machine(number)
        cluster.add_group(f"g{number}", 0, _MOST, price=price, **shape)
    count = scaled(pods, share)
    cluster.put([_pod(number) for number in range(count)])
    loop, gap = Loop(FIRST_MIX), dict[str, float]()

    def run() -> Result:
        report = loop.turn(cluster.look()).scale_up
        mix = report.cost
        gap["gap %"] = round(100 * (mix.price / mix.bound - 1.0), 1) if mix is not None and mix.bound else 0.0
        return {"helped": len(report.triggered), "mixed": int(len(report.expansions) > 1)}

    return Prepared(run=run, expected={"helped": count, "mixed": 1}, notes=lambda: {**cluster.notes(), **gap})


def machine(number: int) -> tuple[float, dict[str, Any]]:
    """Return the price of a kind and what it offers: twenty sizes, each in many generations, the older ones dearer."""
    generation, size = divmod(number, len(_CORES) * len(_GIB_PER_CORE))
    cores = _CORES[size % len(_CORES)]
    gib = cores * _GIB_PER_CORE[size // len(_CORES)]
    price = (0.03 * cores + 0.004 * gib) * (1 + 0.02 * generation)
    return price, {"cpu": f"{1000 * cores - 10 * generation}m", "memory": f"{gib}Gi", "labels": {"kind": f"k{number}"}}


def _pod(number: int) -> Pod:
    shape = number % _SHAPES
    return build_pod(
        f"p{number}",
        f"{100 + 7 * shape}m",
        f"{128 + 16 * (37 * shape % _SHAPES)}Mi",
        owner=("ReplicaSet", f"rs{shape}"),
    )


MIXES: dict[str, Benchmark] = {
    f"mix-{groups}": Benchmark(
        workload=f"{pods:,} pods of 300 shapes, {groups} groups with prices: the first mix; a whole loop",
        start="decoded pods",
        prepare=partial(prepare_mix, pods, groups),
        limit=limit,
    )
    for groups, pods, limit in ((24, 50_000, 0.3), (100, 10_000, 0.15), (500, 10_000, 1.0))
}
