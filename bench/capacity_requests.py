"""How long requests for capacity take: many small ones, and a huge one (seed 004, scalability).

What was decided is taken for written, and the next loop is 10 s later. No API server is asked, and no cloud.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil

from measure import Benchmark, Prepared, Result
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

_LOOP_SECONDS = 10.0


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


class Course:
    """One world from loop to loop, until nothing new is decided or machines are asked for.

    ``loops`` are processor seconds of each plan, ``writes`` how many conditions were written, ``nodes`` are asked for.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.loops: list[float] = []
        self.writes = 0
        self.nodes = 0

    def run(self) -> None:
        while not self.nodes and self._turn():
            self.world.now += _LOOP_SECONDS

    def count(self, status: str) -> int:
        """How many requests say so of being provisioned."""
        held = (request.condition(PROVISIONED) for request in self.world.requests)
        return sum(condition is not None and condition.status == status for condition in held)

    def notes(self) -> Mapping[str, float]:
        """``last`` is when the last was decided, in seconds from the first loop."""
        return {
            "loops": len(self.loops),
            "longest": round(max(self.loops), 2),
            "last": _LOOP_SECONDS * (len(self.loops) - 1),
            "writes": self.writes,
            "nodes": self.nodes,
        }

    def _turn(self) -> bool:
        started = time.process_time()
        plan, after = self.world.plan_and_memory(enable_provisioning_requests=True, scale_down_enabled=False)
        report = plan.provisioning
        if not report.writes:
            return False
        self.loops.append(time.process_time() - started)
        self.writes += len(report.writes)
        increases = (action for action in plan.actions if isinstance(action, IncreaseSize))
        self.nodes += sum(action.target - action.expected_target for action in increases)
        fresh = {write.request.key: write.request for write in report.writes}
        self.world.requests = [fresh.get(request.key, request) for request in self.world.requests]
        self.world.memory = replace(self.world.memory, provisioning=after.provisioning)
        return True


def prepare_small(share: float) -> Prepared:
    """Prepare requests for room for 2 pods each; half of them find room on nodes of 4 cpu."""
    count, nodes = int(5000 * share), int(1000 * share)
    world = World()
    world.add_group("pool", nodes, max_size=3 * nodes, cpu="4", memory="16Gi")
    world.templates = [make_template("small", "800m", "256Mi")]
    world.requests = [make_request(f"r{number}", CHECK_CAPACITY, [("small", 2)]) for number in range(count)]
    found = 5 * nodes // 2
    return _prepared(
        world,
        lambda course: {"found": course.count("True"), "not found": course.count("False")},
        {"found": found, "not found": count - found},
    )


def prepare_huge(share: float) -> Prepared:
    """One request of all or nothing with this many pods in each set; there is one node, and room for more of its kind."""
    count, sets = int(16_384 * share), 32
    world = World()
    world.add_group("pool", 1, max_size=100_000, cpu="64", memory="256Gi", pods=512)
    world.templates = [make_template(f"set-{n}", f"{200 + n}m", "512Mi") for n in range(sets)]
    world.requests = [make_request("huge", BEST_EFFORT_ATOMIC, [(one.name, count) for one in world.templates])]
    least = ceil(sum(200 + n for n in range(sets)) * count / 64_000)

    def result(course: Course) -> Result:
        return {"loops": len(course.loops), "writes": course.writes, "too many nodes": max(0, course.nodes - least - 2)}

    return _prepared(world, result, {"loops": 1, "writes": 1, "too many nodes": 0})


def _prepared(world: World, result: Callable[[Course], Result], expected: Result) -> Prepared:
    course = Course(world)

    def run() -> Result:
        course.run()
        return result(course)

    return Prepared(run=run, expected=expected, notes=course.notes)


REQUESTS: dict[str, Benchmark] = {
    "requests-small": Benchmark(
        workload="5,000 requests for room for 2 pods each on 1,000 nodes, until each is decided",
        start="requests",
        prepare=prepare_small,
        limit=30,
    ),
    "requests-huge": Benchmark(
        workload="one request of all or nothing for 32 sets of 16,384 pods; one plan",
        start="requests",
        prepare=prepare_huge,
        limit=4,
    ),
}
