"""The file is complete or unchanged, readable by its owner only, and never lost."""

from pathlib import Path

import pytest

from nodewright.adapters.store import FileStore, encode_memory
from nodewright.clusterstate.memory import Memory
from nodewright.model.errors import NodewrightError
from nodewright.model.group import GroupRef

ONE = Memory(given_up={GroupRef("p", "g"): 1})
TWO = Memory(given_up={GroupRef("p", "g"): 2})


def test_the_next_engine_finds_what_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert FileStore(path).load().memory == Memory()
    FileStore(path).save_if_changed(ONE)
    loaded = FileStore(path).load()
    assert (loaded.memory, loaded.warning) == (ONE, "")
    assert path.stat().st_mode & 0o777 == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["state.json"]


def test_only_a_change_is_written(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    store = FileStore(path)
    store.save_if_changed(ONE)
    first = path.stat().st_ino
    store.save_if_changed(ONE)
    assert path.stat().st_ino == first
    again = FileStore(path)
    again.load()
    again.save_if_changed(ONE)
    assert path.stat().st_ino == first
    again.save_if_changed(TWO)
    assert path.stat().st_ino != first
    assert path.read_bytes() == encode_memory(TWO)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "damaged"),
        (encode_memory(ONE)[:-3], "damaged"),
        (b'{"kind": "Pod"}', "no saved state"),
        (b'{"kind": "nodewright-state", "schema": 99}', "later version"),
    ],
)
def test_what_cannot_be_understood_is_put_aside(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    (tmp_path / "state.json.damaged-1").write_bytes(b"an earlier one")
    loaded = FileStore(path).load()
    assert loaded.memory == Memory()
    assert why in loaded.warning
    assert "state.json.damaged-2" in loaded.warning
    assert (tmp_path / "state.json.damaged-2").read_bytes() == content
    assert (tmp_path / "state.json.damaged-1").read_bytes() == b"an earlier one"
    assert not path.exists()


def test_a_file_that_cannot_be_read_is_an_error_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.mkdir()
    with pytest.raises(NodewrightError, match=r"state\.json: state cannot be read: Is a directory"):
        FileStore(path).load()
    assert path.is_dir()


def test_a_save_that_fails_leaves_the_old_file_and_is_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    store = FileStore(path)
    store.save_if_changed(ONE)
    (tmp_path / "state.json.new").mkdir()
    with pytest.raises(NodewrightError, match=r"state\.json: state cannot be saved"):
        store.save_if_changed(TWO)
    assert path.read_bytes() == encode_memory(ONE)
    (tmp_path / "state.json.new").rmdir()
    store.save_if_changed(TWO)
    assert path.read_bytes() == encode_memory(TWO)


def test_what_a_killed_writer_left_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    left = tmp_path / "state.json.new"
    left.write_bytes(b"half a docu")
    left.chmod(0o644)
    store = FileStore(path)
    assert store.load().memory == Memory()
    store.save_if_changed(ONE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not left.exists()


def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "disk" / "state.json"
    real.parent.mkdir()
    link = tmp_path / "state.json"
    link.symlink_to(real)
    FileStore(link).save_if_changed(ONE)
    assert link.is_symlink()
    assert FileStore(real).load().memory == ONE


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(NodewrightError, match=r"no/state\.json: state cannot be saved: No such file"):
        FileStore(tmp_path / "no" / "state.json").save_if_changed(ONE)
