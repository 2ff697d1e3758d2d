"""Growing groups to their minimum, also those that grow for pods in the same loop."""

from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import World, ref


def test_a_group_that_grows_for_pods_is_filled_up_at_once() -> None:
    world = World()
    world.add_group("g", min_size=3)
    world.pending = [build_pod("p", cpu="1", unschedulable=True, created_at=0.0)]
    plan = world.plan(enforce_node_group_min_size=True)
    assert [(a.expected_target, getattr(a, "target", None)) for a in plan.actions] == [(0, 1), (1, 3)]


def test_the_most_nodes_are_counted_over_the_cluster_but_for_ca() -> None:
    world = World()
    world.add_group("full", size=2)
    world.add_group("g", min_size=3)
    limited = {"enforce_node_group_min_size": True, "max_nodes_total": 3}
    (action,) = world.plan(**limited).actions
    assert (action.group, getattr(action, "target", None)) == (ref("g"), 1)
    (action,) = world.plan(profile="ca", **limited).actions
    assert getattr(action, "target", None) == 3, "CA holds the limit against the group's own size"
