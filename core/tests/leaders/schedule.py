"""A random schedule: what happens to two or three replicas, and what must hold in every case."""

import math
from collections.abc import Callable
from functools import partial
from random import Random

import msgspec
from core.tests.kube.conftest import ApiServer
from core.tests.leaders.clouds import PROVIDER, SharedWorld
from core.tests.leaders.replica import LEASE, NAMESPACE, Replica
from core.tests.leaders.stage import Gone, Process, Stage

from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.cli.settings.load import load
from nodewright.model.group import GroupRef
from nodewright.model.settings import Settings

START = 1_800_000_000.0
# Faults come for so long; then everything must settle within the calm.
FAULTS_SECONDS, CALM_SECONDS = 480.0, 900.0
_CALL_SECONDS = 60.0

MakeReplica = Callable[[Process, SharedWorld, ApiServer, "Schedule", Settings], Replica]


class Broken(Exception):
    """An invariant does not hold in the schedule of this number."""


def settings_of(*, is_ca: bool, shrinks: bool) -> Settings:
    flags = {"scale-down-enabled": "true" if shrinks else "false", "scale-down-unneeded-time": "30s"}
    flags |= {"scale-down-delay-after-add": "10s", "hedging": "off"}
    if is_ca:
        del flags["hedging"]
        flags["profile"] = "ca"
    return load(flags, {}).settings


class Schedule:
    """Implements Weather. ``run`` raises Broken."""

    def __init__(self, number: int, make: MakeReplica = Replica) -> None:
        self._number = number
        self._make = make
        self._random = random = Random(number)
        self._names = Random(f"{number} names")
        self.shrinks = number % 3 == 2
        self.settings = settings_of(is_ca=number % 2 == 1, shrinks=self.shrinks)
        self.stage = Stage(START, self._watch)
        self.server = ApiServer()
        self.world = SharedWorld(self.stage, random, groups=random.choice((1, 2, 3)))
        self.replicas: list[Replica] = []
        self.writes: list[tuple[float, str, str]] = []
        self.counts = {"kills": 0, "freezes": 0, "edits": 0, "outages": 0, "stops": 0, "names": 0}
        self._led: dict[str, float] = {}
        self._started = 0
        self._broken = ""
        self._outages: list[tuple[float, float, int]] = []
        self._store = ConfigMapStore(ConfigMaps(self.server, NAMESPACE), lambda: None)
        self._ends = START + FAULTS_SECONDS
        # How rough it is: the chance of a fault at a step, near a write and elsewhere.
        self._near, self._far = random.choice((0.02, 0.1, 0.25)), random.choice((0.0005, 0.002, 0.006))

    def run(self) -> None:
        try:
            self._draw()
            self.stage.run(self._ends + CALM_SECONDS)
            self._check_the_end()
            self._watch()
        finally:
            self.stage.end()

    # What befalls

    def _draw(self) -> None:
        random = self._random
        for slot in range(random.choice((2, 3))):
            self.stage.at(START + slot * random.uniform(0, 8), partial(self._begin, slot))
        self._often(random.uniform(15, 60), lambda: self.world.add_pods(random.randint(1, 4)))
        if self.shrinks:
            self._often(random.uniform(20, 60), lambda: self.world.end_pods(random.randint(1, 4)))
        self._often(random.uniform(40, 400), self._edit_lease)
        for _ in range(random.choice((0, 0, 1, 2))):
            begins = START + random.uniform(0, FAULTS_SECONDS)
            slots = random.choice((0, 1, 2, -1))
            self._outages.append((begins, begins + random.choice((3, 12, 40, 100)), slots))
            self.counts["outages"] += 1

    def _often(self, mean: float, happening: Callable[[], object]) -> None:
        moment = START + self._random.expovariate(1 / mean)
        while moment < self._ends:
            self.stage.at(moment, happening)
            moment += self._random.expovariate(1 / mean)

    def _begin(self, slot: int) -> None:
        """A process starts in its place; when it has ended another follows."""
        self._started += 1
        process = Process(f"{slot}-{self._started}")
        replica = self._make(process, self.world, self.server, self, self.settings)
        self.replicas.append(replica)
        self.stage.spawn(process, replica.live)
        if self._random.random() < 0.3:
            self.stage.at(self.stage.now() + self._random.uniform(20, 300), lambda: self._stop(replica))
        self._look_after(replica, slot)

    def _look_after(self, replica: Replica, slot: int) -> None:
        def look() -> None:
            if replica.process.is_dead:
                self.replicas.remove(replica)
                self._begin(slot)
            else:
                self.stage.at(self.stage.now() + 1.0, look)

        self.stage.at(self.stage.now() + self._random.uniform(1, 5), look)

    def _stop(self, replica: Replica) -> None:
        if self.stage.now() < self._ends and not replica.process.is_dead:
            self.counts["stops"] += 1
            replica.is_told_to_stop = True

    def _edit_lease(self) -> None:
        held = self.server.objects.get(LEASE)
        if held is None:
            return
        self.counts["edits"] += 1
        alive = [replica.process.name for replica in self.replicas]
        edit = self._random.choice(
            (
                None,
                {"holderIdentity": ""},
                {"holderIdentity": None},
                {"holderIdentity": "somebody"},
                {"holderIdentity": self._random.choice(alive)},
                {"leaseDurationSeconds": 1},
                {"leaseDurationSeconds": 40},
                {"leaseDurationSeconds": None},
                {"renewTime": "2001-01-01T00:00:00.000000Z"},
            )
        )
        if edit is None:
            self.server.drop(LEASE)
        else:
            self.server.put(LEASE, {**held, "spec": {**held["spec"], **edit}})

    def _put_name_back(self, process: Process) -> None:
        """An editor writes the name of a process into the lease that another holds."""
        held = self.server.objects.get(LEASE)
        if held is not None and held["spec"].get("holderIdentity") != process.name:
            self.counts["names"] += 1
            self.server.put(LEASE, {**held, "spec": {**held["spec"], "holderIdentity": process.name}})

    def step(self, process: Process, *, weighs: bool) -> None:
        random, now = self._random, self.stage.now()
        if now < self._ends and random.random() < (self._near if weighs else self._far):
            if random.random() < 0.4:
                self.counts["kills"] += 1
                process.is_dead = True
                raise Gone
            self.counts["freezes"] += 1
            process.freeze(now, 5 * math.exp(random.uniform(0, math.log(60))))
            leads = any(replica.process is process and replica.lease.remaining() > 0 for replica in self.replicas)
            if leads and self._names.random() < 0.5:
                # Right before it wakes, so that the one that leads has not seen it yet.
                back_at = process.frozen_until - self._names.uniform(0, 1)
                self.stage.at(back_at, partial(self._put_name_back, process))
        self.stage.sleep(random.uniform(0.001, 0.3))

    def is_cut_off(self, process: Process) -> bool:
        now, slot = self.stage.now(), int(process.name.partition("-")[0])
        return any(begin <= now < end and of in (slot, -1) for begin, end, of in self._outages)

    # What must hold

    def wrote(self, replica: Replica, group_id: str) -> None:
        """A write to a cloud leaves: its process leads, no other writer did and it was not frozen for as long as a lease
        lasts since it looked, and it has saved that it writes.
        """
        now = self.stage.now()
        self.writes.append((now, replica.process.name, group_id))
        looked = replica.plugin.looked
        name, lease = replica.process.name, self.settings.leader.leader_elect_lease_duration
        others = [other for other, at in self._led.items() if at > looked and other != name]
        self._demand(not others, f"{name} writes what it decided before {others} led")
        frozen = [until - begin for begin, until in replica.process.freezes if until > looked]
        self._demand(max(frozen, default=0.0) < lease, f"{name} writes what it decided before it was frozen")
        self._demand(replica.lease.remaining() > 0, f"{replica.process.name} writes to {group_id} and does not lead")
        saved = self._store.peek().writes_in_flight.get(GroupRef(PROVIDER, group_id))
        self._demand(saved is not None, f"a write to {group_id} was not saved before")
        if saved is not None:
            self._demand(saved.until >= now + _CALL_SECONDS, f"a write to {group_id} may last longer than was saved")

    def _watch(self) -> None:
        self._look_at_leaders()
        if self._broken:
            raise Broken(self._broken)

    def _look_at_leaders(self) -> None:
        leaders = [replica.process.name for replica in self.replicas if replica.lease.remaining() > 0]
        self._led |= dict.fromkeys(leaders, self.stage.now())
        self._demand(len(leaders) < 2, f"two leaders: {leaders}")
        self._demand(self.world.bought <= self.world.unhoused, "machines were bought twice")
        self._demand(not self.world.surplus, f"machines were bought twice: {self.world.surplus}")
        self._demand(not self.world.killed, f"machines went under running pods: {self.world.killed}")

    def _check_the_end(self) -> None:
        leaders = [replica for replica in self.replicas if replica.lease.remaining() > 0]
        if len(leaders) != 1:
            self._demand(False, "no replica leads in the end")
            return
        waiting = [held.key for held in self.world.cluster.pending()]
        self._demand(not waiting, f"{len(waiting)} pods wait in the end, from {waiting[:1]} on")
        spec = self.server.objects[LEASE]["spec"]
        self._demand(
            spec["holderIdentity"] == leaders[0].process.name, f"the lease is another's: {msgspec.json.encode(spec)!r}"
        )

    def _demand(self, holds: bool, otherwise: str) -> None:
        """Note what is broken: the engine would handle an exception that is raised in its own calls."""
        if not holds and not self._broken:
            self._broken = f"schedule {self._number} at {self.stage.now() - START:.1f} s: {otherwise}"
