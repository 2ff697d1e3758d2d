"""Loops of the autoscaler in the world of a case."""

from collections.abc import Mapping
from random import Random
from typing import Any

from nodewright.actuation import AuditLog
from nodewright.adapters.clocks import VirtualClock
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.planning import Planning
from nodewright.engine.ports import Loaded
from nodewright.engine.ports import Ports as Outside
from nodewright_simulator.store import MemoryStore
from runonce.cloud import Cloud
from runonce.cluster import Cluster
from runonce.details import make_details
from runonce.down import make_scale_down
from runonce.events import apply_event
from runonce.flags import read_flags
from runonce.record import Record, make_core
from runonce.requests import make_requests
from runonce.world import World, read_time

# What asynchronous work gets after each loop, before the record is closed.
AFTERMATH_SECONDS = 7.0


class _Silence:
    """An event sink that is not read."""

    def record(self, event: Any) -> None:
        """Events are not compared."""


def drive(given: Mapping[str, Any]) -> list[Record]:
    """A record of every step of the case."""
    clock = VirtualClock(read_time(given["startTime"]))
    world = World(given)
    cloud, cluster = Cloud(world, clock), Cluster(world)
    outside = Outside(cluster=cluster, providers=(cloud,), store=MemoryStore(), events=_Silence(), audit=AuditLog())
    settings = read_flags(given["flags"])
    autoscaler = Autoscaler(outside, clock, settings, Random(0), Loaded(), planning=Planning(strict=True))
    records: list[Record] = []
    before: Record = {}
    began = clock.now()
    for step in given["steps"]:
        began += step["advanceSeconds"]
        clock.advance_to(began)
        world.come_due(began)
        for event in step.get("events", ()):
            apply_event(world, event, began)
        cloud.forget_calls()
        cluster.evicted.clear()
        report = autoscaler.run_once()
        details = make_details(report, world, settings) | make_scale_down(report, world, settings, before)
        details |= make_requests(world)
        _finish_removals(autoscaler, clock, began + AFTERMATH_SECONDS)
        before = make_core(report, cloud, world) | details | {"evicted": sorted(cluster.evicted)}
        records.append(before)
    return records


def _finish_removals(autoscaler: Autoscaler, clock: VirtualClock, until: float) -> None:
    """Let removals go on as time passes."""
    while (due := autoscaler.next_step_at()) <= until:
        clock.advance_to(max(due, clock.now()))
        autoscaler.step_removals()
    clock.advance_to(until)
