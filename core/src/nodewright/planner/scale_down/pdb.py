"""Count the evictions that each PodDisruptionBudget still allows, while one loop plans.

Like CA's RemainingPdbTracker, but faster: a pod is matched only against the budgets that select one of its labels.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.gang import GangRef, RunningGang, find_gang
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.predicates.selectors import Selector, parse_selector
from nodewright.snapshot.context import Workloads

Label = tuple[str, str]


class PdbAllowance(NamedTuple):
    """Tells whether pods may be evicted one after the other or all at once, and names a pod whose budget is too small."""

    can_remove: bool
    in_parallel: bool
    blocker: Pod | None = None


class BrokenGang(NamedTuple):
    """A gang that would be left with ``left`` pods, of which it needs ``min_count``, and a pod of it that would go."""

    pod: Pod
    ref: GangRef
    left: int
    min_count: int


class DisruptionBudgets:
    """The disruptions that each budget still allows, and the gangs that must be kept whole.

    Counters start at ``status.disruptionsAllowed`` and may fall below zero. The eviction API refuses every pod that more
    than one budget selects. CA ignores this, and drains the pod's node in vain again and again. Without
    ``refuses_several`` this class ignores it too.
    """

    def __init__(
        self,
        budgets: Iterable[PodDisruptionBudget],
        *,
        refuses_several: bool = False,
        gangs: Mapping[GangRef, RunningGang] | None = None,
    ) -> None:
        self._gangs = gangs or {}
        self._running = {ref: gang.running for ref, gang in self._gangs.items()}
        self._refuses_several = refuses_several
        self._budgets = tuple(budgets)
        self._allowed: list[float] = [budget.status.disruptions_allowed for budget in self._budgets]
        self._namespaces = _index(self._budgets)

    @staticmethod
    def of(workloads: Workloads, policy: Policy) -> "DisruptionBudgets":
        """Return the budgets of a cluster before any eviction."""
        gangs = workloads.gangs if policy.serves_gangs else None
        return DisruptionBudgets(workloads.budgets, refuses_several=policy.refuses_several_budgets, gangs=gangs)

    @staticmethod
    def waited_for(workloads: Workloads, policy: Policy) -> "DisruptionBudgets":
        """Return the same budgets for removals that may wait for them: no budget is ever used up."""
        found = DisruptionBudgets.of(workloads, policy)
        found._allowed = [math.inf for _ in found._budgets]
        return found

    def __bool__(self) -> bool:
        """Return whether there are any budgets, or gangs that run."""
        return bool(self._budgets or self._gangs)

    @property
    def has_gangs(self) -> bool:
        """Return whether gangs run that must be kept whole."""
        return bool(self._gangs)

    def broken_gang(self, pods: Iterable[Pod]) -> BrokenGang | None:
        """Return a gang that would be left with too few pods if these pods went together; None if there is none.

        A gang all of whose pods go ends as a whole: its owner starts it again elsewhere.
        """
        leaving: dict[GangRef, list[Pod]] = {}
        for pod in pods:
            ref = find_gang(pod) if pod.metadata.deletion_timestamp is None else None
            if ref is not None and ref in self._gangs:
                leaving.setdefault(ref, []).append(pod)
        for ref, going in leaving.items():
            left, least = self._running[ref] - len(going), self._gangs[ref].min_count
            if 0 < left < least:
                return BrokenGang(going[0], ref, left, least)
        return None

    def covers(self, pod: Pod) -> bool:
        """Return whether any budget selects this pod."""
        return bool(self._matching(pod))

    def matches(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that select this pod."""
        return tuple(self._budgets[number] for number in self._matching(pod))

    def conflicting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets because of which the API server refuses to evict this pod: two or more that select it."""
        found = self.matches(pod) if self._refuses_several else ()
        return found if len(found) > 1 else ()

    def exhausted(self, pod: Pod) -> PodDisruptionBudget | None:
        """Return a budget that does not let this pod go now; None if all allow it."""
        return next((self._budgets[n] for n in self._matching(pod) if self._allowed[n] < 1), None)

    def can_remove(self, pods: Sequence[Pod]) -> PdbAllowance:
        """Return whether budgets allow to evict these pods. The first exhausted budget decides."""
        affected: dict[int, list[Pod]] = {}
        for pod in pods:
            for number in self._matching(pod):
                affected.setdefault(number, []).append(pod)
        allowance = PdbAllowance(can_remove=True, in_parallel=True)
        for number in sorted(affected):
            going, allowed = affected[number], self._allowed[number]
            if allowed < 1:
                return PdbAllowance(can_remove=False, in_parallel=False, blocker=going[0])
            if allowed < len(going):
                allowance = PdbAllowance(can_remove=True, in_parallel=False, blocker=going[-1])
        return allowance

    def remove(self, pods: Iterable[Pod]) -> None:
        """Count these pods as evicted."""
        for pod in pods:
            for number in self._matching(pod):
                self._allowed[number] -= 1
            ref = find_gang(pod) if self._gangs and pod.metadata.deletion_timestamp is None else None
            if ref is not None and ref in self._gangs:
                self._running[ref] -= 1

    def _matching(self, pod: Pod) -> tuple[int, ...]:
        known = self._namespaces.get(pod.metadata.namespace)
        return known.matching(pod.metadata.labels) if known is not None else ()


class _NamespaceBudgets:
    """The budgets of one namespace: those with a plain label selector by that label, and the others."""

    def __init__(self) -> None:
        self._by_label: dict[Label, list[tuple[int, Selector]]] = {}
        self._others: list[tuple[int, Selector]] = []
        self._known: dict[frozenset[Label], tuple[int, ...]] = {}

    def add(self, number: int, selector: Selector) -> None:
        entry = (number, selector)
        if selector.label is None:
            self._others.append(entry)
        else:
            self._by_label.setdefault(selector.label, []).append(entry)

    def matching(self, labels: Mapping[str, str]) -> tuple[int, ...]:
        """Return the numbers of the budgets whose selector matches, in order."""
        key = frozenset(labels.items())
        found = self._known.get(key)
        if found is None:
            asked = [*self._others, *(entry for label in key for entry in self._by_label.get(label, ()))]
            found = tuple(sorted(number for number, selector in asked if selector.matches(labels)))
            self._known[key] = found
        return found


def _index(budgets: Sequence[PodDisruptionBudget]) -> dict[str, _NamespaceBudgets]:
    """Return namespace → its budgets. A missing or invalid selector matches nothing."""
    namespaces: dict[str, _NamespaceBudgets] = {}
    for number, budget in enumerate(budgets):
        parsed = parse_selector(budget.spec.selector) if budget.spec.selector is not None else None
        if parsed is not None:
            namespaces.setdefault(budget.metadata.namespace, _NamespaceBudgets()).add(number, parsed)
    return namespaces
