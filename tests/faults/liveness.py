"""What must happen in the end: no pod starves beside a sound group, no stop outlives its bound, no bystander is punished."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.faults.blame import Suspicions, suspect
from tests.faults.facts import SLACK, STARTUP, Facts, last_registered, unregistered
from tests.faults.history import Loop, is_of

Findings = Iterator[str]

TEN_LOOPS = 100.0
LONGEST_BACKOFF = 1800.0


@dataclass
class _Waits:
    """Since when what waits has waited, and since when each group has been sound with room for so many pods, both
    without a break. A gang waits as one; ``needs``: how many pods of it had to find room, at most.
    """

    items: dict[str, float] = field(default_factory=dict)
    needs: dict[str, int] = field(default_factory=dict)
    sound: dict[tuple[str, int], float] = field(default_factory=dict)
    asked: dict[str, float] = field(default_factory=dict)
    starting: float = float("-inf")
    joined: float = float("-inf")

    def note(self, facts: Facts, loop: Loop, suspicions: Suspicions) -> None:
        requested = [name for name, stage in loop.requests.items() if stage == "waiting"]
        gangs = facts.needs(loop)
        alone = [pod for pod in loop.waiting if not any(is_of(pod, gang) for gang in facts.gangs)]
        self.items = {item: self.items.get(item, loop.at) for item in (*alone, *requested, *gangs)}
        self.needs |= {gang: max(count, self.needs.get(gang, 0)) for gang, count in gangs.items()}
        sizes = {1, *facts.requests.values(), *self.needs.values()}
        sound = [(g, size) for g in facts.groups for size in sizes if _is_sound(facts, g, size, loop, suspicions)]
        self.sound = {place: self.sound.get(place, loop.at) for place in sound}
        # As in cluster-autoscaler, a node that breaks within its startup time counts as starting until that is over.
        slow = [node for node in loop.nodes.values() if not node.ready and loop.at - node.since > SLACK]
        self.starting = max([self.starting, *(min(loop.at, node.since + STARTUP) for node in slow)])
        owing = (seen for group, seen in loop.seen.items() if unregistered(seen, loop) or seen.without_machine)
        self.joined = max([self.joined, *(last_registered(seen, loop) for seen in owing)])
        self.asked |= {write.group: loop.at for write in loop.writes if write.hook == "increase_size"}


def check_starvation(facts: Facts) -> Findings:
    """What waits and fits a sound group has machines asked for there, once each other group has had its time."""
    suspicions = suspect(facts)
    waits = _Waits()
    for loop in facts.loops:
        waits.note(facts, loop, suspicions)
        if not (waits.items and waits.sound):
            continue
        needs = {item: facts.requests.get(item, waits.needs.get(item, 1)) for item in waits.items}
        for size in {*needs.values()}:
            sound = {group: since for (group, room), since in waits.sound.items() if room == size}
            if not sound:
                continue
            idle = [group for group in sound if waits.asked.get(group, -1.0) < loop.at - facts.patience]
            others = max(1, len(facts.groups) - len(idle))
            # A machine that registers moves the deadline of those asked for with it, once.
            time = facts.patience * (2 if waits.joined >= loop.at - 2 * others * facts.patience else 1)
            startup = STARTUP if waits.starting >= loop.at - others * (facts.patience + STARTUP) else 0.0
            since = facts.calm_since(loop.at, others * (time + startup) + TEN_LOOPS + SLACK)
            if facts.knows_since(loop.at) > since:  # who forgot everything gives each group its time again
                continue
            starving = [i for i, began in waits.items.items() if began <= since and needs[i] == size]
            open_groups = [group for group, began in sound.items() if began <= since]
            if starving and open_groups and max(waits.asked.get(group, -1.0) for group in open_groups) <= since:
                yield f"{loop.at:g} s: {starving} wait since {since:g} s or longer, and no increase asks {open_groups}"


def _is_sound(facts: Facts, group: str, pods: int, loop: Loop, suspicions: Suspicions) -> bool:
    """Is the group readable, with room, and at fault for nothing that may still count?"""
    seen, limits = loop.seen.get(group), facts.groups[group]
    if seen is None or seen.most - seen.target < pods / limits.slots or facts.has_wrong_size(group, loop.at):
        return False
    return loop.at > suspicions.left_alone_until(group, loop.at)


def check_bystanders(facts: Facts) -> Findings:
    """A group that is backed off was at fault, or shares what the cloud reported."""
    suspicions = suspect(facts)
    for loop in facts.loops:
        for group, until in loop.backed_off.items():
            # Who begins with what is out of date takes what changed since for machines that were taken back.
            if group not in facts.groups or facts.found_old_state(until - LONGEST_BACKOFF, loop.at):
                continue
            if loop.at > suspicions.backed_off_until(group, loop.at):
                yield f"{loop.at:g} s: {group} is backed off until {until:g} s for nothing that it has done"


def check_reads(facts: Facts) -> Findings:
    """A group is read again soon after nothing keeps the cloud from answering."""
    unread: dict[str, float] = {}
    for loop in facts.loops:
        missing = [group for group in facts.groups if group not in loop.seen and not facts.is_absent(group, loop.at)]
        unread = {group: unread.get(group, loop.at) for group in missing}
        for group, since in unread.items():
            if loop.at - since > SLACK + facts.hindered(group, since, loop.at):
                yield f"{loop.at:g} s: {group} cannot be read since {since:g} s"
