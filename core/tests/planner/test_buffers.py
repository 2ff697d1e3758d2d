"""Buffers of spare capacity: which nodes hold it, and that pods and requests get nothing less because of it."""

from core.tests.planner.buffering import ON, add_buffer, allocation, book, make_world, said

from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupOptions
from nodewright.model.provisioning_request import TemplateReference
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import grown


def test_a_buffer_makes_its_group_grow_by_what_has_no_room() -> None:
    world = make_world(1)
    add_buffer(world, replicas=10)
    plan = world.plan(**ON)
    assert grown(plan) == {"pool": (1, 3)}
    held = allocation(plan)
    assert (held.held, held.coming, held.missing) == (4, 6, 0)
    status = held.buffer.status
    assert status.replicas == 10
    assert status.pod_template_ref == TemplateReference(name="chunk")
    assert status.pod_template_generation == 1
    assert said(plan, "ReadyForProvisioning") == "True/AttributesSetSuccessfully/ready"
    assert said(plan, "Provisioning") == "True/FakePodsInjected/"
    assert said(plan, "LimitedByQuotas") == "False/ResourceQuotasAllocated/"
    assert plan.buffers.writes == (held.buffer,)
    assert plan.scale_up.triggered == ()


def test_real_pods_come_first_and_the_rest_of_their_nodes_is_used() -> None:
    world = make_world(0)
    world.pending = [build_pod(f"web-{n}", "3") for n in range(2)]
    add_buffer(world, replicas=3)
    plan = world.plan(**ON)
    # Two nodes for the pods have room for two of three virtual ones.
    increases = [(one.expected_target, one.target) for one in plan.actions if isinstance(one, IncreaseSize)]
    assert increases == [(0, 2), (2, 3)]
    assert (allocation(plan).held, allocation(plan).coming) == (0, 3)
    assert {pod.name for pod in plan.scale_up.triggered} == {"web-0", "web-1"}


def test_real_pods_take_the_room_that_a_buffer_held() -> None:
    world = make_world(1, max_size=1)
    world.pending = [build_pod("web", "3")]
    add_buffer(world, replicas=4)
    plan = world.plan(**ON)
    assert [pod.name for pod in plan.fitting] == ["web"]
    held = allocation(plan)
    assert (held.held, held.coming, held.missing) == (1, 0, 3)
    assert held.why == "1 max node group size reached"
    assert said(plan, "Provisioning") == "True/FakePodsInjected/3 of 4 pods have no room yet"


def test_a_buffer_buys_nothing_while_pods_wait_for_their_turn() -> None:
    world = make_world(0)
    world.add_group("other", 0, labels={"disk": "ssd"})
    world.pending = [
        build_pod("here", "1", node_selector={"disk": "ssd"}),
        *(build_pod(f"there-{n}", "1", node_selector={"kubernetes.io/arch": "arm64"}) for n in range(1)),
    ]
    world.add_group("arm", 0, labels={"kubernetes.io/arch": "arm64"})
    add_buffer(world, replicas=1)
    plan = world.plan(**ON)
    assert plan.scale_up.awaiting
    assert plan.spare == ()
    assert allocation(plan).why == "pods or requests that wait for machines come first"


def test_the_limit_of_nodes_is_for_real_pods_first() -> None:
    world = make_world(0)
    world.pending = [build_pod("web", "4")]
    add_buffer(world, replicas=1)
    plan = world.plan(**ON, max_nodes_total=1)
    assert grown(plan) == {"pool": (0, 1)}
    assert allocation(plan).missing == 1


def test_what_a_limit_leaves_is_bought_and_only_that_counts_as_coming() -> None:
    world = make_world(0)
    world.pending = [build_pod("web", "4")]
    add_buffer(world, replicas=12)
    plan = world.plan(**ON, cores_total="0:8")
    increases = [(one.expected_target, one.target) for one in plan.actions if isinstance(one, IncreaseSize)]
    assert increases == [(0, 1), (1, 2)]
    assert (allocation(plan).held, allocation(plan).coming, allocation(plan).missing) == (0, 4, 8)
    assert allocation(plan).why == "the groups that would help may not grow by enough now"


def test_nodes_that_hold_a_buffer_are_needed() -> None:
    world = make_world(3)
    assert set(world.plan(**ON).scale_down.unneeded) == {"pool-0", "pool-1", "pool-2"}
    add_buffer(world, replicas=8)
    assert len(world.plan(**ON).scale_down.unneeded) == 1


def test_a_node_with_virtual_pods_that_fit_elsewhere_counts_as_empty() -> None:
    world = make_world(2, options=GroupOptions(scale_down_unneeded_seconds=0.0))
    world.running = [build_pod("web", "3", node_name="pool-1")]
    add_buffer(world, replicas=1)
    plan, after = world.plan_and_memory(**ON)
    assert "pool-0" in after.scale_down.pending_hints.values()
    (removal,) = plan.scale_down.removals
    assert (removal.node, removal.pods) == ("pool-0", ())


def test_what_a_request_holds_is_not_the_room_of_a_buffer() -> None:
    world = make_world(1, max_size=1)
    book(world, "train", "chunk", 3)
    add_buffer(world, replicas=4)
    plan = world.plan(**ON, enable_provisioning_requests=True)
    assert plan.provisioning.reserved == {"shop/train": 3}
    assert (allocation(plan).held, allocation(plan).missing) == (1, 3)


def test_growth_for_a_buffer_counts_towards_the_minimum_size() -> None:
    world = make_world(0, min_size=3)
    add_buffer(world, replicas=8)
    plan = world.plan(**ON, enforce_node_group_min_size=True)
    increases = [action for action in plan.actions if isinstance(action, IncreaseSize)]
    assert [(action.expected_target, action.target) for action in increases] == [(0, 2), (2, 3)]
