"""What the invariants need to know of a run: the groups' limits, when anything was in the way, who came when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.faults.history import History, Loop, Seen, Write

from nodewright.adapters.simulated.journal import What
from nodewright.adapters.simulated.scenario import Crash, Outage, PauseWrites, Restart
from nodewright.model.duration import parse_duration

STARTUP = 900.0
SLACK = 120.0
TOLERATED_UNREADY = 3
TOLERATED_SHARE = 0.45


@dataclass(frozen=True, kw_only=True)
class Limits:
    """A group as the scenario describes it; ``slots`` counts pods on one of its machines."""

    slots: int
    least: int
    most: int
    zone: str
    instance_type: str


@dataclass
class Facts:
    """One run, with everything that the scenario and the log say about it worked out once."""

    history: History

    @cached_property
    def loops(self) -> list[Loop]:
        return self.history.loops

    @cached_property
    def patience(self) -> float:
        """Seconds that a machine may take."""
        return parse_duration(str(self.history.scenario.settings["max-node-provision-time"]))

    @property
    def enforces_minimum(self) -> bool:
        return bool(self.history.scenario.settings.get("enforce-node-group-min-size"))

    @cached_property
    def groups(self) -> Mapping[str, Limits]:
        return {
            group["name"]: Limits(
                slots=int(group["cpu"]),
                least=group.get("min_size", 0),
                most=group["max_size"],
                zone=group["zone"],
                instance_type=group["instance_type"],
            )
            for group in self.cloud["groups"]
        }

    @property
    def cloud(self) -> Mapping[str, Any]:
        return self.history.scenario.providers["fake"]

    # When the engine was away, or forgot

    @cached_property
    def crashes(self) -> list[float]:
        return self._times(What.ENGINE_CRASHED)

    @cached_property
    def resets(self) -> list[float]:
        """Crashes after which the engine may have known nothing."""
        deaths = (event for event in self.history.scenario.timeline if isinstance(event, Crash | Restart))
        forgets = any(not death.keeps_memory for death in deaths)
        return self.crashes if forgets else []

    def crashed_between(self, start: float, end: float) -> bool:
        return any(start <= at <= end for at in self.crashes)

    def last_reset(self, before: float) -> float:
        return max((at for at in self.resets if at <= before), default=float("-inf"))

    def _times(self, what: What) -> list[float]:
        journal = self.history.result.journal if self.history.result is not None else ()
        return [fact.at for fact in journal if fact.what == what]

    # When anything was in the way of a correction

    @cached_property
    def pauses(self) -> list[tuple[float, float]]:
        timeline = self.history.scenario.timeline
        return [(event.at, event.at + event.lasts) for event in timeline if isinstance(event, PauseWrites)]

    def is_paused(self, at: float) -> bool:
        return any(start <= at <= end for start, end in self.pauses)

    @cached_property
    def _in_the_way(self) -> list[tuple[float, float]]:
        """Windows in which the engine was away, paused, hindered by faulty calls, or the cluster unhealthy."""
        started = [at for at in self._times(What.ENGINE_STARTED) if at > 0]
        windows = [*self.pauses, *zip(self.crashes, started, strict=False)]
        # A call that hangs at the very end of a window holds the loop up for a minute more, or a few.
        windows += [(float(f["start"]), float(f["end"]) + 240) for f in self.cloud.get("faults", ())]
        outages = (event for event in self.history.scenario.timeline if isinstance(event, Outage))
        windows += [(event.at, event.at + event.lasts) for event in outages]
        for loop, following in zip(self.loops, self.loops[1:], strict=False):
            if len(unready(loop)) > TOLERATED_UNREADY:
                windows.append((loop.at, following.at))
        return _merged(windows)

    def hindered(self, start: float, end: float) -> float:
        """For how many of the seconds between ``start`` and ``end`` something was in the way."""
        return sum(max(0.0, min(end, until) - max(start, since)) for since, until in self._in_the_way)

    def unhindered(self, at: float, seconds: float) -> float:
        """The moment before ``at`` since which so many seconds have passed in which nothing was in the way."""
        since = at - seconds
        while (wider := at - seconds - self.hindered(since, at)) < since - 1:
            since = wider
        return since

    def has_wrong_size(self, group: str, at: float) -> bool:
        """Is the group's size reported wrong, or was it so lately that requests may still be confused?"""
        return any(
            fault["kind"] == "wrong_size"
            and fault["group"] == group
            and fault["start"] <= at <= fault["end"] + 2 * self.patience
            for fault in self.cloud.get("faults", ())
        )

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
        came = [known for (name, known), at in self.first_seen.items() if name == group and since <= at <= until]
        arrived = sum(self._failed_machines(group, known) or 1 for known in came)
        outside = -sum(min(0, a.count) for a in self.history.asked if a.group == group and since <= a.at <= until)
        withdrawn = sum(
            write.accepted
            for loop in self.loops
            if since <= loop.at < until
            for write in loop.writes
            if write.group == group and write.hook == "decrease_target_size"
        )
        return arrived + outside + withdrawn

    def _failed_machines(self, group: str, known: str) -> int:
        """How many machines a failure of that id stood for at most; 0 for what is a machine."""
        seen = (loop.seen[group].failed.get(known) for loop in self.loops if group in loop.seen)
        return max((failure.count for failure in seen if failure is not None), default=0)


def unready(loop: Loop) -> list[str]:
    return [node.instance_id for node in loop.nodes.values() if not node.ready]


def unregistered(seen: Seen, loop: Loop) -> list[str]:
    """Machines that are no nodes."""
    return [machine for machine in seen.there if machine not in loop.nodes]


def surely_awaited(facts: Facts, group: str, now: float) -> int:
    """Machines asked for within the last provision time that can neither have come, nor failed, nor been withdrawn."""
    since = now - facts.patience
    return max(0, facts.asked(group, since, now - 0.001) - facts.settled(group, since, now))


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
