"""What must hold of purchases where machines may be smaller than their template says: few are made in vain."""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from tests.faults.facts import Facts
from tests.faults.history import Loop, group_of

Findings = Iterator[str]

MOST_MISFITS, MOST_AFTER_A_CHANGE = 3, 4
# What another writer may change of a group's description.
_DESCRIPTION = frozenset({"cpu", "zone", "labels"})


class _Charge(NamedTuple):
    """A purchase that a pod caused in vain: when, of which group, and the pod's share of its machines."""

    at: float
    group: str
    share: float


def check_vain_purchases(facts: Facts) -> Findings:
    """No pod causes more than three machines in a day that it does not use; a fourth if the description of its group changed
    after the third was asked for; and more of groups with a node that takes such pods. No run lasts a day.

    A pod causes a purchase if it waits when the machines are asked for, and still when the first of them is Ready. Pods
    that wait together are alike, and no check can tell for which of them a machine was meant: they share what is bought.
    A pod is charged for a machine at most, but for more where more machines are bought than pods wait.

    Not counted: machines as large as their template says, for they take the pods they were bought for; what other writers
    asked for, and what fills a group up to its minimum, for no pod caused these; machines that never become Ready, which
    are failures; and machines at whose arrival the pod no longer waits. What was bought before the engine forgot everything
    is counted apart: it may try anew.
    """
    caused: dict[tuple[float, str], list[_Charge]] = defaultdict(list)
    groups = sorted({*facts.small_nodes.values()})
    purchases = [(group, *purchase) for group in groups for purchase in _bought_in_vain(facts, group)]
    for group, bought, arrived, count in sorted(purchases, key=lambda purchase: purchase[1].at):
        waiting, knows_since = sorted(bought.waiting & arrived.waiting), facts.last_reset(bought.at)
        share = max(min(1.0, count / len(waiting)), count / len(bought.waiting)) if waiting else 0.0
        for pod in waiting:
            before = caused[knows_since, pod]
            machines = share + sum(charge.share for charge in before)
            if machines > MOST_MISFITS and not _is_excused(facts, group, bought, before, machines):
                yield f"{arrived.at:g} s: {machines:g} machines were bought for {pod} that it cannot use"
                return
            before.append(_Charge(bought.at, group, share))


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


def _is_excused(facts: Facts, group: str, bought: Loop, before: list[_Charge], machines: float) -> bool:
    """Return whether the group may be asked after three machines in vain: a newer node than its last one takes such pods, or
    its description changed after the last purchase in vain, and this is the fourth machine.
    """
    rules = (rule for rule in facts.cloud.get("interference", ()) if rule["group"] == group)
    changed = [rule["start"] for rule in rules if rule["start"] <= bought.at and not _DESCRIPTION.isdisjoint(rule)]
    last_in_vain = [charge.at for charge in before if charge.group == group]
    since = max([0.0, *changed, *last_in_vain])
    ready = {name: node.since for name, node in bought.nodes.items() if node.ready and group_of(name) == group}
    newest = max(ready.values(), default=-1.0)
    if newest >= since and any(ready[name] == newest for name in ready.keys() - facts.small_nodes.keys()):
        return True
    return machines <= MOST_AFTER_A_CHANGE and any(at > before[-1].at for at in changed if before)


def _buys(loop: Loop, group: str) -> bool:
    return any(write.hook == "increase_size" and write.group == group and write.accepted for write in loop.writes)


def _has_ready(loop: Loop, machines: set[str]) -> bool:
    return any(node.ready for machine, node in loop.nodes.items() if machine in machines)
