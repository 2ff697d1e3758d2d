"""The audit file only grows, line by line, for its owner alone."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from nodewright.actuation import AuditRecord
from nodewright.adapters.store import AuditFile
from nodewright.model.errors import NodewrightError

RECORD = AuditRecord(
    time=1.5,
    loop="1.000-2",
    request="1.000-2/1",
    action="DeleteInstances",
    group="p/größe",
    expected_target=3,
    target=2,
    reason="two\nlines",
    instance_ids=("i-1",),
)


def test_one_line_a_record_whoever_writes(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    AuditFile(path).record(RECORD)
    AuditFile(path).record(replace(RECORD, outcome="done", accepted=1))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["outcome"], line["accepted"], line["reason"]) for line in lines] == [
        ("asked", 0, "two\nlines"),
        ("done", 1, "two\nlines"),
    ]
    assert lines[0]["group"] == "p/größe"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_was_moved_away_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = AuditFile(path)
    audit.record(RECORD)
    path.rename(tmp_path / "audit.1")
    audit.record(RECORD)
    assert path.read_bytes() == (tmp_path / "audit.1").read_bytes()


def test_what_cannot_be_kept_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NodewrightError, match=r"no/audit\.jsonl: the audit cannot be written: No such file"):
        AuditFile(tmp_path / "no" / "audit.jsonl").record(RECORD)
