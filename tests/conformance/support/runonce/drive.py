"""Loops of the autoscaler in the world of a case."""

from collections.abc import Mapping
from random import Random
from typing import Any

from nodewright.act import AuditLog
from nodewright.adapters.simulated.clock import VirtualClock
from nodewright.adapters.simulated.store import MemoryStore
from nodewright.cli.dump import DumpedCluster
from nodewright.engine.autoscaler import Autoscaler, Brain
from nodewright.engine.ports import ClusterPicture
from nodewright.engine.ports import World as Outside
from nodewright.model.decode import convert_object
from nodewright.model.objects import KINDS, ClusterObjects
from nodewright.observe import ports
from runonce.cloud import Cloud
from runonce.details import make_details
from runonce.events import apply_event
from runonce.flags import read_flags
from runonce.record import Record, make_core
from runonce.world import World, read_time

# What asynchronous work gets after each loop, before the record is closed.
AFTERMATH_SECONDS = 7.0


class _Silence:
    """An event sink that nobody reads."""

    def record(self, event: Any) -> None:
        """Events are not compared."""


class _Cluster(ports.ClusterReader):
    """The world's objects, decoded anew for every loop."""

    def __init__(self, world: World) -> None:
        self._world = world

    def read(self, now: float) -> ClusterPicture:
        found: dict[str, list[Any]] = {}
        for manifest in self._world.objects.values():
            kind = KINDS.get(manifest["kind"])
            if kind is not None:
                found.setdefault(kind.field, []).append(convert_object(kind.type, manifest))
        objects = ClusterObjects(**{field: tuple(held) for field, held in found.items()})
        return DumpedCluster(objects).read(now)


def drive(given: Mapping[str, Any]) -> list[Record]:
    """A record of every step of the case."""
    clock = VirtualClock(read_time(given["startTime"]))
    world = World(given)
    cloud = Cloud(world, clock)
    outside = Outside(
        cluster=_Cluster(world), providers=(cloud,), store=MemoryStore(), events=_Silence(), audit=AuditLog()
    )
    settings = read_flags(given["flags"])
    autoscaler = Autoscaler(outside, clock, settings, Random(0), brain=Brain(strict=True))
    records = []
    began = clock.now()
    for step in given["steps"]:
        began += step["advanceSeconds"]
        clock.advance_to(began)
        world.come_due(began)
        for event in step.get("events", ()):
            apply_event(world, event, began)
        cloud.forget_calls()
        report = autoscaler.run_once()
        details = make_details(report, world, settings)
        clock.sleep(AFTERMATH_SECONDS)
        records.append(make_core(report, cloud, world) | details)
    return records
