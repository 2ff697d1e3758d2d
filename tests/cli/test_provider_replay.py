"""``NODEWRIGHT_RECORD`` and ``nodewright provider replay``, as a user runs them."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]

SETTINGS = "providers: {fake: {options: {groups: [{name: web, size: 2, cpu: 4, memory: 16Gi}]}}}"


def test_a_command_is_recorded_and_replayed(command: Command, tmp_path: Path) -> None:
    settings, kept = tmp_path / "settings.yaml", tmp_path / "kept"
    settings.write_text(SETTINGS)
    command("doctor", "--config", settings, env={"NODEWRIGHT_RECORD": str(kept)})

    same = command("provider", "replay", kept)
    assert same.returncode == 0, same.stderr
    assert "nothing differs" in same.stdout

    [changed] = [path for path in kept.glob("*/*.call.json") if '"node_groups"' in path.read_text()]
    changed.write_text(changed.read_text().replace('"min_size": 0', '"min_size": 1'))
    other = command("provider", "replay", kept, "-o", "json")
    assert other.returncode == 4
    [told] = json.loads(other.stdout)["replays"][0]["differences"]
    assert told == {"file": changed.name, "what": "node_groups()[0].min_size", "recorded": "1", "now": "0"}


def test_a_folder_without_recordings_and_one_that_cannot_be_written(command: Command, tmp_path: Path) -> None:
    none = command("provider", "replay", tmp_path)
    assert (none.returncode, none.stderr.count("\n")) == (2, 1)
    assert "holds no recording" in none.stderr
    settings = tmp_path / "settings.yaml"
    settings.write_text(SETTINGS)
    refused = command("doctor", "--config", settings, env={"NODEWRIGHT_RECORD": str(settings)})
    assert refused.returncode == 2
    assert f"NODEWRIGHT_RECORD: {settings} cannot be written" in refused.stderr
