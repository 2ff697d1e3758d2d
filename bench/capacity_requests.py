"""How long requests for capacity take: many small ones, and a huge one (seed 004, scalability).

``python bench/capacity_requests.py`` prints a line for each: loops until the last decision, the longest of their plans, and status
writes. No API server is asked.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from nodewright.model.action import IncreaseSize
from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    PROVISIONED,
    PodSet,
    PodTemplate,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    TemplateReference,
)
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World

_SMALL_REQUESTS, _NODES = 5000, 1000
_BIG_COUNT, _BIG_SETS = 16_384, 32


def make_template(name: str, cpu: str, memory: str) -> PodTemplate:
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": name}), spec=build_pod(name, cpu, memory).spec)
    return PodTemplate(metadata=ObjectMeta(name=name, namespace="default"), template=template)


def make_request(name: str, kind: str, sets: Sequence[tuple[str, int]]) -> ProvisioningRequest:
    created = datetime.fromtimestamp(NOW - 60, tz=UTC)
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}", creation_timestamp=created),
        spec=ProvisioningRequestSpec(
            provisioning_class_name=kind,
            pod_sets=tuple(PodSet(pod_template_ref=TemplateReference(name=held), count=n) for held, n in sets),
        ),
    )


def many_small(count: int = _SMALL_REQUESTS, nodes: int = _NODES) -> "Measured":
    """So many requests for room for 2 pods each; for half of them there is room on nodes of 4 cpu."""
    world = World()
    world.add_group("pool", nodes, max_size=3 * nodes, cpu="4", memory="16Gi")
    world.templates = [make_template("small", "800m", "256Mi")]
    world.requests = [make_request(f"r{number}", CHECK_CAPACITY, [("small", 2)]) for number in range(count)]
    return _measure(world)


def one_huge(count: int = _BIG_COUNT, sets: int = _BIG_SETS) -> "Measured":
    """One request of all or nothing with so many pods in each set, none of which has room."""
    world = World()
    world.add_group("pool", 1, max_size=100_000, cpu="64", memory="256Gi", pods=512)
    world.templates = [make_template(f"set-{n}", f"{200 + n}m", "512Mi") for n in range(sets)]
    world.requests = [make_request("huge", BEST_EFFORT_ATOMIC, [(one.name, count) for one in world.templates])]
    return _measure(world)


class Measured(NamedTuple):
    """``loops`` in seconds, until nothing new was decided; ``nodes`` were asked for."""

    loops: tuple[float, ...]
    writes: int
    decided: int
    nodes: int


def _measure(world: World) -> Measured:
    """Loop after loop, 10 s apart, with what was written in between."""
    loops, writes, nodes = list[float](), 0, 0
    while True:
        started = time.perf_counter()
        plan = world.plan(enable_provisioning_requests=True, scale_down_enabled=False)
        report = plan.provisioning
        if not report.writes:
            break
        loops.append(time.perf_counter() - started)
        writes += len(report.writes)
        nodes += sum(
            action.target - action.expected_target for action in plan.actions if isinstance(action, IncreaseSize)
        )
        fresh = {write.request.key: write.request for write in report.writes}
        world.requests = [fresh.get(request.key, request) for request in world.requests]
        assert report.memory is not None
        world.memory = replace(world.memory, provisioning=report.memory)
        world.now += 10.0
        if nodes:  # they are under way: what follows waits for them
            break
    decided = sum(request.condition(PROVISIONED) is not None for request in world.requests)
    return Measured(tuple(loops), writes, decided, nodes)


def main() -> int:
    found = many_small()
    print(
        f"{found.decided} small requests: {len(found.loops)} loops, {10 * (len(found.loops) - 1)} s to the last decision at"
        f" one loop in 10 s, {max(found.loops):.2f} s the longest loop, {found.writes} status writes"
    )
    huge = one_huge()
    print(
        f"1 request of {_BIG_COUNT} pods x {_BIG_SETS} sets: {len(huge.loops)} loop of {huge.loops[0]:.2f} s,"
        f" {huge.writes} status write, {huge.nodes} nodes"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
