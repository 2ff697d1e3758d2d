"""What somebody else does to a group at a time, and machines that are slow for a while."""

from typing import Any

import pytest

from nodewright.spec import ConfigError
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
