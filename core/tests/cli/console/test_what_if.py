"""What-if questions on the page: answers, bounds, and values that a browser or the planner might stumble over."""

from typing import Any

import pytest
from core.tests.cli.console.worlds import BAD_NAME, build_last_loop, build_world
from msgspec.structs import replace

from nodewright.adapters.web import Page
from nodewright.cli.daemon.debug_server import BundleSources, DebugServer
from nodewright.model.meta import ObjectMeta
from nodewright.testkit import FakeClock, build_pod
from nodewright.testkit.world import NOW, World

XL = "name=xl,cpu=96,memory=768Gi,price_per_hour=4,max_size=50"


class SlowClock(FakeClock):
    """Each look at it takes a second."""

    def now(self) -> float:
        self.sleep(1.0)
        return super().now()


def make_server(world: World, clock: FakeClock | None = None, **settings: Any) -> DebugServer:
    kinds: dict[str, list[Any]] = {"Node": world.nodes, "Pod": [*world.running, *world.pending]}
    server = DebugServer(clock or FakeClock(NOW), sources=BundleSources(objects=lambda kind: kinds.get(kind, ())))
    last = build_last_loop(world, **settings)
    server.publish(last.report, last.settings, None)
    return server


def ask(server: DebugServer, **query: str) -> Page:
    return server.pages()["/what-if"](query)


def difference(page: Page) -> dict[str, list[str]]:
    """The rows of the table, by the first column."""
    text = page.body.decode()
    assert page.status == 200, text
    rows = [part.split("</tr>")[0] for part in text.split('<tr><th scope="row">')[1:]]
    cells = [[cell.split("</")[0].split(">")[-1] for cell in row.split("<td")] for row in rows]
    return {first: rest for first, *rest in cells}


def owned(world: World, number: int, name: str = "web") -> None:
    """Give the running pods a Deployment, through its ReplicaSet."""
    labels = {"pod-template-hash": "5d9"}
    world.running = [
        build_pod(
            f"{name}-{n}",
            "1500m",
            "1Gi",
            node_name=f"general-{n % 6}",
            labels=labels,
            owner=("ReplicaSet", f"{name}-5d9"),
        )
        for n in range(number)
    ]


def test_without_a_question_there_is_a_form() -> None:
    page = ask(make_server(build_world("small")))
    assert page.status == 200
    assert b"Difference to now" not in page.body
    assert b'method="get"' in page.body


def test_one_more_group_helps_pods_that_no_group_helps_and_costs_money() -> None:
    # Now a node is bought for a move that pays; with pods that a group helps, no move begins.
    server = make_server(build_world("small"), consolidation_policy="off")
    found = difference(ask(server, add=XL))
    assert found["pods not helped"][:2] == ["40", "0"]
    assert found["nodes of xl"] == ["0", "40", "+40"]
    assert float(found["USD per hour"][2]) == pytest.approx(160.0)


def test_more_pods_of_a_deployment_need_nodes_and_fewer_need_none() -> None:
    world = build_world("small")
    world.pending = []
    owned(world, 12)
    more = difference(ask(make_server(world), workload="default/web", replicas="60"))
    assert more["pending pods"] == ["0", "48", "+48"]
    assert float(more["USD per hour"][2]) > 0
    fewer = difference(ask(make_server(world), workload="web", replicas="2"))
    assert fewer["pending pods"] == ["0", "0", "+0"]


def test_fewer_pods_of_a_deployment_are_fewer_that_wait() -> None:
    world = build_world("small")
    world.pending = [build_pod(f"big-{n}", cpu="64", owner=("StatefulSet", "big")) for n in range(5)]
    found = difference(ask(make_server(world), workload="default/big", replicas="2"))
    assert found["pods not helped"] == ["5", "2", "-3"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"add": "xl"}, "group xl: is not of the form"),
        ({"add": "name=x,cpu=1"}, "group x: cpu and memory must describe a node"),
        ({"add": "name=x,cpu=1,memory=1Gi,price_per_hour=nan"}, "price_per_hour"),
        ({"add": "name=x,cpu=1,memory=1Gi,max_size=99999999999999999999"}, "max_size"),
        ({"add": "name=x,cpu=-1,memory=1Gi"}, "negative"),
        ({"add": "x" * 501}, "group: is longer than 500 characters"),
        ({"add": f"name={BAD_NAME},cpu=1"}, "cpu and memory must describe"),
        ({"add": "name=cloud/general,cpu=1,memory=1Gi"}, "there are two groups cloud/general"),
        ({"workload": "web", "replicas": ""}, "give how many the workload is to have, from 0 to 1,000"),
        ({"workload": "web", "replicas": "1001"}, "from 0 to 1,000"),
        ({"workload": "web", "replicas": "-1"}, "from 0 to 1,000"),
        ({"workload": "web", "replicas": "²"}, "from 0 to 1,000"),
        ({"workload": "w" * 318, "replicas": "1"}, "workload: is longer than 317 characters"),
        ({"workload": BAD_NAME, "replicas": "1"}, "no pod here is of a workload"),
        ({"workload": "\x1b[31m", "replicas": "1"}, "no pod here is of a workload default/\\x1b[31m"),
        ({"workload": "default/wep", "replicas": "1"}, "did you mean default/web?"),
    ],
)
def test_wrong_questions_are_one_sentence(query: dict[str, str], said: str) -> None:
    world = build_world("hostile")
    owned(world, 3)
    page = ask(make_server(world), **query)
    assert page.status == 400
    text = page.body.decode()
    assert said in text
    assert BAD_NAME not in text
    assert "<script>" not in text


def test_names_that_a_browser_might_run_are_shown_as_text() -> None:
    world = build_world("hostile")
    owned(world, 3, BAD_NAME)
    assert ask(make_server(world), add="name=x,cpu=1e999,memory=1e999,max_size=2147483647").status == 200
    page = ask(
        make_server(world), add=f"name={BAD_NAME},cpu=96,memory=768Gi", workload=f"default/{BAD_NAME}", replicas="900"
    )
    assert page.status == 200
    assert b"Not helped with the change" in page.body or b"nodes of" in page.body
    assert BAD_NAME.encode() not in page.body
    assert b"<script>" not in page.body


def test_a_large_cluster_is_left_to_the_command() -> None:
    world = build_world("small")
    world.pending += [replace(world.pending[0], metadata=ObjectMeta(name=f"p{n}")) for n in range(20_000)]
    server = make_server(build_world("small"))
    server.objects = lambda kind: world.pending if kind == "Pod" else ()  # type: ignore[method-assign]
    page = ask(server, add=XL)
    assert page.status == 400
    assert b"ask nodewright bundle for a file, and nodewright plan what if" in page.body


def test_loops_have_precedence_after_a_question() -> None:
    """The same question is answered from memory."""
    clock = SlowClock(NOW)
    server = make_server(build_world("small"), clock)
    pages = server.pages()
    first = pages["/what-if"]({"add": XL})
    assert pages["/what-if"]({"add": XL}).body == first.body
    refused = pages["/what-if"]({"add": XL.replace("xl", "xxl")})
    assert refused.status == 400
    assert b"ask again in" in refused.body
    clock.sleep(60.0)
    assert pages["/what-if"]({"add": XL.replace("xl", "xxl")}).status == 200


def test_before_the_first_loop_there_is_no_answer() -> None:
    page = DebugServer(FakeClock(NOW)).pages()["/what-if"]({"add": XL})
    assert page.status == 503
    assert b"no loop has ended yet" in page.body
