"""A recording that has ended costs nothing more."""

import logging
from pathlib import Path
from typing import Any

import pytest

from nodewright.adapters.provider.recording import SCHEMA, RecordedSession, Recorder
from nodewright.spec.exchanges import ApiAnswer, ApiRequest
from nodewright.testkit import FakeClock


class Untouched(dict[str, Any]):
    """A map that says so if it is read."""

    is_read = False

    def items(self) -> Any:
        self.is_read = True
        return super().items()


def test_what_comes_after_the_end_is_not_looked_at(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    session = RecordedSession(
        schema=SCHEMA,
        provider="fake",
        distribution="",
        version="",
        seed="1",
        options={},
        node_group_specs=(),
        auto_discovery_specs=(),
        dry_run=False,
    )
    recorder = Recorder(tmp_path, session, FakeClock(), {})
    (recorder.folder / "session.json").unlink()
    recorder.folder.rmdir()
    request, answer = ApiRequest(operation="Describe", method="GET", url="https://h.example/"), ApiAnswer(status=200)
    with caplog.at_level(logging.WARNING):
        recorder.note(request, answer)
    assert "ends" in caplog.text
    later, fact = Untouched(date="now"), Untouched(region="r")
    recorder.note(request, ApiAnswer(status=200, headers=later))
    assert recorder.fact("place", lambda: fact) is fact
    assert not later.is_read
    assert not fact.is_read
