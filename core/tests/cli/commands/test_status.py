"""``nodewright status``, ``pause`` and ``resume`` on a state file."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from core.tests.cli.conftest import Nodewright

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.store import FileStore
from nodewright.cli.main import run
from nodewright.clusterstate.memory import ArrivalHistory, Backoff, Memory, ScaleUpRequest
from nodewright.model.capability import Capability
from nodewright.model.group import ErrorClass, GroupOptions, GroupRef, Instance, NodeGroup
from nodewright.snapshot.observation import GroupSeen

FAST, SLOW, LEFT = (GroupRef("cloud", name) for name in ("fast", "slow", "left"))


def seen(ref: GroupRef, *, why: str = "") -> GroupSeen:
    capability = Capability.FAST_FAILURE_DETECTION
    return GroupSeen(
        ref=ref,
        group=NodeGroup(id=ref.group_id, min_size=1, max_size=1200, switched_off={capability: why} if why else {}),
        capabilities=frozenset() if why else frozenset({capability}),
        target=1024,
        instances=(Instance(id="i-1"),),
        options=GroupOptions(max_node_provision_seconds=600),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A state with everything that a status tells."""
    now = SystemClock().now()
    memory = Memory(
        requests={SLOW: (ScaleUpRequest(increase=3, started=now - 100, deadline=now + 3605),)},
        backoffs={
            LEFT: Backoff(
                until=now + 905,
                duration=1800,
                last_failure=now,
                error_class=ErrorClass.QUOTA,
                code="QUOTA",
                message="[red]100 cpus[/red]\x1b[31m",
            ),
            SLOW: Backoff(until=now - 100, duration=300, last_failure=now - 400, delivered=1),
        },
        given_up={SLOW: 2},
        unregistered_since={(FAST, "i-1"): now - 50},
        deletions={(FAST, "i-0"): now - 5, (FAST, "i-9"): now - 5000},
        deletion_window=3600.0,
        arrivals={FAST: ArrivalHistory(held=123.4)},
        last_known={FAST: seen(FAST), SLOW: seen(SLOW, why="no permission")},
    )
    path = tmp_path / "state.json"
    FileStore(path).save_if_changed(memory)
    return path


def test_the_table(nodewright: Nodewright, path: Path) -> None:
    ended = nodewright("status", "--state", path)
    assert ended.code == 0
    lines = {line.split()[0]: line for line in ended.out.splitlines() if line.strip().startswith("cloud/")}
    assert re.search(r"1,024 \(1–1,200\) +at once \(overdue after 2m3s, learned\)", lines["cloud/fast"])  # noqa: RUF001
    assert re.search(r"1 instance without a node, the next +given up in 1m\d\ds", ended.out.replace("\n", " "))
    assert "on probation: at most 2 machines until" in lines["cloud/slow"]
    assert "when overdue, after 10m: no permission" in lines["cloud/slow"]
    assert re.search(r"3 machines owed, given up in 1h\d?s?", lines["cloud/slow"])
    assert "2 machines given up" in ended.out
    assert re.search(r"not known yet .* for 15m\d?s?: QUOTA: \[red\]100 cpus\[/red\]\\x1b", lines["cloud/left"])
    assert "Deletion budget of the cluster: 1 used within 1h." in ended.out


def test_the_document(nodewright: Nodewright, path: Path) -> None:
    document = nodewright("status", "--state", path, "--output", "json").document
    assert (document["schema"], document["paused_until"]) == (1, None)
    assert document["deletions"] == {"used": 1, "limit": None, "window_seconds": 3600.0}
    fast, left, slow = document["groups"]
    assert fast["failure_detection"] == {
        "fast": True,
        "timeout_seconds": 123.4,
        "learned": True,
        "why_not_fast": None,
    }
    assert (fast["min"], fast["max"], fast["target"], fast["unregistered"], fast["deleted"]) == (1, 1200, 1024, 1, 1)
    assert slow["failure_detection"]["why_not_fast"] == "no permission"
    assert slow["requests"][0]["owed"] == 3
    assert 3500 < slow["requests"][0]["seconds_left"] <= 3605
    assert slow["given_up"] == 2
    assert (slow["backoff"], slow["probation"], slow["next_late_at"]) == (None, {"at_most": 2}, None)
    assert (left["probation"], fast["next_late_at"] > document["now"]) == (None, True)
    assert (left["failure_detection"], left["target"]) == (None, None)
    assert left["backoff"]["error_class"] == "quota"
    assert 800 < left["backoff"]["seconds_left"] <= 905


def test_a_pause_is_shown_until_it_is_ended(nodewright: Nodewright, path: Path) -> None:
    paused = nodewright("pause", "--for", "30m", "--state", path)
    assert (paused.code, paused.err) == (0, "")
    until = re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", paused.out)[0]
    shown = nodewright("status", "--state", path)
    assert re.search(rf"Writes to clouds are paused until {until}, for another (30m|29m\d+s)\.", shown.out)
    assert nodewright("status", "--state", path, "-o", "json").document["paused_until"] == until
    assert nodewright("resume", "--state", path).code == 0
    assert "paused" not in nodewright("status", "--state", path).out


def test_a_pause_may_come_before_the_first_engine(nodewright: Nodewright, tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.json"
    assert nodewright("pause", "--for", "1h", "--force", "--state", path).code == 0
    shown = nodewright("status", "--state", path)
    assert shown.code == 0
    assert "the engine has not saved anything yet" in shown.out
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["pause", "--state", "s"], "Missing option '--for'"),
        (["pause", "--for", "soon", "--state", "s"], "--for: 'soon' is not a duration"),
        (["pause", "--for", "-5m", "--state", "s"], "--for: -5m: a pause must last longer than 0 s"),
        (["pause", "--for", "9999h", "--state", "s"], "at most 366 days"),
        (["status", "--state", "/no/such/state.json"], "--state: /no/such/state.json: there is no saved state"),
        (["status", "--state", "/"], "File '/' is a directory"),
    ],
)
def test_bad_input_is_one_sentence(nodewright: Nodewright, arguments: list[str], message: str) -> None:
    ended = nodewright(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) == 1


def test_a_damaged_state_is_named_and_stays(nodewright: Nodewright, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"{}")
    ended = nodewright("status", "--state", path)
    assert ended.code == 2
    assert f"{path}: saved state cannot be used: it is no saved state of nodewright" in ended.err
    assert path.read_bytes() == b"{}"


def test_a_folder_is_no_state_file(nodewright: Nodewright, tmp_path: Path) -> None:
    ended = nodewright("pause", "--for", "1h", "--state", tmp_path)
    assert (ended.code, list(tmp_path.parent.glob("*.pause"))) == (2, [])
    assert "is a directory" in ended.err


def test_without_a_word_it_is_the_cluster_that_run_would_find(tmp_path: Path) -> None:
    """Here: none. A command that quietly used a file of its own would stop no engine."""
    env = {"NODEWRIGHT_KUBECONFIG": str(tmp_path / "none"), "XDG_STATE_HOME": str(tmp_path)}
    for words in (["pause", "--for", "1h"], ["resume"], ["status"]):
        with CliRunner().isolation(env=env) as (_, err, _):
            assert run(words) == 2
            said = err.getvalue().decode()
        assert f"--kubeconfig: there is no file {tmp_path / 'none'}" in said
        assert said.startswith("nodewright: no daemon answers at 127.0.0.1:8086; ") == (words == ["status"])
    assert not list(tmp_path.iterdir())


def test_what_is_named_is_stronger_than_the_environment(path: Path) -> None:
    with CliRunner().isolation(env={"NODEWRIGHT_KUBECONFIG": "/none"}) as (out, err, _):
        assert run(["status", "--state", str(path)]) == 0, err.getvalue()
        assert "cloud/fast" in out.getvalue().decode()
        assert run(["status", "--state", str(path), "--kubeconfig", "/other"]) == 2
        assert "give one of them, not both" in err.getvalue().decode()


def test_a_pause_where_no_engine_ever_was_needs_force(nodewright: Nodewright, tmp_path: Path, path: Path) -> None:
    new = tmp_path / "folder" / "new.json"
    refused = nodewright("pause", "--for", "1h", "--state", new)
    assert (refused.code, refused.out) == (2, "")
    assert f"no engine has saved its state in {new}" in refused.err
    assert not new.parent.exists()
    assert nodewright("pause", "--for", "1h", "--force", "--state", new).code == 0
    assert nodewright("pause", "--for", "1h", "--state", path).code == 0


def test_the_end_of_a_pause_where_no_engine_ever_was_is_doubted(
    nodewright: Nodewright, tmp_path: Path, path: Path
) -> None:
    new = tmp_path / "new.json"
    assert nodewright("resume", "--state", new).err == (
        f"No engine has saved its state in {new} yet: check that this is the right place.\n"
    )
    assert nodewright("resume", "--state", path).err == ""
