"""A pause is in a separate file beside the state, and an engine that saves never loses it."""

from pathlib import Path

import pytest

from nodewright.actuation import Pause
from nodewright.adapters.store import FileStore
from nodewright.clusterstate.memory import Memory
from nodewright.model.errors import NodewrightError
from nodewright.model.group import GroupRef

PAUSE = Pause(since=100.0, until=1900.0)


def test_another_process_sees_it_until_it_is_ended(tmp_path: Path) -> None:
    engine, person = FileStore(tmp_path / "state.json"), FileStore(tmp_path / "state.json")
    assert engine.load_pause() is None
    person.save_pause(PAUSE)
    engine.save_if_changed(Memory(given_up={GroupRef("p", "g"): 1}))
    assert engine.load_pause() == PAUSE
    person.save_pause(None)
    person.save_pause(None)
    assert engine.load_pause() is None
    assert [found.name for found in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", [b"", b"{}", b'{"since": 1, "until": "noon"}', b"\xff"])
def test_one_that_cannot_be_understood_is_an_error_that_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    store = FileStore(tmp_path / "state.json")
    (tmp_path / "state.json.pause").write_bytes(content)
    with pytest.raises(NodewrightError, match=r"state\.json\.pause: the pause cannot be understood .* resume removes"):
        store.load_pause()
    store.save_pause(None)
    assert store.load_pause() is None


def test_peeking_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert FileStore(path).peek() == Memory()
    path.write_bytes(b"{")
    with pytest.raises(NodewrightError, match=r"state\.json: saved state cannot be used: it is damaged"):
        FileStore(path).peek()
    assert path.read_bytes() == b"{"
