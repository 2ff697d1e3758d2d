"""In any cluster, buffers take nothing from pods and requests, and no room is counted twice."""

from dataclasses import dataclass

from core.tests.planner.buffering import ON, add_buffer, add_template, book
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.action import IncreaseSize
from nodewright.model.plan import BufferAllocation, Plan
from nodewright.model.provisioning_request import TemplateReference
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World

NODE_CPU = 4
CPUS = st.integers(1, 4)


@dataclass(frozen=True)
class Case:
    """Cpus of pods; ``running`` are pairs of a node and a pod."""

    sizes: tuple[int, ...]
    room: int
    running: tuple[tuple[int, int], ...]
    pending: tuple[int, ...]
    buffers: tuple[tuple[int, int], ...]
    booked: tuple[int, ...]
    most: int


CASES = st.builds(
    Case,
    sizes=st.lists(st.integers(0, 3), min_size=1, max_size=2).map(tuple),
    room=st.integers(0, 4),
    running=st.lists(st.tuples(st.integers(0, 5), CPUS), max_size=6).map(tuple),
    pending=st.lists(CPUS, max_size=6).map(tuple),
    buffers=st.lists(st.tuples(CPUS, st.integers(0, 9)), min_size=1, max_size=3).map(tuple),
    booked=st.lists(CPUS, max_size=2).map(tuple),
    most=st.sampled_from([0, 0, 5]),
)


def plan_with(case: Case, *, spare: bool) -> tuple[World, Plan]:
    world = World()
    for number, size in enumerate(case.sizes):
        world.add_group(f"g{number}", size, max_size=size + case.room)
    free = {node.name: NODE_CPU for node in world.nodes}
    for number, (index, cpu) in enumerate(case.running):
        node = world.nodes[index % len(world.nodes)].name if world.nodes else ""
        if node and free[node] >= cpu:
            free[node] -= cpu
            world.running.append(build_pod(f"run-{number}", cpu, node_name=node))
    world.pending = [build_pod(f"wait-{number}", cpu) for number, cpu in enumerate(case.pending)]
    for cpu in range(1, 5):
        add_template(world, f"t{cpu}", cpu=str(cpu))
    for number, cpu in enumerate(case.booked):
        book(world, f"r{number}", f"t{cpu}", 1)
    for number, (cpu, replicas) in enumerate(case.buffers if spare else ()):
        reference = TemplateReference(name=f"t{cpu}")
        add_buffer(world, f"b{number}", pod_template_ref=reference, replicas=replicas)
    return world, world.plan(**ON, enable_provisioning_requests=True, max_nodes_total=case.most)


def nodes_bought(plan: Plan) -> int:
    return sum(one.target - one.expected_target for one in plan.actions if isinstance(one, IncreaseSize))


def cpu_of(allocation: BufferAllocation) -> int:
    """What the pods that have room, or will, ask for."""
    name = allocation.buffer.spec.pod_template_ref
    return int(name.name[1:]) * (allocation.held + allocation.coming) if name is not None else 0


@given(CASES)
def test_pods_and_requests_get_what_they_would_get_without_buffers(case: Case) -> None:
    _, alone = plan_with(case, spare=False)
    _, shared = plan_with(case, spare=True)
    assert shared.fitting == alone.fitting
    assert shared.scale_up == alone.scale_up
    assert shared.provisioning.reserved == alone.provisioning.reserved
    assert [one for one in shared.actions if isinstance(one, IncreaseSize)][: len(alone.scale_up.expansions)] == [
        one for one in alone.actions if isinstance(one, IncreaseSize)
    ]


@given(CASES)
def test_no_room_is_counted_twice(case: Case) -> None:
    world, plan = plan_with(case, spare=True)
    waiting = dict(zip((pod.name for pod in world.pending), case.pending, strict=True))
    running = sum(
        cpu for pod in world.running for cpu in [pod.spec.containers[0].resources.requests["cpu"].nano // 10**9]
    )
    held = sum(case.booked[int(key.rpartition("r")[2])] * count for key, count in plan.provisioning.reserved.items())
    pods = sum(waiting[pod.name] for pod in (*plan.fitting, *plan.scale_up.triggered))
    spare = sum(map(cpu_of, plan.buffers.allocations))
    nodes = len(world.nodes) + nodes_bought(plan)
    assert running + held + pods + spare <= NODE_CPU * nodes
    assert not case.most or nodes <= max(case.most, len(world.nodes))
    assert all(allocation.missing >= 0 for allocation in plan.buffers.allocations)
