"""How many pods disruption budgets still let go, while one loop plans (behaviour/down.md A8).

Beside CA's tracker nothing differs but the cost: a pod is held against the budgets that name one of its labels, not
against all of its namespace.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings
from nodewright.predicates.selectors import Selector, parse_selector
from nodewright.snapshot.workloads import Workloads

Label = tuple[str, str]


class PdbAllowance(NamedTuple):
    """Whether pods may go one after the other, whether all at once, and the pod for which a budget is too small."""

    can_remove: bool
    in_parallel: bool
    blocker: Pod | None = None


class DisruptionBudgets:
    """What each budget still allows; counters start at ``status.disruptionsAllowed`` and may fall below zero.

    The eviction API refuses every pod that more than one budget is about. CA does not know, and drains its node in
    vain again and again; so does a tracker for which ``refuses_several`` is off.
    """

    def __init__(self, budgets: Iterable[PodDisruptionBudget], *, refuses_several: bool = False) -> None:
        self._refuses_several = refuses_several
        self._budgets = tuple(budgets)
        self._allowed = [budget.status.disruptions_allowed for budget in self._budgets]
        self._namespaces = _index(self._budgets)

    @staticmethod
    def of(workloads: Workloads, settings: Settings) -> "DisruptionBudgets":
        """The budgets of a cluster, before anything is taken of them."""
        return DisruptionBudgets(workloads.budgets, refuses_several=not settings.is_ca)

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._budgets)

    def covers(self, pod: Pod) -> bool:
        """Whether any budget is about this pod."""
        return bool(self._matching(pod))

    def matches(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that are about this pod."""
        return tuple(self._budgets[number] for number in self._matching(pod))

    def conflicting(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """The budgets that stand in each other's way for this pod; none if it may be evicted as far as that goes."""
        found = self.matches(pod) if self._refuses_several else ()
        return found if len(found) > 1 else ()

    def exhausted(self, pod: Pod) -> PodDisruptionBudget | None:
        """A budget that does not let this pod go now."""
        return next((self._budgets[n] for n in self._matching(pod) if self._allowed[n] < 1), None)

    def can_remove(self, pods: Sequence[Pod]) -> PdbAllowance:
        """Whether these pods may go as far as their budgets know; the first budget that is used up decides."""
        affected: dict[int, list[Pod]] = {}
        for pod in pods:
            for number in self._matching(pod):
                affected.setdefault(number, []).append(pod)
        answer = PdbAllowance(can_remove=True, in_parallel=True)
        for number in sorted(affected):
            going, allowed = affected[number], self._allowed[number]
            if allowed < 1:
                return PdbAllowance(can_remove=False, in_parallel=False, blocker=going[0])
            if allowed < len(going):
                answer = PdbAllowance(can_remove=True, in_parallel=False, blocker=going[-1])
        return answer

    def remove(self, pods: Iterable[Pod]) -> None:
        """Count these pods as gone."""
        for pod in pods:
            for number in self._matching(pod):
                self._allowed[number] -= 1

    def _matching(self, pod: Pod) -> tuple[int, ...]:
        known = self._namespaces.get(pod.metadata.namespace)
        return known.matching(pod.metadata.labels) if known is not None else ()


class _Namespace:
    """The budgets of one namespace: those that ask for one plain label by that label, and the others."""

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
        """Numbers of the budgets whose selector matches, in order."""
        key = frozenset(labels.items())
        found = self._known.get(key)
        if found is None:
            asked = [*self._others, *(entry for label in key for entry in self._by_label.get(label, ()))]
            found = tuple(sorted(number for number, selector in asked if selector.matches(labels)))
            self._known[key] = found
        return found


def _index(budgets: Sequence[PodDisruptionBudget]) -> dict[str, _Namespace]:
    """Namespace → its budgets. No selector, or one that breaks the rules, matches nothing."""
    namespaces: dict[str, _Namespace] = {}
    for number, budget in enumerate(budgets):
        parsed = parse_selector(budget.spec.selector) if budget.spec.selector is not None else None
        if parsed is not None:
            namespaces.setdefault(budget.metadata.namespace, _Namespace()).add(number, parsed)
    return namespaces
