"""What must hold of purchases where machines may be smaller than their template says: few are made in vain."""

from collections import defaultdict
from collections.abc import Iterator

from tests.faults.facts import Facts
from tests.faults.history import Loop, group_of

Findings = Iterator[str]

MOST_MISFITS = 3
# What another writer may change of a group's description.
_DESCRIPTION = frozenset({"cpu", "zone", "labels"})


def check_vain_purchases(facts: Facts) -> Findings:
    """No pod causes more than three machines in a day that it does not use; one more for each group that was asked while a
    node or a new description spoke for it. No run lasts a day.

    A pod causes a purchase if it waits when the machines are asked for, and still when the first of them is Ready. Pods
    that wait together are alike, and no check can tell for which of them a machine was meant: they share what is bought.
    A pod is charged for a machine at most, but for more where more machines are bought than pods wait.

    Not counted: machines as large as their template says, for they take the pods they were bought for; what other writers
    asked for, and what fills a group up to its minimum, for no pod caused these; machines that never become Ready, which
    are failures; and machines at whose arrival the pod no longer waits. What was bought before the engine forgot everything
    is counted apart: it may try anew.
    """
    caused: dict[tuple[float, str], float] = defaultdict(float)
    with_evidence: dict[tuple[float, str], set[str]] = defaultdict(set)
    for group in sorted({*facts.small_nodes.values()}):
        for bought, arrived, count in _bought_in_vain(facts, group):
            waiting, knows_since = sorted(bought.waiting & arrived.waiting), facts.last_reset(bought.at)
            share = max(min(1.0, count / len(waiting)), count / len(bought.waiting)) if waiting else 0.0
            for pod in waiting:
                caused[knows_since, pod] += share
                if _has_evidence(facts, group, bought):
                    with_evidence[knows_since, pod].add(group)
                machines = caused[knows_since, pod]
                if machines > MOST_MISFITS + len(with_evidence[knows_since, pod]):
                    yield f"{arrived.at:g} s: {machines:g} machines were bought for {pod} that it cannot use"
                    return


def _bought_in_vain(facts: Facts, group: str) -> Iterator[tuple[Loop, Loop, int]]:
    """Yield the loop of each purchase of the group of which machines take no pod, the loop in which the first of these is
    Ready, and how many they are: those that started before the next purchase, without what others asked for.
    """
    started = sorted((facts.started[machine], machine) for machine, of in facts.small_nodes.items() if of == group)
    purchases = [loop for loop in facts.loops if _buys(loop, group)]
    for number, bought in enumerate(purchases):
        end = purchases[number + 1].at if number + 1 < len(purchases) else float("inf")
        mine = {machine for at, machine in started if bought.at <= at < end}
        arrived = next((loop for loop in facts.loops if loop.at >= bought.at and _has_ready(loop, mine)), None)
        others = sum(
            max(0, asked.count)
            for asked in facts.history.asked
            if asked.group == group and not asked.ours and bought.at - facts.patience <= asked.at < end
        )
        seen = bought.seen.get(group)
        refill = max(0, seen.least - seen.target) if seen is not None and facts.enforces_minimum else 0
        if arrived is not None and len(mine) > others + refill:
            yield bought, arrived, len(mine) - others - refill


def _has_evidence(facts: Facts, group: str, bought: Loop) -> bool:
    """Return whether a sound node of the group was Ready, or its description had changed, when machines were asked for."""
    if any(
        node.ready and name not in facts.small_nodes for name, node in bought.nodes.items() if group_of(name) == group
    ):
        return True
    changes = (rule for rule in facts.cloud.get("interference", ()) if rule["group"] == group)
    return any(rule["start"] <= bought.at and not _DESCRIPTION.isdisjoint(rule) for rule in changes)


def _buys(loop: Loop, group: str) -> bool:
    return any(write.hook == "increase_size" and write.group == group and write.accepted for write in loop.writes)


def _has_ready(loop: Loop, machines: set[str]) -> bool:
    return any(node.ready for machine, node in loop.nodes.items() if machine in machines)
