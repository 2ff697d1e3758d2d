"""What must hold in every run, told from the cloud's log and the pods alone: nothing here is the engine's own code."""

import math
from collections.abc import Callable, Iterator, Mapping

from tests.faults.facts import (
    SLACK,
    STARTUP,
    TOLERATED_SHARE,
    TOLERATED_UNREADY,
    UNHEALTHY,
    Facts,
    hedged_lately,
    in_time,
    last_registered,
    said,
    unregistered,
    unwell,
)
from tests.faults.growth import (
    check_backoffs,
    check_gangs,
    check_hedges,
    check_overbuying,
    check_probes,
    check_prompt_growth,
)
from tests.faults.history import Loop, NodeSeen, Seen, Write
from tests.faults.liveness import check_bystanders, check_reads, check_starvation
from tests.faults.removals import (
    check_hands,
    check_idle_nodes_go,
    check_left_behind,
    check_moves,
    check_removals,
    in_moves_lately,
    still_in_moves,
)
from tests.faults.schedules import MINUTE
from tests.faults.vain import check_vain_purchases

Findings = Iterator[str]

# So long before the end every backoff has ended, and everything has come to rest.
REST = 30 * MINUTE
RETRY = 5 * MINUTE
# So many machines may be deleted within that time.
BUDGET, BUDGET_WINDOW = 10, 10 * MINUTE


def check_targets(facts: Facts) -> Findings:
    """A size that is written lies within the group's limits, and was asked for knowing what the size is."""
    for loop, write in _writes(facts):
        seen = loop.seen.get(write.group)
        if seen is None:
            continue
        if write.hook == "increase_size" and write.target > seen.most:
            yield said(loop, write, "above the maximum")
        if write.hook == "decrease_target_size" and write.target < len(seen.there):
            yield said(loop, write, f"below the {len(seen.there)} machines that are there")
        known = _size_known(loop, write, seen)
        if known is not None and write.expected != known:
            yield said(loop, write, f"expects {write.expected}, but the size is known to be {known}")


def check_unknown(facts: Facts) -> Findings:
    """A group whose size or machines could not be read is not written to."""
    for loop, write in _writes(facts):
        if write.group not in loop.seen:
            yield said(loop, write, "to a group that could not be read")


def check_deletions(facts: Facts) -> Findings:
    """Only failures are deleted, and machines that were no nodes for as long as they may be: less in a full group."""
    was_node: dict[str, float] = {}
    for loop in facts.loops:
        was_node |= dict.fromkeys(loop.nodes, loop.at)
        for write in loop.writes:
            seen = loop.seen.get(write.group)
            for doomed in write.ids if seen is not None else ():
                # A request that cannot be granted in full gives back at once what it got, where nothing runs.
                if facts.asks_for_all_or_nothing and doomed not in write.occupied:
                    continue
                if doomed not in write.nodes:
                    yield from _too_early(facts, loop, write, doomed, was_node.get(doomed, 0.0))
                elif doomed not in write.marked:  # scale-down marks its nodes: those are for check_removals
                    yield from _undue(loop, write, doomed)


def _too_early(facts: Facts, loop: Loop, write: Write, doomed: str, was_node: float) -> Findings:
    """A machine that has not failed may be deleted once it has had no node for its time; it last had one at ``was_node``."""
    seen = loop.seen[write.group]
    if _is_failed(doomed, seen) or write.phases.get(doomed) in ("failed", None):
        return
    if facts.resets and doomed in seen.disputed:  # that it ran, and was no node yet, may be forgotten
        return
    age = loop.at - max(facts.first_seen.get((write.group, doomed), loop.at), was_node)
    if age <= facts.patience * _times_at_least(facts, loop, write.group, age):
        yield said(loop, write, f"{doomed} has been without a node for only {age:g} s")


def _is_failed(doomed: str, seen: Seen) -> bool:
    return doomed in seen.failed or any(doomed == failure.instance_id for failure in seen.failed.values())


def _undue(loop: Loop, write: Write, doomed: str) -> Findings:
    """A node may be deleted if it never was ready, has had its time for that, and no pod runs on it."""
    node = loop.nodes.get(doomed)
    if node is None or node.ever_ready:
        yield said(loop, write, f"{doomed} is a node")
    elif doomed in write.occupied:
        yield said(loop, write, f"pods run on {doomed}")
    else:
        age, seen = loop.at - node.since, loop.seen[write.group]
        wanted = loop.pending and seen.target >= seen.most
        if age <= STARTUP * (1 if wanted else _times_to_start(seen, loop, node)):
            yield said(loop, write, f"{doomed} has been a node for only {age:g} s")


def _times_to_start(seen: Seen, loop: Loop, node: NodeSeen) -> int:
    """Startup times of a node that never was ready: twice as many if another of its group is ready that came later."""
    others = (loop.nodes[machine] for machine in seen.there if machine in loop.nodes)
    return 4 if any(other.ready and other.since > node.since for other in others) else 2


def check_never_ready_go(facts: Facts) -> Findings:
    """A node that never becomes ready goes in time, one after the other, as far as the minimum allows."""
    held_until: dict[str, float] = {}
    for loop in facts.loops:
        for group, seen in loop.seen.items():
            if seen.target <= seen.least:
                held_until[group] = loop.at
            for machine in seen.there & loop.nodes.keys():
                node = loop.nodes[machine]
                if node.ever_ready or loop.at - held_until.get(group, 0.0) < SLACK + 30 * len(seen.there):
                    continue
                since = max(node.since, facts.knows_since(loop.at))
                bound = 4 * STARTUP + SLACK + 30 * len(seen.there) + facts.hindered(group, since, loop.at)
                if loop.at - since > bound:
                    yield f"{loop.at:g} s: {machine} is not ready since {since:g} s"


def check_withdrawals(facts: Facts) -> Findings:
    """What was asked for within the last provision time is not withdrawn, but for hedges that no pod needs any more."""
    for loop, write in _writes(facts):
        seen = loop.seen.get(write.group)
        if write.hook != "decrease_target_size" or seen is None or facts.has_wrong_size(write.group, loop.at):
            continue
        if facts.asks_for_all_or_nothing:  # the rest of a request that cannot be granted in full is given back at once
            continue
        if facts.found_old_state(
            loop.at - SLACK, loop.at
        ):  # what an older request awaits looks like what was asked since
            continue
        left = max(0, seen.without_machine - (write.expected - write.target))
        due = min(seen.without_machine, in_time(facts, write.group, loop.at)) - hedged_lately(
            facts, write.group, loop.at
        )
        if left < due:
            yield said(loop, write, f"leaves {left} of {due} machines that are still in time")


def check_failures_go(facts: Facts) -> Findings:
    """A failed machine is deleted within a few loops."""
    for loop in facts.loops:
        for group, seen in loop.seen.items():
            for failure in seen.failed:
                since = max(facts.first_seen[group, failure], facts.knows_since(loop.at))
                if loop.at - since > SLACK + facts.hindered(group, since, loop.at):
                    yield f"{loop.at:g} s: {failure} of {group} has been there since {since:g} s"


def check_requests_end(facts: Facts) -> Findings:
    """What was asked for comes, fails or is withdrawn within the provision time, or twice that if some of it came."""
    for loop in facts.loops:
        for group, seen in loop.seen.items():
            if facts.has_wrong_size(group, loop.at):
                continue
            since = facts.unhindered(group, loop.at, 2 * facts.patience + RETRY + SLACK)
            # Only arrivals extend a deadline.
            if not facts.settled(group, since, loop.at) and last_registered(seen, loop) < since:
                since = facts.unhindered(group, loop.at, facts.patience + SLACK)
            if facts.knows_since(loop.at) >= since:
                continue
            recent = facts.asked(group, since, loop.at)
            if seen.without_machine > recent and since > 0:
                yield f"{loop.at:g} s: {group} waits for {seen.without_machine}, only {recent} asked since {since:g} s"


def check_tries_again(facts: Facts) -> Findings:
    """A withdrawal that changed nothing is tried again after five minutes, as long as nothing else happens.

    That of a hedge need not be: its machines may be wanted again.
    """
    for number, loop in enumerate(facts.loops):
        for write in loop.writes:
            if write.hook == "decrease_target_size" and not write.accepted and write.error != "TargetChanged":
                waited = _idle_after(facts, number, write)
                if waited > RETRY + SLACK and not hedged_lately(facts, write.group, loop.at):
                    yield said(loop, write, f"had no effect, and is not tried again for {waited:g} s")


def _idle_after(facts: Facts, number: int, write: Write) -> float:
    """For how long after that write the group stays as it was and is not written to, with nothing in the way."""
    began, before = facts.loops[number], facts.loops[number].seen.get(write.group)
    waited = 0.0
    for loop in facts.loops[number + 1 :]:
        seen = loop.seen.get(write.group)
        if before is None or seen is None or (seen.target, seen.there) != (before.target, before.there):
            break
        if (
            facts.is_paused(loop.at)
            or len(unwell(loop)) > TOLERATED_UNREADY
            or facts.crashed_between(began.at, loop.at)
        ):
            break
        if any(other.group == write.group for other in loop.writes) or facts.has_wrong_size(write.group, loop.at):
            break
        waited = loop.at - began.at
    return waited


def check_strangers_go(facts: Facts) -> Findings:
    """A machine that is no node in time is deleted, one after the other, as far as the minimum allows."""
    held: set[str] = set()
    was_node: dict[str, float] = {}
    most = 0
    free_since, joined = dict[str, float](), dict[str, float]()
    for loop in facts.loops:
        most = max(most, sum(len(seen.there) for seen in loop.seen.values()))
        was_node |= dict.fromkeys(loop.nodes, loop.at)
        for group, seen in loop.seen.items():
            joined[group] = max(joined.get(group, 0.0), last_registered(seen, loop))
            if group in held:
                free_since[group] = loop.at
            (held.add if seen.target <= seen.least else held.discard)(group)
            for machine in unregistered(seen, loop):
                # A machine's clock starts when its group is read, even while another group cannot be read.
                began = max(
                    facts.first_seen[group, machine],
                    was_node.get(machine, 0.0),
                    facts.knows_since(loop.at, [group]),
                )
                since = max(began, facts.knows_since(loop.at))
                if loop.at - free_since.get(group, 0.0) < SLACK:
                    continue
                time = _times_to_join(joined[group], began) * facts.patience
                bound = time + SLACK + 30 * len(seen.there) + facts.hindered(group, since, loop.at)
                if facts.resets:  # an engine that forgot which machines never ran counts them in its deletion budget
                    bound += BUDGET_WINDOW * (most // BUDGET)
                if loop.at - since > bound:
                    yield f"{loop.at:g} s: {machine} is no node since {since:g} s"


def _times_at_least(facts: Facts, loop: Loop, group: str, age: float) -> int:
    """Provision times that a machine of that age must have been left; who forgot everything saw it later."""
    seen = loop.seen[group]
    if loop.pending and seen.target >= seen.most:
        return 1
    if facts.is_misled(loop.at):  # an old list does not show that others joined
        return 2
    return _times_to_join(last_registered(seen, loop), max(loop.at - age, facts.knows_since(loop.at)))


def _times_to_join(joined: float, since: float) -> int:
    """Provision times of a machine seen ``since``: twice as many if another of its group has joined later."""
    return 4 if joined > since else 2


def check_pauses(facts: Facts) -> Findings:
    """Nothing is written during a pause."""
    for loop, write in _writes(facts):
        # An engine that comes back to an empty store finds no order.
        ordered = [(start, end) for start, end in facts.pauses if facts.last_reset(loop.at) < start < loop.at]
        if ordered and write.at < ordered[-1][1]:
            yield said(loop, write, f"during the pause until {ordered[-1][1]:g} s")


def check_full_disk(facts: Facts) -> Findings:
    """Nothing is asked of a cloud that could not be saved before: a new engine would not know of it.

    A disk that fills up, or is emptied, while a slow read lets a loop last long counts from the next loop on.
    """
    for loop, write in _writes(facts):
        if write.hook == "increase_size" and any(start < loop.at < end for start, end in facts.full_disks):
            yield said(loop, write, "while no state can be saved")


def check_unhealthy(facts: Facts) -> Findings:
    """While too many nodes are not ready, only machines that never registered or were never ready are deleted.

    Nodes that never were ready do not count, and it lasts no longer than the time after which others go on.
    """
    began: float | None = None
    for loop in facts.loops:
        overdue = [node for node in loop.nodes.values() if not node.ready and node.since < loop.at - STARTUP]
        sick = [node for node in overdue if node.ever_ready]
        nodes = len(loop.nodes) - len(overdue) + len(sick)
        if len(sick) <= max(TOLERATED_UNREADY, TOLERATED_SHARE * nodes):
            began = None
            continue
        began = loop.at if began is None else began
        for write in loop.writes if loop.at - began <= UNHEALTHY else ():
            seen = loop.seen.get(write.group)
            if write.hook != "delete_instances" or (seen is not None and not seen.failed.keys().isdisjoint(write.ids)):
                yield said(loop, write, f"although {len(sick)} of {nodes} nodes are unready")


def check_rest(facts: Facts) -> Findings:
    """Once nothing goes wrong any more every pod that fits runs, nothing is on its way, and nothing is written but for moves:
    machines that replaced others may be given up themselves hours later, and those that came in vain are removed.
    """
    result = facts.history.result
    if result is None:
        return
    small = {*facts.small_nodes.values()}
    room = sum(limits.slots * limits.most for group, limits in facts.groups.items() if group not in small)
    missing = result.final.pending - max(0, result.final.pending + result.final.running - room)
    last = facts.loops[-1]
    # A gang starts as a whole, or it waits.
    if missing > 0 and (facts.pending_alone(last) or missing >= min(facts.needs(last).values(), default=math.inf)):
        yield f"at the end {missing} pods wait that would fit"
    for group, limits in facts.groups.items():
        if facts.enforces_minimum and facts.history.targets[group] < limits.least:
            yield f"at the end {group} is below its minimum of {limits.least}"
    for loop, write in _writes(facts):
        of_moves = write.ids and in_moves_lately(facts, loop).issuperset(write.ids)
        if loop.at > _rests_from(facts) and write.group not in loop.moved and not of_moves:
            yield said(loop, write, "long after everything was over")
    yield from _left_at_rest(facts)


def _rests_from(facts: Facts) -> float:
    return facts.history.scenario.duration - REST


def _left_at_rest(facts: Facts) -> Findings:
    given_up: dict[str, float] = {}
    for loop in facts.loops:
        given_up = {machine: given_up.get(machine, loop.at) for machine in loop.given_up}
    # The simulator leaves out loops in which nothing can happen: a move may begin in the only one of the last half hour.
    stuck = {machine for machine, since in given_up.items() if since <= _rests_from(facts)}
    if stuck:
        yield f"at the end {stuck} are being given up for half an hour"
    since = facts.history.scenario.duration - facts.patience
    awaited = {group for loop in facts.loops if loop.at > since for group in loop.moved}
    for machine, (group, phase) in facts.history.machines.items():
        # Without --force-delete-unregistered-nodes the minimum protects machines that never became nodes, too.
        kept = facts.history.targets[group] <= facts.groups[group].least
        if machine in still_in_moves(facts) or (group in awaited and machine not in facts.history.nodes):
            continue
        if phase != "running" or (machine not in facts.history.nodes and not kept):
            yield f"at the end {machine} is {phase} and no node"


def check_own_words(facts: Facts) -> Findings:
    """The engine never finds that its own plan breaks a rule."""
    result = facts.history.result
    if result is not None and not facts.is_ever_misled:  # of nodes that are gone only this check knows
        yield from result.violations


def _writes(facts: Facts) -> Iterator[tuple[Loop, Write]]:
    for loop in facts.loops:
        for write in loop.writes:
            yield loop, write


def _size_known(loop: Loop, write: Write, seen: Seen) -> int | None:
    """The group's size as it was read, and changed by what was answered since; None after a call without answer."""
    size = seen.target
    for earlier in loop.writes:
        if earlier is write:
            break
        if earlier.group == write.group:
            if earlier.answered is None:
                return None
            size += earlier.accepted if earlier.hook == "increase_size" else -earlier.accepted
    return size


Invariant = Callable[[Facts], Findings]
INVARIANTS: Mapping[str, Invariant] = {
    check.__name__.removeprefix("check_").replace("_", " "): check
    for check in (
        check_targets,
        check_unknown,
        check_deletions,
        check_withdrawals,
        check_overbuying,
        check_hedges,
        check_prompt_growth,
        check_probes,
        check_backoffs,
        check_failures_go,
        check_requests_end,
        check_tries_again,
        check_strangers_go,
        check_never_ready_go,
        check_pauses,
        check_full_disk,
        check_unhealthy,
        check_gangs,
        check_starvation,
        check_bystanders,
        check_reads,
        check_removals,
        check_idle_nodes_go,
        check_left_behind,
        check_hands,
        check_moves,
        check_vain_purchases,
        check_rest,
        check_own_words,
    )
}

# What holds independent of the wall clock. The others count minutes.
TIMELESS = (
    "targets",
    "unknown",
    "full disk",
    "reads",
    "removals",
    "left behind",
    "hands",
    "vain purchases",
    "rest",
    "own words",
)


def invariants_for(facts: Facts) -> Mapping[str, Invariant]:
    """Return the invariants that hold in this run."""
    return {name: INVARIANTS[name] for name in TIMELESS} if facts.trusts_its_machine else INVARIANTS
