"""What a restarted engine makes of saved memory: it goes on from it, and trusts it with nothing that it cannot see."""

from pathlib import Path

import pytest
from tests.scenario.story import MINUTE, SILENT, Story

from nodewright.adapters.store import FileStore
from nodewright.engine.ports import Ports
from nodewright.model.group import GroupRef
from nodewright_simulator.journal import What

CHEAP = {"name": "cheap", "price_per_hour": 0.1, "provision_delay": 240}
DEAR = {"name": "dear", "price_per_hour": 0.2}
POOL = GroupRef("fake", "pool")


def bought(story: Story) -> dict[str, int]:
    started = [fact.where for fact in story.result.journal if fact.what == What.MACHINE_STARTED]
    return {group: started.count(group) for group in started}


@pytest.mark.parametrize("hook", ["target_size", "instances", "refresh"])
@pytest.mark.parametrize("after_effect", [True, False])
def test_what_is_on_its_way_in_a_group_that_cannot_be_read_is_not_bought_again(hook: str, after_effect: bool) -> None:
    fault = {"kind": "refuse", "hook": hook, "error": "unavailable", "start": 30, "end": 150}
    group = {} if hook == "refresh" else {"group": "cheap"}
    story = Story(CHEAP, DEAR, minutes=30, faults=[fault | group])
    story.pods(4, at=15)
    story.simulation.engine.crash(0, after_effect=after_effect, down_seconds=25, keeps_memory=True)
    assert story.result.final.pending == 0
    assert bought(story) == {"fake/cheap": 4}


def test_an_engine_on_a_file_goes_on_where_the_last_one_was(tmp_path: Path) -> None:
    """Two engines, one after the other; in between nothing is left but the file."""
    path = tmp_path / "state.json"
    story = Story({**CHEAP, "request_delay": 3600}, DEAR, settings={"max-node-provision-time": "5m"}, minutes=15,
                  switched_off=SILENT)  # fmt: skip
    on_file(story, path)
    story.pods(2, at=15)
    story.simulation.engine.crash(0, after_effect=True, down_seconds=25, keeps_memory=True)
    assert story.events("ScaleUpTimedOut")
    saved = FileStore(path).load().memory
    assert GroupRef("fake", "cheap") in saved.backoffs
    assert saved.last_known[GroupRef("fake", "dear")].target == 2
    assert bought(story) == {"fake/dear": 2}


def test_a_damaged_file_is_told_and_the_engine_begins_by_looking(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b'{"kind": "nodewright-state", "schema": 7}')
    story = Story({"name": "pool", "size": 1}, minutes=5)
    on_file(story, path)
    story.pods(2, at=15)
    assert story.result.final.pending == 0
    (told,) = story.events("StateNotUsable")
    assert told[1] == (
        f"saved state {path} is not used: a later version wrote it (schema 7, this version reads 1); "
        "it was put aside as state.json.damaged-1"
    )
    assert (tmp_path / "state.json.damaged-1").exists()
    assert FileStore(path).load().memory.last_known[POOL].target == 2


def test_a_quiet_engine_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    story = Story({"name": "pool", "size": 3}, minutes=60)
    on_file(story, path)
    story.pods(3, at=15)
    written: list[int] = []
    for minute in range(5, 60, 5):
        story.at(minute * MINUTE, lambda: written.append(path.stat().st_ino))
    assert story.result.final.running == 3
    assert len(written) == 11
    assert len(set(written)) == 1


def on_file(story: Story, path: Path) -> None:
    """The story's engines keep their memory in a file."""
    simulation = story.simulation
    world = simulation._world
    simulation._world = Ports(
        cluster=world.cluster, providers=world.providers, store=FileStore(path), events=world.events, audit=world.audit
    )
