"""Time the views of the daemon's page on a large cluster: 1,000 groups, 15,000 nodes, 5,000 pods that wait.

Run it with ``.venv/bin/python bench/console.py``. For each view it prints the first time after a loop, when the view is
computed, and the median of the next ones, in milliseconds of processor time. The bound is 100 ms for each page.
"""

import argparse
from collections.abc import Callable
from random import Random
from statistics import median
from time import process_time

from nodewright.adapters.web import Page, Query
from nodewright.cli.daemon.debug_server import DebugServer
from nodewright.engine.report import LoopReport
from nodewright.model.settings import Settings
from nodewright.planner import make_plan
from nodewright.testkit import FakeClock
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World

_AGAIN = 5


def make_server(groups: int, nodes: int, pods: int) -> tuple[DebugServer, Callable[[], None]]:
    """Return a server of a cluster, and what publishes its loop again as a new one."""
    world = World()
    for number in range(groups):
        world.add_group(f"group-{number:04}", nodes // groups, max_size=nodes, hourly_price=0.1 + number / 1e4)
    shapes = ["200m", "64", "100", "3"]
    world.running = [build_pod(f"p{n}", "1500m", "1Gi", node_name=node.name) for n, node in enumerate(world.nodes[::2])]
    world.pending = [build_pod(f"w{n}", cpu=shapes[n % len(shapes)], labels={"app": f"a{n % 50}"}) for n in range(pods)]
    state = world.state()
    plan, _ = make_plan(state, Settings(), Random(1))
    server = DebugServer(FakeClock(NOW + 5))

    def publish() -> None:
        server.publish(LoopReport(started=NOW, finished=NOW + 1, loop="1-1", state=state, plan=plan), Settings(), None)

    publish()
    return server, publish


def measure(render: Callable[[Query], Page], query: Query) -> float:
    begun = process_time()
    page = render(query)
    taken = process_time() - begun
    if page.status != 200:
        raise SystemExit(f"status {page.status}: {page.body[:200]!r}")
    return 1000 * taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=15000)
    parser.add_argument("--pods", type=int, default=5000)
    given = parser.parse_args()
    server, publish = make_server(given.groups, given.nodes, given.pods)
    pages = server.pages()
    for path in ("/", "/groups", "/pods", "/nodes", "/events"):
        pages[path]({})  # the templates are compiled once in a process
    print("view                       first   again  (ms)")
    for path, query in (
        ("/", {}),
        ("/groups", {}),
        ("/pods", {}),
        ("/nodes", {}),
        ("/nodes", {"group": "cloud/group-0007"}),
        ("/nodes", {"q": "99", "page": "2"}),
        ("/events", {}),
        ("/series.json", {}),
    ):
        publish()
        first = measure(pages[path], query)
        again = median(measure(pages[path], query) for _ in range(_AGAIN))
        print(f"{path + ' ' + str(query or ''):<26}{first:>6.1f}{again:>8.1f}")


if __name__ == "__main__":
    main()
