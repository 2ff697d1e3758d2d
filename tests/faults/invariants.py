"""What must hold in every run, told from the cloud's log and the pods alone: nothing here is the engine's own code."""

from collections.abc import Callable, Iterator, Mapping

from tests.faults.backoffs import expected_backoffs
from tests.faults.facts import STARTUP, TOLERATED_SHARE, TOLERATED_UNREADY, Facts, unready, unregistered
from tests.faults.schedules import DURATION, MINUTE
from tests.faults.witness import Loop, Seen, Write

Findings = Iterator[str]

# By then every backoff has ended and everything has come to rest.
REST = DURATION - 30 * MINUTE
RETRY = 5 * MINUTE
SLACK = 2 * MINUTE


def check_targets(facts: Facts) -> Findings:
    """A size that is written lies within the group's limits, and was asked for knowing what the size is."""
    for loop, write in _writes(facts):
        seen = loop.seen.get(write.group)
        if seen is None:
            continue
        if write.hook == "increase_size" and write.target > facts.groups[write.group].most:
            yield _said(loop, write, "above the maximum")
        if write.hook == "decrease_target_size" and write.target < len(seen.there):
            yield _said(loop, write, f"below the {len(seen.there)} machines that are there")
        first = next(other for other in loop.writes if other.group == write.group)
        if first is write and write.expected != seen.target:
            yield _said(loop, write, f"expects {write.expected}, but the size was read as {seen.target}")


def check_unknown(facts: Facts) -> Findings:
    """A group whose size or machines could not be read is not written to."""
    for loop, write in _writes(facts):
        if write.group not in loop.seen:
            yield _said(loop, write, "to a group that could not be read")


def check_deletions(facts: Facts) -> Findings:
    """Only failures are deleted, and machines that have been without a node for a whole provision time."""
    for loop, write in _writes(facts):
        seen = loop.seen.get(write.group)
        for doomed in write.ids if seen is not None else ():
            if doomed in write.nodes:
                yield _said(loop, write, f"{doomed} is a node")
            elif seen is not None and doomed not in seen.failed and write.phases.get(doomed) not in ("failed", None):
                age = loop.at - facts.first_seen.get((write.group, doomed), loop.at)
                if age <= facts.patience:
                    yield _said(loop, write, f"{doomed} has been there for only {age:g} s")


def check_withdrawals(facts: Facts) -> Findings:
    """What was asked for within the last provision time is not withdrawn."""
    for loop, write in _writes(facts):
        seen = loop.seen.get(write.group)
        if write.hook != "decrease_target_size" or seen is None or facts.has_wrong_size(write.group, loop.at):
            continue
        left = seen.without_machine - (write.expected - write.target)
        due = min(seen.without_machine, _surely_awaited(facts, write.group, loop.at))
        if left < due:
            yield _said(loop, write, f"leaves {left} of {due} machines that are still in time")


def check_overbuying(facts: Facts) -> Findings:
    """Never more machines are asked for than pods need beyond those that are surely on their way."""
    for loop in facts.loops:
        asked = _asked_in(loop)
        bought = 0
        for group, count in asked.items():
            limits, seen = facts.groups[group], loop.seen.get(group)
            refill = max(0, limits.least - seen.target) if seen is not None else 0
            if count > refill:
                bought += (count - refill) * limits.slots - (limits.slots - 1)
        on_their_way = sum(_surely_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        needed = max(0, loop.pending - on_their_way)
        if bought > needed:
            yield (
                f"{loop.at:g} s: asked for room for {bought} pods ({dict(asked)}), but {loop.pending} wait"
                f" and there is room for {on_their_way} on its way"
            )


def check_prompt_growth(facts: Facts) -> Findings:
    """While pods wait for which nothing can be on its way, and some group is beyond suspicion, it grows at once."""
    suspects = _suspects(facts)
    for number, loop in enumerate(facts.loops):
        following = facts.loops[number + 1].at if number + 1 < len(facts.loops) else loop.ends_reads
        hindered = facts.is_paused(loop.at) or len(unready(loop)) > TOLERATED_UNREADY
        if hindered or facts.crashed_between(loop.at, following) or len(loop.seen) < len(facts.groups):
            continue
        possible = sum(_perhaps_coming(facts, group, seen, loop) for group, seen in loop.seen.items())
        open_groups = [
            group
            for group, seen in loop.seen.items()
            if not any(at <= loop.at <= at + 40 * MINUTE for at in suspects.get(group, ()))
            and seen.target < facts.groups[group].most
            and not facts.has_wrong_size(group, loop.at)
        ]
        if loop.pending > possible and open_groups and not _asked_in(loop):
            yield f"{loop.at:g} s: {loop.pending} pods wait, {possible} may find room, and nobody asks {open_groups}"


def check_backoffs(facts: Facts) -> Findings:
    """A group that failed is not asked again for 5 minutes, then 10, 20, 30."""
    for loop, until in expected_backoffs(facts):
        for write in loop.writes:
            if write.hook == "increase_size" and loop.at <= until.get(write.group, float("-inf")):
                yield _said(loop, write, f"is to be left alone until {until[write.group]:g} s")


def check_failures_go(facts: Facts) -> Findings:
    """A failed machine is deleted within a few loops."""
    for loop in facts.loops:
        for group, seen in loop.seen.items():
            for failure in seen.failed:
                since = max(facts.first_seen[group, failure], facts.last_reset(loop.at))
                if loop.at - since > SLACK + facts.hindered(since, loop.at):
                    yield f"{loop.at:g} s: {failure} of {group} has been there since {since:g} s"


def check_requests_end(facts: Facts) -> Findings:
    """What was asked for comes, fails or is withdrawn within the provision time, or twice that if some of it came."""
    for loop in facts.loops:
        for group, seen in loop.seen.items():
            if facts.has_wrong_size(group, loop.at):
                continue
            since = facts.unhindered(loop.at, 2 * facts.patience + RETRY + SLACK)
            if not facts.settled(group, since, loop.at):  # only arrivals extend a deadline
                since = facts.unhindered(loop.at, facts.patience + SLACK)
            if facts.last_reset(loop.at) >= since:
                continue
            recent = facts.asked(group, since, loop.at)
            if seen.without_machine > recent and since > 0:
                yield f"{loop.at:g} s: {group} waits for {seen.without_machine}, only {recent} asked since {since:g} s"


def check_strangers_go(facts: Facts) -> Findings:
    """A machine that is no node in time is deleted, one after the other, as far as the minimum allows."""
    held: set[str] = set()
    free_since: dict[str, float] = {}
    for loop in facts.loops:
        for group, seen in loop.seen.items():
            if group in held:
                free_since[group] = loop.at
            (held.add if seen.target <= facts.groups[group].least else held.discard)(group)
            for machine in unregistered(seen, loop):
                since = max(facts.first_seen[group, machine], facts.last_reset(loop.at))
                if loop.at - free_since.get(group, 0.0) < SLACK:
                    continue
                bound = facts.patience + SLACK + 30 * len(seen.there) + facts.hindered(since, loop.at)
                if loop.at - since > bound:
                    yield f"{loop.at:g} s: {machine} is no node since {since:g} s"


def check_pauses(facts: Facts) -> Findings:
    """Nothing is written while somebody has ordered a pause."""
    for loop, write in _writes(facts):
        ordered = [(start, end) for start, end in facts.pauses if start < loop.at]
        if ordered and loop.at < max(ordered)[1]:
            yield _said(loop, write, f"during the pause until {max(ordered)[1]:g} s")


def check_unhealthy(facts: Facts) -> Findings:
    """While too many nodes are not ready, only machines that never registered are deleted."""
    for loop, write in _writes(facts):
        unwell = [node for node in loop.nodes.values() if not node.ready and node.since < loop.at - STARTUP]
        if len(unwell) <= max(TOLERATED_UNREADY, TOLERATED_SHARE * len(loop.nodes)):
            continue
        seen = loop.seen.get(write.group)
        if write.hook != "delete_instances" or (seen is not None and not seen.failed.keys().isdisjoint(write.ids)):
            yield _said(loop, write, f"although {len(unwell)} of {len(loop.nodes)} nodes are unready")


def check_rest(facts: Facts) -> Findings:
    """Once nothing goes wrong any more every pod that fits runs, nothing is on its way, and nothing is written."""
    result = facts.history.result
    if result is None:
        return
    room = sum(limits.slots * limits.most for limits in facts.groups.values())
    missing = result.final.pending - max(0, result.final.pending + result.final.running - room)
    if missing > 0:
        yield f"at the end {missing} pods wait that would fit"
    for group, limits in facts.groups.items():
        if facts.enforces_minimum and facts.history.targets[group] < limits.least:
            yield f"at the end {group} is below its minimum of {limits.least}"
    for loop, write in _writes(facts):
        if loop.at > REST:
            yield _said(loop, write, "long after everything was over")
    for machine, (group, phase) in facts.history.machines.items():
        # Without --force-delete-unregistered-nodes the minimum protects machines that never became nodes, too.
        kept = facts.history.targets[group] <= facts.groups[group].least
        if phase != "running" or (machine not in facts.history.nodes and not kept):
            yield f"at the end {machine} is {phase} and no node"


def check_own_words(facts: Facts) -> Findings:
    """The engine never finds that its own plan breaks a rule."""
    result = facts.history.result
    yield from result.violations if result is not None else ()


def _writes(facts: Facts) -> Iterator[tuple[Loop, Write]]:
    for loop in facts.loops:
        for write in loop.writes:
            yield loop, write


def _said(loop: Loop, write: Write, why: str) -> str:
    what = f"{write.expected} → {write.target}" if not write.ids else ", ".join(write.ids)
    return f"{loop.at:g} s: {write.hook} of {write.group} ({what}): {why}"


def _asked_in(loop: Loop) -> Mapping[str, int]:
    """By how much each group was to grow in one loop, repeated calls counted once."""
    grown: dict[str, tuple[int, int]] = {}
    for write in loop.writes:
        if write.hook == "increase_size":
            low, high = grown.get(write.group, (write.expected, write.target))
            grown[write.group] = (min(low, write.expected), max(high, write.target))
    return {group: high - low for group, (low, high) in grown.items()}


def _surely_awaited(facts: Facts, group: str, now: float) -> int:
    """Machines asked for within the last provision time that can neither have come, nor failed, nor been withdrawn."""
    since = now - facts.patience
    return max(0, facts.asked(group, since, now - 0.001) - facts.settled(group, since, now))


def _surely_coming(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which machines are on their way that nobody can take for lost."""
    if facts.has_wrong_size(group, loop.at):
        return 0
    machines = max(0, min(seen.without_machine, _surely_awaited(facts, group, loop.at)))
    for machine in seen.there:
        node = loop.nodes.get(machine)
        if node is None:
            machines += facts.first_seen[group, machine] >= loop.at - facts.patience
        else:
            machines += not node.ever_ready and node.since > loop.at - STARTUP
    return machines * facts.groups[group].slots


def _perhaps_coming(facts: Facts, group: str, seen: Seen, loop: Loop) -> int:
    """Pods for which there may be machines on their way."""
    since = loop.at - 2 * facts.patience - SLACK
    lately = facts.asked(group, since - facts.hindered(since, loop.at), loop.at)
    unclear = facts.last_reset(loop.at) > since or facts.has_wrong_size(group, loop.at)
    missing = seen.without_machine if unclear else min(seen.without_machine, lately)
    missing -= sum(w.expected - w.target for w in loop.writes if w.group == group and w.hook == "decrease_target_size")
    idle = sum(1 for machine in seen.there if machine not in loop.nodes or not loop.nodes[machine].ready)
    return (max(0, missing) + idle) * facts.groups[group].slots


def _suspects(facts: Facts) -> Mapping[str, list[float]]:
    """When each group may have been backed off: any failure, however far it reached, is one of all groups."""
    found: dict[str, list[float]] = {}
    for loop in facts.loops:
        failed = [w for w in loop.writes if w.hook == "increase_size" and (w.error or not w.answered)]
        seen_failing = any(facts.first_seen[g, f] == loop.at for g, seen in loop.seen.items() for f in seen.failed)
        if seen_failing or any(w.scope != "group" for w in failed):
            for group in facts.groups:
                found.setdefault(group, []).append(loop.at)
        for write in failed:
            found.setdefault(write.group, []).append(loop.at)
        for group, seen in loop.seen.items():
            if _is_overdue(facts, group, seen, loop):
                found.setdefault(group, []).append(loop.at)
    return found


def _is_overdue(facts: Facts, group: str, seen: Seen, loop: Loop) -> bool:
    """May a machine of the group be out of time?"""
    late = loop.at - facts.patience
    if seen.without_machine > facts.asked(group, late, loop.at):
        return True
    if any(facts.first_seen[group, machine] < late for machine in unregistered(seen, loop)):
        return True
    nodes = (loop.nodes[machine] for machine in seen.there if machine in loop.nodes)
    return any(not node.ready for node in nodes)


Invariant = Callable[[Facts], Findings]
INVARIANTS: Mapping[str, Invariant] = {
    check.__name__.removeprefix("check_").replace("_", " "): check
    for check in (
        check_targets,
        check_unknown,
        check_deletions,
        check_withdrawals,
        check_overbuying,
        check_prompt_growth,
        check_backoffs,
        check_failures_go,
        check_requests_end,
        check_strangers_go,
        check_pauses,
        check_unhealthy,
        check_rest,
        check_own_words,
    )
}
