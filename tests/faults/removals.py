"""What must hold of scale-down: it removes nothing that is needed, and in the end everything that is not."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.faults.facts import SLACK, TOLERATED_UNREADY, Facts, said, unwell
from tests.faults.history import Loop, NodeSeen, Write, group_of

from nodewright_simulator.scenario import TouchNodes

Findings = Iterator[str]

MINUTE = 60.0
# An idle node goes within that time after it could have been removed.
IDLE = 5 * MINUTE
# A group in which machines vanish while others are deleted loses none for so long.
QUARANTINE = 30 * MINUTE
# What is given up is gone after that time.
LASTS = 10 * MINUTE
# A machine whose move failed is not given up again for so long.
PAUSE_OF_SOURCE = 30 * MINUTE


def check_removals(facts: Facts) -> Findings:
    """A node that scale-down removes holds no pods, and was unneeded for its time: its pods fitted elsewhere meanwhile.

    The pods of a node that is given up for others fit elsewhere when it is marked. A node of which the cloud gave notice before
    it was marked may be needed; pods run on it only when the cloud takes it.
    """
    for number, loop in enumerate(facts.loops):
        for write in loop.writes:
            for doomed in write.ids if write.hook == "delete_instances" else ():
                if doomed not in write.marked:
                    continue
                decided_in = _decided_in(facts, number, doomed)
                if doomed in write.occupied and write.at < facts.taken_at.get(doomed, math.inf):
                    yield said(loop, write, f"pods run on {doomed}")
                if any(doomed in facts.loops[one].leaving for one in (decided_in, max(0, decided_in - 1))):
                    continue
                if not facts.scales_down:
                    yield said(loop, write, f"{doomed} is removed although scale-down is off")
                if not facts.trusts_its_machine:
                    yield from _needed(facts, facts.loops[: decided_in + 1], write, doomed)


def _decided_in(facts: Facts, number: int, doomed: str) -> int:
    """Return in which loop the node was marked that is removed in this one: its mark came after that loop began."""
    while number > 0 and _was_marked(facts.loops[number], doomed):
        number -= 1
    return number


def _needed(facts: Facts, loops: Sequence[Loop], write: Write, doomed: str) -> Findings:
    """Say when the node was needed within the unneeded time before it was marked, in the last of these loops."""
    decided = loops[-1]
    node = decided.nodes.get(doomed)
    if node is None:
        yield said(decided, write, f"{doomed} is no node")
        return
    if doomed in decided.given_up:
        if node.pods > _room_beside(decided, doomed) and not facts.is_misled(decided.at):
            yield said(decided, write, f"the {node.pods} pods of {doomed} fitted nowhere else at {decided.at:g} s")
        return
    times = facts.seconds("scale-down-unneeded-time"), facts.seconds("scale-down-unready-time")
    unneeded = min(times) if not node.ready or decided.at - node.last_ready < max(times) else times[0]
    if decided.at - node.since < unneeded:
        yield said(decided, write, f"{doomed} has been a node for only {decided.at - node.since:g} s")
    for loop in reversed(loops):
        if loop.at < decided.at - unneeded:
            break
        if facts.is_misled(loop.at):  # what the engine was shown of other nodes may be anything
            continue
        then = loop.nodes.get(doomed)
        if then is not None and then.pods > _room_beside(loop, doomed):
            yield said(decided, write, f"the {then.pods} pods of {doomed} fitted nowhere else at {loop.at:g} s")


def _was_marked(loop: Loop, machine: str) -> bool:
    node = loop.nodes.get(machine)
    return node is not None and node.marked


def _room_beside(loop: Loop, machine: str) -> int:
    """Return for how many pods there was room on other nodes."""
    return sum(
        max(0, node.slots - node.pods)
        for other, node in loop.nodes.items()
        if other != machine and node.ready and not (node.marked or node.cordoned or node.tainted)
    )


def check_idle_nodes_go(facts: Facts) -> Findings:
    """A node on which nothing runs goes soon after it was idle for its time, while nothing else is going on."""
    if not facts.scales_down:
        return
    delays = ("scale-down-delay-after-add", "scale-down-delay-after-delete", "scale-down-delay-after-failure")
    wait = facts.seconds("scale-down-unneeded-time") + max(map(facts.seconds, delays)) + IDLE + SLACK
    idle_since: dict[str, float] = {}
    busy_until, flapping = 0.0, _Flapping(facts.seconds("scale-down-unneeded-time"))
    for loop in facts.loops:
        if _is_busy(facts, loop):
            busy_until = loop.at
        idle = {machine for machine, node in loop.nodes.items() if _is_idle(loop, machine, node)}
        idle_since = {machine: idle_since.get(machine, loop.at) for machine in idle}
        for machine, since in idle_since.items():
            calm = max(_quarantined_until(facts, machine, loop.at), min(loop.at, flapping.until[group_of(machine)]))
            start = max(since, busy_until, facts.knows_since(loop.at), calm)
            if loop.at - start > wait + facts.hindered(group_of(machine), start, loop.at):
                yield f"{loop.at:g} s: nothing runs on {machine} since {since:g} s"
        flapping.note(loop)


def _quarantined_until(facts: Facts, machine: str, now: float) -> float:
    """Return until when nothing may be removed from the machine's group because others took machines of it."""
    mine = (asked for asked in facts.history.asked if asked.group == group_of(machine) and not asked.ours)
    return max((min(now, asked.at + QUARANTINE) for asked in mine if asked.at <= now), default=0.0)


class _Flapping:
    """Groups that needed a node again within an hour after they lost one. Nothing is removed from them for a while.

    The pause lasts the unneeded time, and twice as long after each further time.
    """

    def __init__(self, unneeded: float) -> None:
        self.until: defaultdict[str, float] = defaultdict(float)
        self._unneeded = unneeded
        self._times: Counter[str] = Counter()
        self._lost: dict[str, float] = {}

    def note(self, loop: Loop) -> None:
        """Note what the loop wrote."""
        for write in loop.writes:
            if write.ids:
                self._lost[write.group] = loop.at
            elif write.hook == "increase_size" and loop.at - self._lost.pop(write.group, -math.inf) <= 60 * MINUTE:
                self._times[write.group] += 1
                wait = self._unneeded * 2.0 ** (self._times[write.group] - 1)
                self.until[write.group] = loop.at + min(120 * MINUTE, wait)


def _is_busy(facts: Facts, loop: Loop) -> bool:
    """Return whether scale-down may wait: pods wait, machines come, nodes are unready or groups are unknown."""
    if facts.pending(loop) or len(loop.seen) < len(facts.groups) or len(unwell(loop)) > TOLERATED_UNREADY:
        return True
    return any(seen.without_machine or seen.failed for seen in loop.seen.values()) or bool(loop.requests)


def _is_idle(loop: Loop, machine: str, node: NodeSeen) -> bool:
    group = group_of(machine)
    seen = loop.seen.get(group)
    is_free = node.ready and not node.pods and machine not in loop.in_moves
    return is_free and seen is not None and seen.target > seen.least


def check_hands(facts: Facts) -> Findings:
    """A cordon or a taint that a person set stays on a node until a person takes it away."""
    touches = [event for event in facts.history.scenario.timeline if isinstance(event, TouchNodes)]
    for how in ("cordon", "taint"):
        mine = [event for event in touches if event.how == how]
        ends = [event.at + event.lasts for event in mine]
        for event in mine:  # of two that overlap, the first to end undoes both
            yield from _undone(facts, how, event.at, min(end for end in ends if end > event.at))


def _undone(facts: Facts, how: str, start: float, end: float) -> Findings:
    """Say which nodes lost between ``start`` and ``end`` what a person set at ``start``."""
    loops = [loop for loop in facts.loops if start < loop.at < end]
    for machine, node in loops[0].nodes.items() if loops else ():
        if not _has(node, how) or node.marked:  # nodewright may have cordoned it, too
            continue
        for loop in loops:
            now = loop.nodes.get(machine)
            if now is None or now.since != node.since:
                break
            if not _has(now, how):
                yield f"{loop.at:g} s: {machine} has lost the {how} that a person set at {start:g} s"
                break


def _has(node: NodeSeen, how: str) -> bool:
    return node.cordoned if how == "cordon" else node.tainted


def given_up_lately(facts: Facts, loop: Loop) -> set[str]:
    """Return the machines that were given up for others a moment ago."""
    return set().union(*(other.given_up for other in _lately(facts, loop)))


def in_moves_lately(facts: Facts, loop: Loop) -> set[str]:
    """Return the machines that a move gave up, or that came for one, a moment ago."""
    return set().union(*(other.in_moves for other in _lately(facts, loop)))


def _lately(facts: Facts, loop: Loop) -> Iterator[Loop]:
    return (other for other in facts.loops if loop.at - LASTS < other.at <= loop.at)


def still_in_moves(facts: Facts) -> set[str]:
    """Return the machines of a move that is under way at the end, or was just before."""
    return facts.loops[-1].in_moves | given_up_lately(facts, facts.loops[-1]) if facts.loops else set()


def check_moves(facts: Facts) -> Findings:
    """New machines for which others are given up cost less than these, no pod waits then that a group may grow for, and no machine
    is given up again soon.

    For machines that are too old the new ones may cost as much.
    """
    clouds = facts.history.scenario.providers.values()
    prices = {group["name"]: float(group.get("price_per_hour", 0.0)) for cloud in clouds for group in cloud["groups"]}
    tried: dict[str, float] = {}
    for loop in facts.loops:
        if not loop.moved:
            continue
        room = _room_for_growth(facts, loop)
        helped = facts.pending_alone(loop) or any(need <= room for need in facts.needs(loop).values())
        if helped and room and not facts.is_misled(loop.at):
            yield f"{loop.at:g} s: asks for {loop.moved} to give up {loop.given_up}, and {facts.pending(loop)} pods wait"
        before = sum(prices[group_of(machine)] for machine in loop.given_up)
        after = sum(prices[group] * count for group, count in loop.moved.items())
        if after >= before and not loop.renewed:
            yield f"{loop.at:g} s: {loop.moved} cost ${after:g} an hour, and {loop.given_up} ${before:g}"
        for machine in loop.given_up:
            last = tried.get(machine, float("-inf"))
            if loop.at - last < PAUSE_OF_SOURCE and facts.last_reset(loop.at) < last:
                yield f"{loop.at:g} s: {machine} is given up again, {loop.at - last:g} s after the last time"
            tried[machine] = loop.at


def _room_for_growth(facts: Facts, loop: Loop) -> int:
    """Return for how many pods groups may grow at most, by their sizes and by what the engine tells of their backoffs.

    Where machines are smaller than told, the engine learns for which pods a group is of no use.
    """
    if facts.cloud.get("small_machines"):
        return 0
    open_groups = {group: seen for group, seen in loop.seen.items() if group not in loop.backed_off}
    return sum(max(0, one.most - one.target) * facts.groups[group].most_slots for group, one in open_groups.items())


def check_left_behind(facts: Facts) -> Findings:
    """At the end no node is marked that is not removed, and none is idle that its group need not have, but for moves."""
    if not facts.scales_down:
        return
    last = facts.loops[-1].at if facts.loops else 0.0
    for machine, node in facts.history.nodes.items():
        if machine in still_in_moves(facts) or node.since > last:  # no loop has seen what came after the last one
            continue
        group = group_of(machine)
        if node.marked:
            yield f"at the end {machine} is marked and not removed"
        if not node.pods and facts.history.targets[group] > facts.groups[group].least:
            yield f"at the end nothing runs on {machine}"
