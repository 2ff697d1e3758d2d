"""The independent check finds the wrong actions of a faulty planner, and none in a sound plan."""

from random import Random

import pytest

from nodewright.model.action import DecreaseTargetSize, DeleteInstances, DeletionCause, IncreaseSize
from nodewright.model.group import FailedInstance, Instance
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import World, ref, settings_with
from nodewright.validate import check_actions
from nodewright.validate.actions import Planned

G = ref("g")


def world() -> World:
    made = World()
    made.add_group("g", size=2, max_size=5, failed=(FailedInstance(failure_id="f"),))
    made.add_group("unread", target=None, problem="no answer")
    return made


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        (IncreaseSize(group=G, expected_target=2, target=6), "above the group's maximum size of 5"),
        (IncreaseSize(group=G, expected_target=1, target=3), "planned for a target of 1, observed 2"),
        (
            IncreaseSize(group=G, expected_target=2, target=2),
            "the target of an increase is not above the present target",
        ),
        (IncreaseSize(group=ref("unread"), expected_target=0, target=1), "the group's size is unknown"),
        (IncreaseSize(group=ref("none"), expected_target=0, target=1), "the group's size is unknown"),
        (DecreaseTargetSize(group=G, expected_target=2, target=1, reason=""), "below the 2 machines that exist"),
        (DeleteInstances(group=G, expected_target=2, instance_ids=("x",), reason=""), "not machines of the group: x"),
        (
            DeleteInstances(
                group=G,
                expected_target=2,
                instance_ids=("cloud:///g/0",) * 2,
                cause=DeletionCause.RESERVATION,
                reason="",
            ),
            "a machine is named twice",
        ),
    ],
)
def test_what_breaks_a_rule_is_named(action: Planned, rule: str) -> None:
    (violation,) = check_actions(world().state().observation, [action], Settings())
    assert violation.action is action
    assert rule in violation.rule


def test_devices_that_have_not_appeared_count_towards_the_limit() -> None:
    """The node has two devices by its template, although its device plugin has reported none yet."""
    made = World(provider=ProviderSeen(name="cloud", gpu_label="accelerator", gpu_resources=("example.com/gpu",)))
    labels = {"accelerator": "t4"}
    made.add_group("g", size=1, max_size=5, extended={"example.com/gpu": 2}, labels=labels)
    made.nodes = [build_node("g-0", provider_id="cloud:///g/0", labels=labels)]

    def broken(target: int) -> list[str]:
        action = IncreaseSize(group=G, expected_target=1, target=target)
        found = check_actions(made.state().observation, [action], settings_with(gpu_total=("t4:0:4", "a100:0:0")))
        return [violation.rule for violation in found]

    assert broken(2) == []
    assert broken(3) == ["2 devices of t4 and 4 more exceed the cluster's limit of 4"]


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"max_nodes_total": 3}, "2 nodes and 2 more exceed --max-nodes-total=3"),
        ({"cores_total": "0:15"}, "cpu of 8 and 8 more exceeds the cluster's limit of 15"),
    ],
)
def test_cluster_limits_are_checked_over_the_whole_plan(setting: dict[str, object], rule: str) -> None:
    action = IncreaseSize(group=G, expected_target=2, target=4)
    (violation,) = check_actions(world().state().observation, [action], settings_with(**setting))
    assert violation.rule == rule


def test_an_increase_starts_where_the_last_one_ended() -> None:
    twice = [IncreaseSize(group=G, expected_target=2, target=3)] * 2
    rules = {violation.rule for violation in check_actions(world().state().observation, twice, Settings())}
    assert rules == {"planned for a target of 2, observed 3"}


def test_deleting_what_is_there_is_sound() -> None:
    made = world()
    made.nodes = made.nodes[:1]
    deletion = DeleteInstances(group=G, expected_target=2, instance_ids=("cloud:///g/1", "f"), reason="")
    assert check_actions(made.state().observation, [deletion], Settings()) == ()


def test_a_sound_plan_passes() -> None:
    made = World(pending=[build_pod(f"p-{k}", cpu="3") for k in range(9)])
    made.add_group("a", max_size=4)
    made.add_group("b", target=2, instances=(Instance(id="cloud:///b/0"),))
    settings = settings_with(max_nodes_total=6, enforce_node_group_min_size=True)
    state = made.state(settings)
    plan, _ = make_plan(state, settings, Random(0))
    assert plan.actions
    assert check_actions(state.observation, plan.actions, settings) == ()
