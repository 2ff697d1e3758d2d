"""Whole loops in which clouds take many machines at once: one plan for all notices."""

from dataclasses import replace
from functools import partial

from clusters import PROVIDER, Cluster
from measure import Benchmark, Loop, Prepared, Result, scaled
from mixes import FIRST_MIX, machine
from nodewright.model.action import IncreaseSize
from nodewright.model.group import FailureScope
from nodewright.model.interruption import Interruption, InterruptionKind
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_pod

_GROUPS, _SHAPES, _PODS_PER_NODE, _NOTICE = 24, 40, 10, 120.0


def prepare_notices(nodes: int, notices: int, share: float) -> Prepared:
    """Prepare ``notices`` notices for nodes of one group; every pod on them gets a place on nodes of other groups."""
    cluster, size = Cluster(), scaled(nodes, share)
    taken = min(size, scaled(notices, share))
    cluster.add_group("spot", size, 2 * size, price=0.2, cpu="16", memory="64Gi")
    for number in range(_GROUPS):
        price, shape = machine(number)
        cluster.add_group(f"g{number}", 0, 10_000, price=price, **shape)
    pods = [
        build_pod(
            f"p{node}-{place}",
            f"{800 + 15 * ((node + place) % _SHAPES)}m",
            "2Gi",
            node_name=f"spot-{node}",
            owner=("ReplicaSet", f"rs{(node + place) % _SHAPES}"),
        )
        for node in range(size)
        for place in range(_PODS_PER_NODE)
    ]
    cluster.put(pods)
    loop = Loop(FIRST_MIX)
    loop.turn(cluster.look())
    seen = cluster.look()
    told = tuple(
        Interruption(
            id=str(node),
            instance_id=f"cloud:///spot/{node}",
            kind=InterruptionKind.RECLAIM,
            deadline=seen.now + _NOTICE,
            scope=FailureScope.GROUP,
        )
        for node in range(taken)
    )
    seen = replace(seen, providers={PROVIDER: ProviderSeen(name=PROVIDER, interruptions=told)})

    def run() -> Result:
        plan = loop.turn(seen)
        grown = [action.group.group_id for action in plan.actions if isinstance(action, IncreaseSize)]
        placed = len(plan.scale_up.triggered) + len(plan.fitting)
        return {"leaving": len(plan.leaving), "placed": placed, "same pool": grown.count("spot")}

    expected = {"leaving": taken, "placed": taken * _PODS_PER_NODE, "same pool": 0}
    return Prepared(run=run, expected=expected, notes=cluster.notes)


NOTICES: dict[str, Benchmark] = {
    "notices-500": Benchmark(
        workload="2,000 nodes with 20,000 pods of 40 shapes, 500 of the nodes get a notice, 24 other groups; a whole loop",
        start="warm snapshot",
        prepare=partial(prepare_notices, 2000, 500),
        limit=1.0,
    )
}
