"""``nodewright top`` into a pipe: one screen of the daemon, or why there is none."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.web import Page, WebServer
from nodewright.cli.commands.top import follow
from nodewright.model.errors import ConfigError

Nodewright = Callable[..., Any]


def test_into_a_pipe_it_prints_one_screen(nodewright: Nodewright) -> None:
    asked: list[str] = []

    def render(query: Any) -> Page:
        asked.append(query["height"])
        return Page(b"12 nodes\n")

    server = WebServer("debug_address", "127.0.0.1:0", {"/top": render})
    server.start()
    try:
        ended = nodewright("top", "--debug-address", f"127.0.0.1:{server.port}")
    finally:
        server.stop()
    assert (ended.code, ended.out, asked) == (0, "12 nodes\n", ["60"])


def test_without_a_daemon_it_says_where_none_is(nodewright: Nodewright) -> None:
    ended = nodewright("top", "--debug-address", "127.0.0.1:1")
    assert (ended.code, ended.out) == (2, "")
    assert "no daemon listens at 127.0.0.1:1" in ended.err


def test_once_it_shows_something_a_refusal_does_not_end_it(capsys: pytest.CaptureFixture[str]) -> None:
    answers: Iterator[str | BaseException] = iter(
        ["first\n", ConfigError("a loop runs: ask again"), "second\n", KeyboardInterrupt()]
    )

    def ask() -> str:
        answer = next(answers)
        if isinstance(answer, str):
            return answer
        raise answer

    with pytest.raises(KeyboardInterrupt):
        follow(ask, VirtualClock(0.0))
    assert capsys.readouterr().out == "first\nfirst\na loop runs: ask again\nsecond\n"


def test_without_a_first_screen_a_refusal_ends_it() -> None:
    def ask() -> str:
        raise ConfigError("no daemon listens")

    with pytest.raises(ConfigError, match="no daemon"):
        follow(ask, VirtualClock(0.0))
