"""One decision of consolidation in large clusters, with its context: thinned-out nodes, and full ones, where nothing pays."""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from random import Random

from clusters import Cluster
from measure import Benchmark, Prepared, Result, scaled
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory
from nodewright.model.pod import Pod
from nodewright.model.settings import ConsolidationSettings, Settings
from nodewright.planner import find_growth_context
from nodewright.planner.consolidation import FoundMoves, find_moves
from nodewright.testkit.builders import build_pod

_APPS = 150
_SIZES, _KINDS = (4, 8, 16, 32, 64), ((2, 1.0), (4, 1.1), (8, 1.4), (4, 1.3))
_MILLICORES, _MEBIBYTES = (50, 100, 100, 250, 500), (64, 128, 256, 256, 512, 1024)
_THIN, _FULL = 0.35, 1.0
_PODS_OF_FULL_NODE = 40
_MOST = 100_000


def _settings(budget: float) -> Settings:
    wanted = ConsolidationSettings(consolidation_policy="balanced", consolidate_after=0.0, consolidation_budget=budget)
    return Settings(consolidation=wanted)


def prepare_decision(nodes: int, pods: int, fill: float, budget: float, share: float) -> Prepared:
    """Return a cluster whose nodes are filled to this part, and one decision over it."""
    cluster, settings = Cluster(), _settings(budget)
    is_full = fill == _FULL
    sizes, kinds = (_SIZES[:1], _KINDS[:1]) if is_full else (_SIZES, _KINDS)
    each = scaled(nodes, share) // (len(sizes) * len(kinds)) or 1
    for number, (gib, factor) in enumerate(kinds):
        for cores in sizes:
            shape = {"cpu": str(cores), "memory": f"{cores * gib}Gi", "price": 0.04 * cores * factor}
            cluster.add_group(f"g{number}-{cores}", each, _MOST, **shape)
    cluster.put(list(_full(cluster) if is_full else _pods(cluster, scaled(pods, share), fill)))
    notes = dict[str, float]()

    def run() -> Result:
        state = fold(Memory(), cluster.look(), [], settings)
        began = time.process_time()
        state = replace(state, elapsed=lambda: time.process_time() - began)
        context = find_growth_context(state, settings, Random(1))
        found = find_moves(context, settings.consolidation, Random(1)) if context is not None else FoundMoves()
        notes["saved %"] = round(100 * sum(move.savings for move in found.proposals) / found.pool.price, 1)
        return {"moves": len(found.proposals)}

    return Prepared(run=run, expected={"moves": int(not is_full)}, notes=lambda: {**cluster.notes(), **notes})


def _full(cluster: Cluster) -> Iterator[Pod]:
    """Yield pods that fill nodes of 4 cores and 8 GiB to the last core."""
    for at, node in enumerate(cluster.nodes):
        for number in range(_PODS_OF_FULL_NODE):
            app = f"a{(at + number) % _APPS}"
            name, owner = f"{app}-{at}-{number}", ("ReplicaSet", app)
            yield build_pod(name, "100m", "200Mi", node_name=node.name, owner=owner, labels={"app": app})


def _pods(cluster: Cluster, most: int, fill: float) -> Iterator[Pod]:
    """Yield pods on random nodes, each filled up to this part of its cores and memory."""
    random = Random(1)
    shapes = [(random.choice(_MILLICORES), random.choice(_MEBIBYTES)) for _ in range(_APPS)]
    room = [
        [fill * node.allocatable["cpu"].milli, fill * (node.allocatable["memory"].value >> 20)]
        for node in cluster.nodes
    ]
    for number in range(most):
        app = random.randrange(_APPS)
        cpu, memory = shapes[app]
        for _ in range(12):
            at = random.randrange(len(room))
            if room[at][0] >= cpu and room[at][1] >= memory:
                room[at][0] -= cpu
                room[at][1] -= memory
                name, owner = f"a{app}-{number}", ("ReplicaSet", f"a{app}")
                yield build_pod(
                    name,
                    f"{cpu}m",
                    f"{memory}Mi",
                    node_name=cluster.nodes[at].name,
                    owner=owner,
                    labels={"app": owner[1]},
                )
                break


DECISIONS: dict[str, Benchmark] = {
    f"consolidate-{name}": Benchmark(
        workload=f"{nodes:,} nodes, {'full' if fill == _FULL else 'thinned out'}, {pods:,} pods: one decision with its context",
        start="a warm snapshot",
        prepare=partial(prepare_decision, nodes, pods, fill, budget),
        limit=limit,
    )
    for name, nodes, pods, fill, budget, limit in (
        ("2000", 2_000, 80_000, _THIN, 1.0, 2.0),
        ("15000", 15_000, 150_000, _THIN, 2.0, 10.0),
        ("nothing", 2_000, 80_000, _FULL, 1.0, 2.0),
    )
}
