"""``nodewright top`` into a pipe: one screen of the daemon, or why there is none."""

from collections.abc import Callable
from typing import Any

from nodewright.adapters.web import Page, WebServer

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
