"""The daemon writes one JSON object or one line of text for each message, from a level on, even if the stream breaks."""

import io
import logging
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from nodewright.actuation import Event
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.logs import ConditionLog, DaemonLog, LoggedEvents
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef


@pytest.fixture
def stream() -> io.BytesIO:
    return io.BytesIO()


@pytest.fixture
def log(stream: io.BytesIO) -> DaemonLog:
    return DaemonLog(stream, VirtualClock(1_800_000_000.0))


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_how_bad_and_in_which_loop(log: DaemonLog, stream: io.BytesIO) -> None:
    log.say("starting", ports={"address": 1})
    log.loop = "7"
    log.say("two\nlines", level="error")
    assert lines(stream) == [
        {"time": "2027-01-15T08:00:00Z", "level": "info", "message": "starting", "ports": {"address": 1}},
        {"time": "2027-01-15T08:00:00Z", "level": "error", "message": "two\nlines", "loop": "7"},
    ]


def test_lines_below_the_level_are_left_out(log: DaemonLog, stream: io.BytesIO) -> None:
    for level in ("info", "warning", "debug"):
        log.use(level)
        for said in ("debug", "info", "warning"):
            log.say(said, level=said)
    assert [line["level"] for line in lines(stream)] == ["info", "warning", "warning", "debug", "info", "warning"]


def test_text_for_people_is_one_line_without_control_characters(stream: io.BytesIO) -> None:
    log = DaemonLog(stream, VirtualClock(1_800_000_000.0), is_text=True)
    log.loop = "7"
    log.say("two\nlines\x1b[2J", level="warning", nodes=3, pending=None, object="a/b", why="no group", sizes={"a": 1})
    assert stream.getvalue().decode() == (
        '2027-01-15T08:00:00Z WARNING two\\nlines\\x1b[2J  loop=7  nodes=3  object=a/b  why="no group"  sizes={"a":1}\n'
    )


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield root
    root.handlers, root.level = before, level


@pytest.mark.usefixtures("root")
def test_warnings_of_libraries_are_lines_too(log: DaemonLog, stream: io.BytesIO) -> None:
    log.take_libraries()
    library = logging.getLogger("a_plugin.session")
    library.info("a detail")
    try:
        int("x")
    except ValueError:
        library.exception("no token for %s", "eu-west-1")
    (line,) = lines(stream)
    assert line.items() >= {"level": "error", "message": "no token for eu-west-1", "logger": "a_plugin.session"}.items()
    assert "ValueError" in line["where"]


def test_node_groups_are_named_as_everywhere_else(log: DaemonLog, stream: io.BytesIO) -> None:
    increase = IncreaseSize(group=GroupRef("fake", "general"), expected_target=1, target=2, reason="2 pods")
    log.say("would be done", action=increase, beside=[GroupRef("fake", "a")], sizes={GroupRef("fake", "b"): 3})
    (line,) = lines(stream)
    assert line["action"]["group"] == "fake/general"
    assert line["action"]["target"] == 2
    assert (line["beside"], line["sizes"]) == (["fake/a"], {"fake/b": 3})


def test_a_stream_that_is_gone_is_no_reason_to_stop(log: DaemonLog, stream: io.BytesIO) -> None:
    stream.close()
    log.say("nobody reads this")


def test_an_event_is_said_and_passed_on(log: DaemonLog, stream: io.BytesIO) -> None:
    passed: list[Event] = []

    class Sink:
        def record(self, event: Event) -> None:
            passed.append(event)

    event = Event(kind="Pod", name="a/b", reason="NotTriggerScaleUp", message="no group", type="Warning")
    LoggedEvents(log, Sink()).record(event)
    LoggedEvents(log, None).record(event)
    assert passed == [event]
    told = {"level": "warning", "message": "no group", "event": "NotTriggerScaleUp", "kind": "Pod", "object": "a/b"}
    assert [line.items() >= told.items() for line in lines(stream)] == [True, True]


def test_what_lasts_is_said_when_it_begins(log: DaemonLog, stream: io.BytesIO) -> None:
    lasting = ConditionLog(log)
    for problem in ("", "forbidden", "forbidden, again", "", "forbidden"):
        lasting.see("events", problem)
    lasting.see("the lease", "no answer")
    said = [(line["message"], line["level"]) for line in lines(stream)]
    assert said == [(text, "warning") for text in ("events: forbidden", "events: forbidden", "the lease: no answer")]


def test_a_thread_that_breaks_off_is_a_line_too(log: DaemonLog, stream: io.BytesIO) -> None:
    try:
        int("half a page")
    except ValueError as error:
        problem, thread = str(error), threading.Thread(name="watch-Pod")
        log.thread_ended(threading.ExceptHookArgs((ValueError, error, error.__traceback__, thread)))
        log.thread_ended(threading.ExceptHookArgs((ValueError, error, None, None)))
    named, nameless = lines(stream)
    assert (named["level"], named["message"]) == ("error", f"thread watch-Pod ended: ValueError: {problem}")
    assert "test_daemon_log.py" in named["where"]
    assert (nameless["message"], nameless["where"]) == (f"thread without a name ended: ValueError: {problem}", "")


def test_the_last_lines_are_kept_as_they_were_written(log: DaemonLog, stream: io.BytesIO) -> None:
    assert log.tail() == b""
    for number in range(2100):
        log.say(f"line {number}")
    written = stream.getvalue().splitlines(keepends=True)
    assert log.tail() == b"".join(written[-2000:])


def test_lines_are_kept_even_if_the_stream_is_broken(stream: io.BytesIO) -> None:
    log = DaemonLog(stream, VirtualClock(0.0))
    stream.close()
    log.say("still known")
    assert b"still known" in log.tail()


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


@pytest.mark.parametrize("is_text", [False, True])
def test_a_wrong_log_call_of_a_library_is_a_line_and_raises_nothing(
    root: logging.Logger, stream: io.BytesIO, *, is_text: bool
) -> None:
    log = DaemonLog(stream, VirtualClock(0.0), is_text=is_text)
    root.handlers = []  # those of pytest raise
    log.take_libraries()
    library = logging.getLogger("a_plugin.session")
    library.warning("%d pods", "x")
    library.warning("%s is wrong", Broken())
    library.warning(Broken())
    log.say("a field without JSON", bad=object())
    told = stream.getvalue().decode().splitlines()
    assert len(told) == 4
    for line, said in zip(told, ("%d pods", "%s is wrong", "Broken", "a field without JSON"), strict=True):
        assert said in line
    assert "TypeError" in told[0]


@pytest.mark.parametrize("is_text", [False, True])
def test_text_with_lone_surrogates_is_not_lost(stream: io.BytesIO, *, is_text: bool) -> None:
    log = DaemonLog(stream, VirtualClock(0.0), is_text=is_text)
    log.say("a file \udc80", path="b\udc80", parts=("c\udc80",), named={"d\udc80": 1})
    for said in ("a file ?", "b?", "c?", "d?"):
        assert said in stream.getvalue().decode()
