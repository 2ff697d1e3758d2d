"""What the invariants need to know of a run: the groups' limits, when anything was in the way, who came when."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any

from tests.faults.history import History, Loop, Seen, Write, group_of, is_of

from nodewright.model.duration import parse_duration
from nodewright_simulator.journal import What
from nodewright_simulator.scenario import (
    Crash,
    FullDisk,
    JumpClock,
    Kill,
    Misread,
    PauseWrites,
    RefuseEdits,
    RefuseEvictions,
    Restart,
    TouchNodes,
)

STARTUP = 900.0
SLACK = 120.0
TOLERATED_UNREADY = 3
TOLERATED_SHARE = 0.45
# A call may take a minute, and starts within 15 s after it was saved: for so long a group is left alone after a crash.
HELD = 75.0
DEFAULTS = {
    "scale-down-unneeded-time": "10m",
    "scale-down-unready-time": "20m",
    "scale-down-delay-after-add": "10m",
    "scale-down-delay-after-delete": "0s",
    "scale-down-delay-after-failure": "3m",
}
# For so long a group counts as one that cannot be read after its provider listed it last.
NOT_LISTED = 300.0
# What another writer may change of a group.
CHANGEABLE = ("min_size", "max_size", "cpu", "zone")
# For so long nothing is planned in an unhealthy cluster, even for groups that are not at fault.
UNHEALTHY = 1200.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A group as the scenario describes it; ``slots`` counts pods on one of its machines, at least.

    ``least`` and ``most`` are the limits that it has at the end; of the others there may be several: see ``Seen``.
    """

    slots: int
    most_slots: int
    least: int
    most: int
    zones: frozenset[str]
    instance_type: str


@dataclass(eq=False)
class Facts:
    """One run, with everything that the scenario and the log say about it worked out once."""

    history: History

    @cached_property
    def loops(self) -> list[Loop]:
        return self.history.loops

    @cached_property
    def patience(self) -> float:
        """Seconds that a machine may take."""
        return self.seconds("max-node-provision-time")

    @property
    def scales_down(self) -> bool:
        return bool(self.history.scenario.settings.get("scale-down-enabled"))

    def seconds(self, flag: str) -> float:
        """Return the duration that the flag gives, by its default where the scenario says nothing."""
        return parse_duration(str(self.history.scenario.settings.get(flag, DEFAULTS.get(flag))))

    @cached_property
    def trusts_its_machine(self) -> bool:
        """Return whether the engine has only its machine's clock, which jumps, and may take durations for others.

        They are wrong by a tenth, and by anything where it restarts.
        """
        jumps = (event for event in self.history.scenario.timeline if isinstance(event, JumpClock))
        return any(not jump.date_header for jump in jumps)

    @property
    def enforces_minimum(self) -> bool:
        return bool(self.history.scenario.settings.get("enforce-node-group-min-size"))

    @cached_property
    def groups(self) -> Mapping[str, Limits]:
        return {group["name"]: _limits(list(self._versions(group))) for group in self.cloud["groups"]}

    def _versions(self, group: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the group as it is at first and after each change."""
        yield group
        for event in sorted(self.cloud.get("interference", ()), key=lambda event: float(event["start"])):
            if event["group"] == group["name"] and event["do"] in ("change", "vanish"):
                group = {**group, **{key: event[key] for key in CHANGEABLE if key in event}}
                yield group

    @property
    def cloud(self) -> Mapping[str, Any]:
        return self.history.scenario.providers["fake"]

    @cached_property
    def requests(self) -> Mapping[str, int]:
        """The requests for capacity, and of how many pods each is."""
        asked = self.history.scenario.provisioning_requests
        return {request.name: sum(pods.count for pods in request.pod_sets) for request in asked}

    @cached_property
    def gangs(self) -> Mapping[str, int]:
        """The gangs, and how many pods of each start together at least."""
        return {spec.name: spec.gang for spec in self.history.scenario.deployments if spec.gang is not None}

    @property
    def asks_for_all_or_nothing(self) -> bool:
        """Return whether machines are asked for of which all must come: for a request or a gang."""
        return bool(self.requests or self.gangs)

    def needs(self, loop: Loop) -> Mapping[str, int]:
        """Return the gangs with pods that wait and enough pods to start, each with how many of these must find room."""
        needs = {gang: max(1, self.gangs[gang] - loop.running[gang]) for gang in self.gangs}
        return {gang: count for gang, count in needs.items() if count <= _waiting_of(loop, [gang])}

    def pending(self, loop: Loop) -> int:
        """Return how many pods wait, but those of gangs of which too few pods exist."""
        return loop.pending - _waiting_of(loop, self.gangs.keys() - self.needs(loop).keys())

    def pending_alone(self, loop: Loop) -> int:
        """Return how many pods wait that are of no gang."""
        return loop.pending - _waiting_of(loop, self.gangs)

    def is_absent(self, group: str, at: float) -> bool:
        """Return whether the group is gone or not listed, or was so lately."""
        rules = (rule for rule in self.cloud.get("interference", ()) if rule["do"] in ("recreate", "vanish"))
        return any(
            rule["group"] == group and rule["start"] <= at <= rule["start"] + rule["gone_for"] + SLACK for rule in rules
        )

    @cached_property
    def taken_at(self) -> Mapping[str, float]:
        """Return when the cloud takes each machine of which it gave notice with a deadline."""
        found: dict[str, float] = {}
        for loop in self.loops:
            for machine, deadline in loop.leaving.items():
                found[machine] = min(deadline, found.get(machine, math.inf))
        return found

    @cached_property
    def small_nodes(self) -> Mapping[str, str]:
        """The nodes that take no pod although their group's template says that they do, with their groups."""
        rules = self.cloud.get("small_machines", ())
        return {
            machine: rule["group"]
            for machine, at in self.started.items()
            for rule in rules
            if group_of(machine) == rule["group"] and rule["start"] <= at < rule["end"]
        }

    @cached_property
    def started(self) -> Mapping[str, float]:
        """When each machine started to run."""
        journal = self.history.result.journal if self.history.result is not None else ()
        return {fact.name: fact.at for fact in journal if fact.what == What.MACHINE_STARTED}

    # When the engine was away, or forgot

    @cached_property
    def crashes(self) -> list[float]:
        return self._times(What.ENGINE_CRASHED)

    @cached_property
    def resets(self) -> list[float]:
        """Crashes after which the engine may have known nothing."""
        timeline = self.history.scenario.timeline
        forgets = any(isinstance(event, Crash | Restart | Kill) and not event.keeps_memory for event in timeline)
        # What is old, of another cluster or unreadable tells no more than nothing does.
        forgets |= any(isinstance(event, Restart) and event.saved != "kept" for event in timeline)
        return self.crashes if forgets else []

    def crashed_between(self, start: float, end: float) -> bool:
        return any(start <= at <= end for at in self.crashes)

    @cached_property
    def _holds(self) -> Mapping[str, list[tuple[float, float]]]:
        """When each group may have been left alone because the engine died in the middle of a write, or right after one."""
        restarts = {event.at for event in self.history.scenario.timeline if isinstance(event, Restart)}
        found: dict[str, list[tuple[float, float]]] = {group: [] for group in self.groups}
        for group, crash in product(self.groups, self.crashes):
            writes = (write.at for loop in self.loops for write in loop.writes if write.group == group)
            last = max((at for at in writes if at <= crash), default=float("-inf"))
            until = crash + HELD if crash not in restarts else last + HELD
            if until > crash:
                found[group].append((crash, until))
        return found

    def is_held(self, group: str, at: float) -> bool:
        """Return whether an engine that died before may still be writing to the group, as far as the next one knows."""
        return any(start <= at <= end for start, end in self._holds[group])

    def last_reset(self, before: float) -> float:
        return max((at for at in self.resets if at <= before), default=float("-inf"))

    def knows_since(self, before: float, groups: Iterable[str] = ()) -> float:
        """Return when the engine first read these groups, or all, after it may have forgotten everything.

        Its clocks for all groups have started by then; those of a group start when it reads that group.
        """
        lost = self.last_reset(before)
        if lost == float("-inf"):
            return lost
        unread = set(groups or self.groups)
        for loop in self.loops:
            if loop.at > lost:
                unread -= loop.seen.keys()
                if not unread:
                    return loop.at
        return before

    def _times(self, what: What) -> list[float]:
        journal = self.history.result.journal if self.history.result is not None else ()
        return [fact.at for fact in journal if fact.what == what]

    # When anything was in the way of a correction

    @cached_property
    def pauses(self) -> list[tuple[float, float]]:
        """In the order in which they were ordered; each order takes the place of the one before."""
        timeline = sorted(self.history.scenario.timeline, key=lambda event: event.at)
        return [(event.at, event.at + event.lasts) for event in timeline if isinstance(event, PauseWrites)]

    def is_paused(self, at: float) -> bool:
        """Return whether the engine may have a reason to write nothing."""
        return any(start <= at <= end for start, end in (*self.pauses, *self.stops))

    @cached_property
    def full_disks(self) -> list[tuple[float, float]]:
        """When no state could be saved."""
        timeline = self.history.scenario.timeline
        return [(event.at, event.at + event.lasts) for event in timeline if isinstance(event, FullDisk)]

    def found_old_state(self, since: float, until: float) -> bool:
        """Return whether an engine began in that time with state that was out of date, or could not be saved."""
        timeline = self.history.scenario.timeline
        old = [event.at for event in timeline if isinstance(event, Restart) and event.saved == "old"]
        unsaved = [at for at in self.crashes if any(start <= at <= end for start, end in self.full_disks)]
        return any(since <= at <= until for at in (*old, *unsaved))

    @cached_property
    def stops(self) -> list[tuple[float, float]]:
        """When no state could be saved, the API server showed what was not so or refused, or people did to nodes what counts for
        new nodes, too. A cordon keeps no group from growing.
        """
        kinds = FullDisk | Misread | RefuseEdits | RefuseEvictions | TouchNodes
        timeline = self.history.scenario.timeline
        stops = [
            (event.at, event.at + event.lasts + SLACK)
            for event in timeline
            if isinstance(event, kinds) and not (isinstance(event, TouchNodes) and event.how == "cordon")
        ]
        # What the state of another cluster says is on its way counts until its groups have not been listed for that long.
        stops += [
            (event.at, event.at + event.down + NOT_LISTED + SLACK)
            for event in timeline
            if isinstance(event, Restart) and event.saved == "foreign"
        ]
        # The first calls of a dead provider hang for a minute each.
        dead = self.history.scenario.providers.get("dead", {}).get("faults", ())
        return [*stops, *(_window({**fault, "end": fault["start"]}) for fault in dead if fault["kind"] == "hang")]

    def is_tainted(self, at: float) -> bool:
        """Return whether nodes carry a taint that was set by hand."""
        timeline = self.history.scenario.timeline
        touches = (event for event in timeline if isinstance(event, TouchNodes) and event.how == "taint")
        return any(event.at <= at <= event.at + event.lasts + SLACK for event in touches)

    @cached_property
    def is_ever_misled(self) -> bool:
        return any(isinstance(event, Misread) for event in self.history.scenario.timeline)

    def is_misled(self, at: float) -> bool:
        """Return whether the engine was shown pods and nodes that are not there, or not all that are."""
        timeline = self.history.scenario.timeline
        return any(isinstance(e, Misread) and e.at <= at <= e.at + e.lasts for e in timeline)

    def shows_old_machines(self, at: float) -> bool:
        """Return whether a cloud may show machines that are gone, as if they were about to join."""
        rules = self.cloud.get("old_reads", ())
        return any(float(rule["start"]) <= at <= float(rule["end"]) + SLACK for rule in rules)

    @cached_property
    def _in_the_way(self) -> Mapping[str, list[tuple[float, float]]]:
        """When anything was in the way of correcting a group; old reads of one group keep no other from growing."""
        found = self._trouble.items()
        return {group: _merged([*windows, *self._old_reads(group)]) for group, windows in found}

    @cached_property
    def _trouble(self) -> Mapping[str, list[tuple[float, float]]]:
        """When the engine was away, paused, or hindered by faulty calls in correcting a group, or all was unhealthy."""
        started = [at for at in self._times(What.ENGINE_STARTED) if at > 0]
        common = [*self.pauses, *self.stops, *zip(self.crashes, started, strict=False)]
        for loop, following in pairwise(self.loops):
            if len(unwell(loop)) > TOLERATED_UNREADY:
                common.append((loop.at, following.at))
        faults = [fault for fault in self.cloud.get("faults", ()) if not _only_refuses_growth(fault)]
        faults += self.cloud.get("interlopers", ())
        return {
            group: _merged(
                [
                    *common,
                    *self._holds[group],
                    *self._absences(group),
                    *(_window(f) for f in faults if _reaches(f, group)),
                ]
            )
            for group in self.groups
        }

    def _absences(self, group: str) -> Iterator[tuple[float, float]]:
        """Yield when the group was not listed; from the start where the engine may have forgotten all of it meanwhile."""
        for event in self.cloud.get("interference", ()):
            if event["do"] == "vanish" and event["group"] == group:
                yield 0.0, event["start"] + event["gone_for"] + SLACK

    def _old_reads(self, group: str) -> Iterator[tuple[float, float]]:
        """Yield when reads of the group may have been old."""
        for rule in self.cloud.get("old_reads", ()):
            if rule["group"] == group:
                yield float(rule["start"]), float(rule["end"]) + SLACK

    def hindered(self, group: str, start: float, end: float) -> float:
        """For how many of the seconds between ``start`` and ``end`` something was in the way."""
        return _overlap(self._in_the_way[group], start, end)

    def unhindered(self, group: str, at: float, seconds: float) -> float:
        """The moment before ``at`` since which so many seconds have passed in which nothing was in the way."""
        return _outside(self._in_the_way[group], at, seconds)

    def calm_since(self, at: float, seconds: float) -> float:
        """Return the latest moment since which so many seconds have passed in which nothing hindered any group."""
        return min(_outside(windows, at, seconds) for windows in self._trouble.values())

    def has_wrong_size(self, group: str, at: float) -> bool:
        """Is the group's size reported wrong in a loop that begins then, or was it so lately that requests may be confused?"""
        wrong = [fault for fault in self.cloud.get("faults", ()) if fault["kind"] == "wrong_size"]
        return any(
            rule["group"] == group and rule["start"] - SLACK <= at <= rule["end"] + 2 * self.patience
            for rule in (*wrong, *self.cloud.get("old_reads", ()))
        )

    def stated_scope(self, write: Write) -> str:
        """Return how far a refusal reaches, as the cloud said it: no farther than the group where it said nothing."""
        told = [str(fault["scope"] or "group") for fault in self._refusals if _meets(fault, write)]
        if not told and write.error == "OutOfCapacity":
            return self._stock_scope(write)
        return next((scope for scope in told if scope != "group"), "group")

    def _stock_scope(self, write: Write) -> str:
        """Return what the stock-out is about for which an increase of all or nothing was refused."""
        group = self.groups[write.group]
        own = {"group": {write.group}, "zone": group.zones, "instance_type": {group.instance_type}}
        meant = [out for out in self.cloud.get("stock_outs", ()) if out["start"] <= write.at < out["end"]]
        meant = [out for out in meant if all(key not in out or out[key] in values for key, values in own.items())]
        least = min(meant, key=lambda out: int(out["remaining"]), default={"group": write.group})
        return next(scope for scope in ("group", "instance_type", "zone") if scope in least)

    def told_pause(self, write: Write) -> float:
        """Return the seconds for which a busy cloud asked to be left alone at most; 0 if none did."""
        return max((float(f["retry_after"]) for f in self._pauses if _meets(f, write)), default=0.0)

    @cached_property
    def _pauses(self) -> list[Mapping[str, Any]]:
        return [fault for fault in self.cloud.get("faults", ()) if "retry_after" in fault]

    @cached_property
    def _refusals(self) -> list[Mapping[str, Any]]:
        return [{"scope": "", **fault} for fault in self.cloud.get("faults", ()) if fault["kind"] == "refuse"]

    # Who came when

    @cached_property
    def first_seen(self) -> Mapping[tuple[str, str], float]:
        """When each machine, and each failure, of a group was first shown to the engine."""
        found: dict[tuple[str, str], float] = {}
        for loop in self.loops:
            for name, seen in loop.seen.items():
                for known in (*seen.instances, *seen.failed):
                    found.setdefault((name, known), loop.at)
        return found

    def asked(self, group: str, since: float, until: float) -> int:
        """Machines that were asked for in that time."""
        return sum(max(0, a.count) for a in self.history.asked if a.group == group and since <= a.at <= until)

    def settled(self, group: str, since: float, until: float) -> int:
        """How many of those asked for may be settled in that time: came, failed, or were withdrawn."""
        arrived = sum(count for at, count in self._arrivals.get(group, ()) if since <= at <= until)
        outside = -sum(min(0, a.count) for a in self.history.asked if a.group == group and since <= a.at <= until)
        return arrived + outside + self.withdrawn(group, since, until)

    def withdrawn(self, group: str, since: float, until: float) -> int:
        """Return how many machines that were asked for were taken back by us in that time."""
        return sum(write.accepted for at, write in self.withdrawals.get(group, ()) if since <= at < until)

    @cached_property
    def withdrawals(self) -> Mapping[str, list[tuple[float, Write]]]:
        """When the loops began that lowered a target, and how, of each group."""
        found: dict[str, list[tuple[float, Write]]] = {}
        for loop in self.loops:
            for write in loop.writes:
                if write.hook == "decrease_target_size":
                    found.setdefault(write.group, []).append((loop.at, write))
        return found

    @cached_property
    def hedges(self) -> Mapping[str, list[tuple[float, int]]]:
        """When machines of each group were bought twice, and how many."""
        found: dict[str, list[tuple[float, int]]] = {}
        for loop in self.loops:
            for group, machines in loop.hedged.items():
                found.setdefault(group, []).append((loop.at, machines))
        return found

    @cached_property
    def _arrivals(self) -> Mapping[str, list[tuple[float, int]]]:
        """Return when machines and failures of each group were first seen after the start, and how many each is at most."""
        counts: dict[tuple[str, str], int] = {}
        for loop in self.loops:
            for group, seen in loop.seen.items():
                for known, failure in seen.failed.items():
                    counts[group, known] = max(counts.get((group, known), 0), failure.count)
        found: dict[str, list[tuple[float, int]]] = {}
        for (group, known), at in self.first_seen.items():
            if at:
                found.setdefault(group, []).append((at, counts.get((group, known)) or 1))
        return found


def _waiting_of(loop: Loop, gangs: Iterable[str]) -> int:
    """Return how many pods of these gangs wait."""
    return sum(is_of(pod, gang) for gang in gangs for pod in loop.waiting)


def _limits(versions: Sequence[Mapping[str, Any]]) -> Limits:
    return Limits(
        slots=min(int(group["cpu"]) for group in versions),
        most_slots=max(int(group["cpu"]) for group in versions),
        least=versions[-1].get("min_size", 0),
        most=versions[-1]["max_size"],
        zones=frozenset(group["zone"] for group in versions),
        instance_type=versions[0]["instance_type"],
    )


def _overlap(windows: Sequence[tuple[float, float]], start: float, end: float) -> float:
    return sum(max(0.0, min(end, until) - max(start, since)) for since, until in windows)


def _outside(windows: Sequence[tuple[float, float]], at: float, seconds: float) -> float:
    """Return the moment before ``at`` since which so many seconds have passed outside of the windows."""
    since = at - seconds
    while (wider := at - seconds - _overlap(windows, since, at)) < since - 1:
        since = wider
    return since


def _meets(fault: Mapping[str, Any], write: Write) -> bool:
    is_meant = fault.get("hook", write.hook) == write.hook and fault.get("group", write.group) == write.group
    return is_meant and bool(write.error) and float(fault["start"]) <= write.at < float(fault["end"])


def _only_refuses_growth(fault: Mapping[str, Any]) -> bool:
    return fault.get("hook") == "increase_size" and fault["kind"] in ("refuse", "partial", "crash")


def _reaches(fault: Mapping[str, Any], group: str) -> bool:
    """A call that takes long holds up everybody."""
    return fault.get("kind") in ("hang", "slow", "throttle") or fault.get("group", group) in ("*", group)


def _window(fault: Mapping[str, Any]) -> tuple[float, float]:
    """A decrease that failed is tried again after five minutes; a call that hangs takes one."""
    return float(fault["start"]), float(fault["end"]) + 400


def unwell(loop: Loop) -> list[str]:
    """Return the nodes that are not ready and were: one that never was says nothing about the cluster's health."""
    return [node.instance_id for node in loop.nodes.values() if not node.ready and node.ever_ready]


def unregistered(seen: Seen, loop: Loop) -> list[str]:
    """Machines that are no nodes."""
    return [machine for machine in seen.there if machine not in loop.nodes]


def last_registered(seen: Seen, loop: Loop) -> float:
    """When the youngest node of the group registered; 0 if it has none."""
    return max((loop.nodes[machine].since for machine in seen.there if machine in loop.nodes), default=0.0)


def surely_awaited(facts: Facts, group: str, now: float) -> int:
    """Machines we asked for within the last provision time that can neither have come, nor failed, nor been withdrawn.

    What another writer asked for in place of a machine that vanished may count as late as that one was.
    """
    since = now - facts.patience
    asked = sum(a.count for a in facts.history.asked if a.group == group and a.ours and since <= a.at < now)
    return max(0, asked - facts.settled(group, since, now))


def awaited_in_turn(facts: Facts, group: str, now: float) -> int:
    """Machines asked for within the last provision time, where each machine that came or failed settled the oldest first.

    Only for a group all of whose withdrawals went through so far: 0 for others, of which more is given up than gone.
    """
    withdrawals = (write for at, write in facts.withdrawals.get(group, ()) if at < now)
    lingers = any(write.accepted != write.expected - write.target for write in withdrawals)
    if lingers or facts.resets or facts.hindered(group, now - 2 * facts.patience, now):
        return 0
    mine = [a for a in facts.history.asked if a.group == group and a.at < now]
    asked = [(a.at, a.count) for a in mine if a.ours]
    taken_back = -sum(min(0, a.count) for a in mine)
    settled = facts.settled(group, 0.0, now)
    # A machine that was taken back may have been the newest as well as the oldest.
    newest_gone = _without_first(reversed(asked), taken_back)[::-1]
    left = (_without_first(asked, settled), _without_first(newest_gone, settled - taken_back))
    return min(sum(count for at, count in rest if at >= now - facts.patience) for rest in left)


def _without_first(asked: Iterable[tuple[float, int]], gone: int) -> list[tuple[float, int]]:
    """What is left of machines asked for, with when, after the first so many are gone."""
    left = []
    for at, count in asked:
        some = min(gone, count)
        gone -= some
        left.append((at, count - some))
    return left


def in_time(facts: Facts, group: str, now: float) -> int:
    """Machines that cannot have been given up yet, by the better of two counts."""
    return max(surely_awaited(facts, group, now), awaited_in_turn(facts, group, now))


def hedged_lately(facts: Facts, group: str, now: float) -> int:
    """Machines of the group that were bought twice within the last provision time."""
    return sum(machines for at, machines in facts.hedges.get(group, ()) if now - facts.patience <= at < now)


def said(loop: Loop, write: Write, why: str) -> str:
    what = f"{write.expected} → {write.target}" if not write.ids else ", ".join(write.ids)
    return f"{loop.at:g} s: {write.hook} of {write.group} ({what}): {why}"


def _merged(windows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged
