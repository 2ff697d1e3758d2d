"""Clusters for the page: empty, small, large, and one with names that a browser might run."""

from random import Random

from nodewright.actuation import Pause
from nodewright.cli.console.last_loop import LastLoop
from nodewright.clusterstate.memory import Backoff, Memory
from nodewright.engine.report import LoopReport
from nodewright.model.group import ErrorClass
from nodewright.planner import make_plan
from nodewright.testkit import build_pod
from nodewright.testkit.world import NOW, World, ref, settings_with

BAD_NAME = "<script>alert(1)</script>\"onload='x"


def build_world(kind: str) -> World:
    """Return a cluster: ``empty``, ``small``, ``large``, or ``hostile``, which is the small one with bad names."""
    world = World()
    if kind == "empty":
        return world
    if kind == "large":
        for number in range(100):
            world.add_group(f"group-{number:03}", 10, max_size=12, hourly_price=0.1 + number / 1000)
        world.pending = [
            build_pod(f"wait-{n}", cpu=("3", "64")[n % 2], labels={"app": f"a{n % 20}"}) for n in range(500)
        ]
        return world
    failing = BAD_NAME if kind == "hostile" else "spot"
    world.add_group("general", 6, max_size=20, hourly_price=0.192)
    world.add_group("gpu", 2, max_size=4, hourly_price=3.06, cpu="16")
    world.add_group(failing, 3, max_size=12, hourly_price=0.067)
    world.add_group("big", 1, max_size=1)
    world.running = [build_pod(f"web-{n}", "1500m", "1Gi", node_name=f"general-{n % 6}") for n in range(12)]
    world.pending = [build_pod(f"train-{n}", cpu="64") for n in range(40)]
    world.pending += [build_pod(BAD_NAME if kind == "hostile" else f"api-{n}", cpu="3") for n in range(9)]
    backoff = Backoff(
        until=NOW + 300,
        duration=300,
        last_failure=NOW - 5,
        error_class=ErrorClass.OUT_OF_RESOURCES,
        code="NoCapacity",
        message=f"no capacity in zone {BAD_NAME if kind == 'hostile' else 'a'}",
    )
    world.memory = Memory(backoffs={ref(failing): backoff})
    return world


def build_last_loop(world: World, pause: Pause | None = None, **changed: object) -> LastLoop:
    """Return the loop that planned for the cluster."""
    settings = settings_with(**changed)
    state = world.state(settings)
    plan, _ = make_plan(state, settings, Random(1))
    report = LoopReport(started=NOW - 1, finished=NOW, loop="1-7", state=state, plan=plan)
    return LastLoop(report=report, state=state, settings=settings, pause=pause, now=NOW)
