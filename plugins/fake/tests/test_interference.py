"""What another writer does to a group at a given time, and machines that are slow for a while."""

from typing import Any

import pytest

from nodewright.spec import ConfigError, TargetChanged
from nodewright_fake import load_options


def test_a_group_is_resized_from_outside_at_its_time(set_up: Any) -> None:
    change = {"do": "resize", "group": "a", "size": 3, "start": "1m"}
    stage = set_up(interference=[change])
    assert stage.client.next_change() == 1060
    stage.later(59)
    stage.client.refresh()
    assert stage.client.target_size("a") == 1
    stage.later(1)
    stage.client.refresh()
    assert stage.client.target_size("a") == 3


def test_machines_vanish_the_oldest_first_and_others_are_asked_for(set_up: Any) -> None:
    group = {"name": "a", "size": 2, "provision_delay": "30s"}
    stage = set_up(groups=[group], interference=[{"do": "take_back", "group": "a", "start": 10}])
    stage.later(10)
    assert [start.node_name for start in stage.client.running_machines()] == ["a-1"]
    stage.later(30)
    assert [start.node_name for start in stage.client.running_machines()] == ["a-1", "a-2"]


def test_for_a_while_machines_take_longer_to_register_and_to_be_ready(set_up: Any) -> None:
    group = {"name": "a", "provision_delay": 5, "register_delay": "20s", "ready_delay": "10s"}
    slow = {"group": "a", "start": 0, "end": "1m", "registers": "5m", "ready": "2m"}
    stage = set_up(groups=[group], slow_boots=[slow])
    stage.client.increase_size("a", 0, 1)
    stage.later(100)
    stage.client.increase_size("a", 1, 2)
    stage.later(100)
    delays = [(s.register_after_seconds, s.ready_after_seconds) for s in stage.client.running_machines()]
    assert delays == [(320, 130), (20, 10)]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"do": "resize", "group": "b", "size": 1, "start": 0}, "there is no group b"),
        ({"do": "resize", "group": "a", "size": 9, "start": 0}, "size 9 is above max_size of a"),
    ],
)
def test_what_cannot_be_done_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        load_options({"groups": [{"name": "a", "max_size": 3}], "interference": [change]})


def test_a_group_is_gone_with_its_machines_until_it_is_made_anew(set_up: Any) -> None:
    group = {"name": "a", "size": 2, "min_size": 1}
    stage = set_up(groups=[group], interference=[{"do": "recreate", "group": "a", "start": 10, "gone_for": "1m"}])
    stage.later(10)
    stage.client.refresh()
    assert [held.id for held in stage.client.node_groups()] == []
    assert list(stage.client.running_machines()) == []
    assert stage.client.next_change() == 1070
    stage.later(60)
    stage.client.refresh()
    assert stage.client.target_size("a") == 0


def test_limits_and_template_change_at_their_time_and_machines_stay(set_up: Any) -> None:
    change = {"do": "change", "group": "a", "start": 10, "min_size": 1, "max_size": 2, "cpu": 8, "zone": "z"}
    stage = set_up(groups=[{"name": "a", "size": 3, "cpu": 2}], interference=[change])
    stage.later(10)
    stage.client.refresh()
    [group] = stage.client.node_groups()
    assert (group.min_size, group.max_size) == (1, 2)
    template = stage.client.template_node("a")
    assert str(template.allocatable["cpu"]) == "8"
    assert template.labels["topology.kubernetes.io/zone"] == "z"
    assert len(stage.client.instances("a")) == 3


def test_a_group_is_not_listed_for_a_while_and_comes_back_changed(set_up: Any) -> None:
    vanish = {"do": "vanish", "group": "a", "start": 10, "gone_for": "1m", "max_size": 4}
    stage = set_up(groups=[{"name": "a", "size": 2}], interference=[vanish])
    stage.later(10)
    stage.client.refresh()
    assert not stage.client.node_groups()
    assert len(stage.client.running_machines()) == 2
    assert stage.client.next_change() == 1070
    stage.later(60)
    stage.client.refresh()
    assert [group.max_size for group in stage.client.node_groups()] == [4]


@pytest.mark.parametrize(
    ("rule", "target", "problem"),
    [
        ({"when": "before", "does": "resize", "by": -1}, 2, True),
        ({"when": "after", "does": "resize", "by": -1}, 3, False),
        ({"when": "before", "does": "delete"}, 2, True),
        ({"when": "before", "does": "take_back"}, 4, False),
    ],
)
def test_somebody_writes_at_the_moment_of_our_write(
    set_up: Any, rule: dict[str, Any], target: int, *, problem: bool
) -> None:
    stage = set_up(groups=[{"name": "a", "size": 3}], interlopers=[{"group": "a", **rule}])
    stage.client.refresh()
    if problem:
        with pytest.raises(TargetChanged):
            stage.client.increase_size("a", 3, 4)
    else:
        stage.client.increase_size("a", 3, 4)
    stage.client.refresh(frozenset({"a"}))
    assert stage.client.target_size("a") == target


def test_reads_go_back_and_forth_between_old_and_new(set_up: Any) -> None:
    old = {"group": "a", "start": 100, "end": 200, "lag": 50, "flaps_every": 10, "of": "size"}
    resize = {"do": "resize", "group": "a", "size": 3, "start": 95}
    stage = set_up(old_reads=[old], interference=[resize])
    seen = []
    for _ in range(21):
        stage.client.refresh()
        seen.append(stage.client.target_size("a"))
        stage.later(10)
    assert seen == [1] * 10 + [1, 3, 1, 3, 1, 3, 3, 3, 3, 3, 3]
