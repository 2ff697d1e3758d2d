"""What must hold of growth: enough and in time, never too much, and nothing from a group that just failed."""

import math
from collections.abc import Collection, Iterator, Mapping

from tests.faults.backoffs import expected_backoffs
from tests.faults.blame import Suspicions, suspect
from tests.faults.facts import SLACK, STARTUP, TOLERATED_UNREADY, Facts, in_time, said, unregistered, unwell
from tests.faults.history import Loop, NodeSeen, Seen, is_of

from nodewright_simulator.journal import What

Findings = Iterator[str]

# A silent group is known to be silent after that long (--hedging-delay).
HEDGING_DELAY = 300.0
FEW_LOOPS = 60.0


def check_overbuying(facts: Facts) -> Findings:
    """Never more machines are asked for than pods need beyond those that are surely on their way, but for hedges and moves."""
    for loop in facts.loops:
        # It buys for the pods that it is shown; and as in CA, a taint of a sample node counts for machines to come.
        if facts.is_misled(loop.at) or facts.is_tainted(loop.at):
            continue
        asked = _asked_in(loop)
        bought = 0
        for group, total in asked.items():
            count = total - loop.hedged.get(group, 0) - loop.moved.get(group, 0)
            limits, seen = facts.groups[group], loop.seen.get(group)
            refill = max(0, seen.least - seen.target) if seen is not None else 0
            if count > refill:
                bought += (count - refill) * limits.slots - (limits.slots - 1)
        if bought <= 0:
            continue
        counted = [group for group in loop.seen if not _may_be_given_back(facts, group, loop)]
        counted = [group for group in counted if group not in facts.small_nodes.values()]
        on_their_way = sum(_surely_coming(facts, group, loop.seen[group], loop) for group in counted)
        promised = sum(facts.requests[name] for name, stage in loop.requests.items() if stage != "over")
        leaving = _pods_leaving(facts, loop)
        needed = max(0, loop.pending + leaving + promised - on_their_way)
        if bought > needed:
            yield (
                f"{loop.at:g} s: asked for room for {bought} pods ({dict(asked)}), but {loop.pending} wait, {leaving} leave"
                f" and there is room for {on_their_way} on its way"
            )


def _pods_leaving(facts: Facts, loop: Loop) -> int:
    """Return for how many pods machines may be asked because their nodes are to be replaced by a notice of the cloud: those
    for which no other node has room, so that machines which came for them end this.
    """
    leaving = sum(node.pods for machine, node in loop.nodes.items() if machine in loop.leaving)
    room = sum(_free_again(facts, machine, node) for machine, node in loop.nodes.items() if machine not in loop.leaving)
    return max(0, leaving - room)


def check_hedges(facts: Facts) -> Findings:
    """Few machines are bought twice, no more than others owe room for as seen last, and few too many if all come."""
    known: dict[str, Seen] = {}
    for loop in facts.loops:
        known |= loop.seen
        hedged, most = sum(loop.hedged.values()), max(2, len(loop.nodes) // 10)
        if not hedged:
            continue
        if hedged > most:
            yield f"{loop.at:g} s: {hedged} machines are bought twice ({loop.hedged}), and {most} may be"
        owed = sum(
            max(0, seen.without_machine + len(unregistered(seen, loop))) * facts.groups[group].most_slots
            for group, seen in known.items()
        )
        # What an engine that died may have asked for counts as on its way, and no listing shows it.
        if hedged > owed and not any(facts.is_held(group, loop.at) for group in facts.groups):
            yield f"{loop.at:g} s: {hedged} machines are bought twice ({loop.hedged}), and {owed} are on their way"
        coming = sum(_surely_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        for group, count in _asked_in(loop).items():
            coming += count * facts.groups[group].slots
        surplus = coming - loop.pending - _pods_leaving(facts, loop)
        room = (most + 1) * max(
            limits.most_slots for limits in facts.groups.values()
        ) - 1  # the last machine may be part empty
        if surplus > room and not facts.asks_for_all_or_nothing and not facts.enforces_minimum:
            yield f"{loop.at:g} s: with {loop.hedged} bought twice there is room for {surplus} pods too many"


def check_prompt_growth(facts: Facts) -> Findings:
    """While pods wait for which nothing can be on its way, and some group is beyond suspicion, it grows at once."""
    suspicions = suspect(facts)
    for number, loop in enumerate(facts.loops):
        pending = facts.pending_alone(loop)
        if not pending or _asked_in(loop):
            continue
        following = facts.loops[number + 1].at if number + 1 < len(facts.loops) else loop.ends_reads
        hindered = facts.is_paused(loop.at) or facts.shows_old_machines(loop.at)
        hindered = hindered or len(unwell(loop)) > TOLERATED_UNREADY
        if hindered or facts.crashed_between(loop.at, following) or len(loop.seen) < len(facts.groups):
            continue
        possible = sum(_perhaps_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        possible += sum(_free_again(facts, machine, node) for machine, node in loop.nodes.items())
        open_groups = [
            group
            for group, seen in loop.seen.items()
            if loop.at > suspicions.left_alone_until(group, loop.at)
            and seen.target < seen.most
            and not facts.has_wrong_size(group, loop.at)
            and not facts.is_held(group, loop.at)
        ]
        if pending > possible and open_groups:
            yield f"{loop.at:g} s: {pending} pods wait, {possible} may find room, and no increase asks {open_groups}"


def _free_again(facts: Facts, machine: str, node: NodeSeen) -> int:
    """Pods for which a node has room that the scheduler has not seen yet: it was on its way out a moment ago."""
    is_open = not (node.marked or node.cordoned or node.tainted)
    usable = node.ready and is_open and machine not in facts.small_nodes
    return max(0, node.slots - node.pods) if usable else 0


def check_probes(facts: Facts) -> Findings:
    """Pods that wait for a group on probation have machines asked for elsewhere within a few loops, where some group fits
    and as many may be bought twice.
    """
    if (
        facts.resets
        or facts.asks_for_all_or_nothing
        or not facts.history.scenario.settings.get("probe-after-backoff", True)
    ):
        return
    suspicions = suspect(facts)
    backed_off_until: dict[str, float] = {}
    alone_since: float | None = None
    for loop in facts.loops:
        backed_off_until |= loop.backed_off
        probed = {
            group for group, until in backed_off_until.items() if _is_probed(facts, group, until, loop, suspicions)
        }
        open_groups = [
            group
            for group in loop.seen.keys() - probed
            if min(suspicions.failed.get(group, [float("inf")])) > loop.at and _has_room(facts, group, loop, suspicions)
        ]
        if not (open_groups and _relies_on(facts, probed, loop)):
            alone_since = None
            continue
        alone_since = loop.at if alone_since is None else alone_since
        if loop.at - alone_since >= FEW_LOOPS:
            yield f"{loop.at:g} s: pods wait for {probed} since {alone_since:g} s, and no increase asks {open_groups}"


def _is_probed(facts: Facts, group: str, until: float, loop: Loop, suspicions: Suspicions) -> bool:
    """Return whether the group failed, was asked again, and has delivered nothing since its backoff ended."""
    seen = loop.seen.get(group)
    if seen is None or loop.at <= until or min(suspicions.shared.get(group, [float("inf")])) <= loop.at:
        return False
    since = [asked for asked in facts.history.asked if asked.group == group and until < asked.at < loop.at]
    came = any(facts.first_seen[group, machine] > until for machine in seen.there)
    if came or not all(asked.ours for asked in since) or facts.has_wrong_size(group, loop.at):
        return False
    return 0 < seen.without_machine <= sum(asked.count for asked in since)


def _has_room(facts: Facts, group: str, loop: Loop, suspicions: Suspicions) -> bool:
    """Return whether a group may be asked at once for what others owe: it is sound, not full, and not silent itself."""
    is_free = loop.at > suspicions.left_alone_until(group, loop.at) and not facts.has_wrong_size(group, loop.at)
    is_free = is_free and not facts.is_held(group, loop.at)
    is_silent = _owed(group, loop) > facts.asked(group, loop.at - HEDGING_DELAY, loop.at)
    return is_free and not is_silent and loop.seen[group].target < loop.seen[group].most


def _owed(group: str, loop: Loop) -> int:
    """Machines of the group that were asked for and are no nodes."""
    return loop.seen[group].without_machine + len(unregistered(loop.seen[group], loop))


def _relies_on(facts: Facts, probed: Collection[str], loop: Loop) -> bool:
    """Return whether pods wait that only groups on probation have machines for, while more may be bought twice."""
    hindered = facts.is_paused(loop.at) or len(unwell(loop)) > TOLERATED_UNREADY or len(loop.seen) < len(facts.groups)
    if not probed or hindered or facts.crashed_between(loop.at - FEW_LOOPS, loop.at + FEW_LOOPS):
        return False
    if any(group not in probed for group in _asked_in(loop)):
        return False
    lately = (other for other in facts.loops if loop.at - 2 * facts.patience <= other.at <= loop.at)
    if any(other.hedged for other in lately):
        return False
    elsewhere = sum(
        (_idle if group in probed else _perhaps_coming)(facts, group, seen, loop) for group, seen in loop.seen.items()
    )
    needed = loop.pending - elsewhere
    silence = loop.at - HEDGING_DELAY
    in_doubt = sum(
        _owed(group, loop)
        for group in loop.seen
        if group in probed or _owed(group, loop) > facts.asked(group, silence, loop.at)
    )
    unneeded = in_doubt - needed // max(limits.most_slots for limits in facts.groups.values())
    return needed > 0 and unneeded < max(2, len(loop.nodes) // 10)


def check_backoffs(facts: Facts) -> Findings:
    """A group that failed is not asked again for 5 minutes, then 10, 20, 30."""
    for loop, until in expected_backoffs(facts):
        for write in loop.writes:
            if write.hook == "increase_size" and loop.at <= until.get(write.group, float("-inf")):
                yield said(loop, write, f"is to be left alone until {until[write.group]:g} s")


def check_gangs(facts: Facts) -> Findings:
    """Machines are asked for a gang only if enough of its pods have room then; and a gang that runs is not broken up."""
    if not facts.gangs:
        return
    for loop in facts.loops:
        needs, asked = facts.needs(loop), _asked_in(loop)
        is_unclear = facts.is_misled(loop.at) or facts.is_tainted(loop.at) or bool(loop.hedged or loop.moved)
        # The loop ends with the first call that fails. Pods that wait alone are helped by themselves.
        is_unclear = is_unclear or any(not write.is_granted for write in loop.writes) or facts.pending_alone(loop) > 0
        if not (asked and needs) or is_unclear or facts.enforces_minimum:
            continue
        room = sum(count * facts.groups[group].most_slots for group, count in asked.items())
        room += sum(_perhaps_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        room += sum(_free_again(facts, machine, node) for machine, node in loop.nodes.items())
        if room < min(needs.values()):
            yield f"{loop.at:g} s: asked for {dict(asked)}, and with them there is room for {room} pods, but {needs} must start"
    yield from _broken_up(facts)


def _broken_up(facts: Facts) -> Findings:
    """Say which pods were evicted although too few of their gang ran then, without ending it as a whole.

    Nodes that the cloud takes at a time that it told are drained in any case.
    """
    told: dict[str, float] = {}
    for loop in facts.loops:
        told |= {
            machine.rpartition("/")[2]: min(loop.at, told.get(machine.rpartition("/")[2], loop.at))
            for machine, deadline in loop.leaving.items()
            if deadline < math.inf
        }
    for gang, least in facts.gangs.items():
        nodes: dict[str, str] = {}
        for fact in facts.history.result.journal if facts.history.result is not None else ():
            if not is_of(fact.name, gang):
                continue
            if fact.what is What.POD_STARTED:
                nodes[fact.name] = fact.where
                continue
            node = nodes.pop(fact.name, "")
            if fact.what is not What.POD_EVICTED or facts.is_misled(fact.at) or told.get(node, math.inf) <= fact.at:
                continue
            if len(nodes) + 1 >= least > len(nodes) and {*nodes.values()} - {node}:
                yield f"{fact.at:g} s: {fact.name} is evicted from {node}, and {len(nodes)} of {least} pods of {gang} are left"


def _asked_in(loop: Loop) -> Mapping[str, int]:
    """By how much each group was to grow in one loop, repeated calls counted once."""
    grown: dict[str, tuple[int, int]] = {}
    for write in loop.writes:
        if write.hook == "increase_size":
            low, high = grown.get(write.group, (write.expected, write.target))
            grown[write.group] = (min(low, write.expected), max(high, write.target))
    return {group: high - low for group, (low, high) in grown.items()}


def _may_be_given_back(facts: Facts, group: str, loop: Loop) -> bool:
    """Return whether machines of the group may be left of a request that could not be granted in full: no check may count
    on those, and the request is granted elsewhere meanwhile. It may have spanned groups, of which one failed.
    """
    if not facts.asks_for_all_or_nothing:
        return False
    lately = [other for other in facts.loops if loop.at - facts.patience < other.at <= loop.at]
    shrunk = any(w.group == group and w.hook != "increase_size" for other in lately for w in other.writes)
    return shrunk or any(until >= loop.at for until in loop.backed_off.values())


def _surely_coming(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which machines are on their way that cannot count as lost, and that no notice says are to be replaced."""
    if facts.has_wrong_size(group, loop.at):
        return 0
    machines = max(0, min(seen.without_machine, in_time(facts, group, loop.at)))
    for machine in seen.there - loop.leaving.keys():
        node = loop.nodes.get(machine)
        if node is None:
            machines += machine not in seen.disputed and facts.first_seen[group, machine] >= loop.at - facts.patience
        else:
            machines += not node.ever_ready and node.since > loop.at - STARTUP
    return machines * facts.groups[group].slots


def _perhaps_coming(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which there may be machines on their way."""
    since = loop.at - 2 * facts.patience - SLACK
    lately = facts.asked(group, since - facts.hindered(group, since, loop.at), loop.at)
    unclear = facts.last_reset(loop.at) > since or facts.has_wrong_size(group, loop.at)
    missing = seen.without_machine if unclear else min(seen.without_machine, lately)
    missing -= sum(w.expected - w.target for w in loop.writes if w.group == group and w.hook == "decrease_target_size")
    return max(0, missing) * facts.groups[group].most_slots + _idle(facts, group, seen, loop)


def _idle(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which there are machines that may become ready yet."""
    late = loop.at - facts.patience
    idle = 0
    for machine in seen.there:
        since = max(facts.first_seen[group, machine], facts.knows_since(loop.at))
        idle += not loop.nodes[machine].ready if machine in loop.nodes else since >= late
    return idle * facts.groups[group].most_slots
