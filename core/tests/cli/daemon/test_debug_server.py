"""What the debug server returns about the last loop, page by page."""

import json
import threading
from dataclasses import replace
from random import Random
from typing import Any

from nodewright.actuation import Pause
from nodewright.adapters.web import Page
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.engine.daemon import BatchWindow, Scope
from nodewright.engine.report import LoopReport
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.plan import OutdatedNode
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.testkit import FakeClock, build_pod
from nodewright.testkit.world import NOW, World


def make_report(world: World) -> LoopReport:
    state = world.state()
    return LoopReport(
        started=NOW, finished=NOW + 1, loop="1-7", state=state, plan=make_plan(state, Settings(), Random(1))[0]
    )


def make_server(world: World | None = None, pause: Pause | None = None) -> DebugServer:
    server = DebugServer(FakeClock(NOW + 5))
    if world is not None:
        server.publish(make_report(world), Settings(), pause)
    return server


def ask(server: DebugServer, path: str, **query: str) -> Page:
    return server.pages()[path](query)


def read(page: Page) -> Any:
    assert page.status == 200, page.body
    return json.loads(page.body)


def make_world() -> World:
    world = World()
    world.add_group("a", 2, max_size=2)
    world.pending = [build_pod("giant", cpu="64")]
    return world


def test_explain_and_status() -> None:
    server = make_server(make_world(), Pause(since=NOW, until=NOW + 600))
    assert read(ask(server, "/explain", kind="pod", name="default/giant"))["outcome"] == "unhelped"
    assert read(ask(server, "/explain", kind="group", name="cloud/a"))["target"] == 2
    status = read(ask(server, "/status"))
    assert status["loop"] == "1-7"
    assert status["ready"] == {"cloud/a": 2}
    assert status["paused_until"]
    assert status["problems"] == []
    assert len(read(ask(server, "/snapshotz"))["NodeList"]) == 2


def test_tables_for_people_are_as_wide_as_they_say() -> None:
    server = make_server(make_world())
    page = ask(server, "/explain", kind="node", name="a-0", output="table", width="60")
    assert page.body.startswith(b"Node a-0")
    _, *table = page.body.decode().splitlines()  # the first sentence is one line: a terminal breaks it
    assert max(map(len, table)) <= 60
    for width in ("x", "1" * 5000):
        assert b"Node groups" in ask(server, "/status", output="table", width=width).body


def test_status_lists_the_nodes_that_are_to_be_replaced() -> None:
    report = make_report(make_world())
    assert report.plan is not None
    old = OutdatedNode(
        node="a-0", group=GroupRef("cloud", "a"), reason=DisruptionReason.EXPIRED, why="it is 2d old", held="pods wait"
    )
    server = DebugServer(FakeClock(NOW + 5))
    server.publish(replace(report, plan=replace(report.plan, outdated=(old,))), Settings(), None)
    assert read(ask(server, "/status"))["outdated"] == [
        {"node": "a-0", "group": "cloud/a", "reason": "expired", "why": "it is 2d old", "held": "pods wait"}
    ]
    table = ask(server, "/status", output="table", width="100").body.decode()
    assert "1 node to be replaced: a-0 (it is 2d old; not now: pods wait)." in table


def test_what_cannot_be_answered_says_so() -> None:
    server = make_server(make_world())
    assert ask(server, "/explain", kind="node", name="nobody").status == 404
    assert ask(server, "/explain", kind="cloud", name="a").status == 400
    assert ask(server, "/explain").status == 400
    early = make_server()
    assert ask(early, "/status") == Page(b"no loop has ended yet: ask again\n", 503)
    assert ask(early, "/explain", kind="node", name="a").status == 503
    early.publish(LoopReport(started=NOW, finished=NOW, problem="KubeApiError: no answer"), Settings(), None)
    assert ask(early, "/status") == Page(b"KubeApiError: no answer\n", 503)


def test_who_does_not_lead_says_whom_to_ask() -> None:
    waiting = DebugServer(FakeClock(NOW), lambda: "ask the other")
    assert ask(waiting, "/status") == Page(b"ask the other\n", 503)
    assert json.loads(ask(waiting, "/snapshotz").body) == {"Error": "ask the other"}


def test_the_loop_is_explained_also_where_there_was_none() -> None:
    waiting = DebugServer(FakeClock(NOW), lambda: "ask the other")
    assert read(ask(waiting, "/explain", kind="loop"))["stops"] == ["ask the other"]
    report = make_report(make_world())
    server = DebugServer(FakeClock(NOW))
    server.publish(replace(report, problem="the state cannot be saved"), Settings(), None)
    assert read(ask(server, "/explain", kind="loop"))["stops"][0] == "the state cannot be saved"


def test_a_screen_of_the_terminal_has_as_many_nodes_as_fit() -> None:
    world = make_world()
    world.add_group("many", 60, max_size=90, hourly_price=0.5)
    page = ask(make_server(world), "/top", width="120", height="40")
    lines = page.body.decode().splitlines()
    assert "62 nodes, 1 pending pod, 1 not helped, $30.000 an hour" in lines[0]
    assert any("cloud/many" in line for line in lines)
    assert any("default/giant" in line and "Insufficient cpu" in line for line in lines)
    assert any(line.startswith("Nodes: 19 of 62") for line in lines)
    assert max(map(len, lines)) <= 120
    assert len(lines) <= 40
    assert ask(make_server(world), "/top", height="x").status == 200
    assert ask(make_server(), "/top").status == 503


def test_what_is_wrong_is_told() -> None:
    world = make_world()
    server = DebugServer(FakeClock(NOW))
    report = make_report(world)
    server.publish(LoopReport(**{**vars(report), "problem": "the state cannot be saved"}), Settings(), None)
    assert read(ask(server, "/status"))["problems"] == ["the state cannot be saved"]
    assert b"the state cannot be saved" in ask(server, "/status", output="table").body


def test_a_pause_that_cannot_be_read_is_told() -> None:
    server = DebugServer(FakeClock(NOW))
    report = make_report(make_world())
    assert report.plan is not None
    held = replace(report, plan=replace(report.plan, paused="paused: it cannot be understood"))
    server.publish(held, Settings(), None)
    assert read(ask(server, "/status"))["problems"] == ["writes to clouds are paused: it cannot be understood"]
    server.publish(held, Settings(), Pause(since=NOW, until=NOW + 600))
    assert read(ask(server, "/status"))["problems"] == []


def test_a_loop_that_runs_long_is_told_and_not_that_there_was_none() -> None:
    server = make_server(make_world())
    with server.look(), server.look(0.0) as last:
        assert last == "loops and other pages have been running for over 0s: ask again"


def test_a_loop_is_viewed_once_and_forgotten_with_the_next() -> None:
    server = make_server(make_world())
    views = []
    for _ in range(2):
        with server.look() as last:
            assert not isinstance(last, str)
            views.append(server.view_of(last))
    assert views[0] is views[1]
    ask(server, "/top")
    server.publish(make_report(make_world()), Settings(), None)
    with server.look() as last:
        assert not isinstance(last, str)
        assert server.view_of(last).last is last


class SlowEngine:
    """Implements Engine: a loop takes until a test ends it."""

    def __init__(self) -> None:
        self.entered, self.may_end = threading.Event(), threading.Event()

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport:  # noqa: ARG002 - as Engine
        self.entered.set()
        assert self.may_end.wait(10)
        return LoopReport(started=NOW, finished=NOW)

    def next_loop_at(self, report: LoopReport) -> float:
        return report.finished

    def next_step_at(self) -> float:
        return NOW

    def batch_window(self) -> BatchWindow:
        return BatchWindow(0.0, 0.0)

    def step_removals(self) -> object:
        return None


def test_an_answer_waits_for_the_end_of_a_loop() -> None:
    server, engine = make_server(make_world()), SlowEngine()
    loop = threading.Thread(target=server.in_turn(engine).run_once)
    loop.start()
    assert engine.entered.wait(10)
    answers: list[Page] = []
    asking = threading.Thread(target=lambda: answers.append(ask(server, "/status")))
    asking.start()
    asking.join(0.2)
    assert not answers
    engine.may_end.set()
    asking.join(10)
    loop.join(10)
    assert answers[0].status == 200
