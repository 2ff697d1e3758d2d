"""What disruption budgets still allow: rows 59 to 61 of the edge cases (docs/behaviour/edge-cases.md)."""

from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.cluster import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from nodewright.model.meta import LabelSelector, ObjectMeta, Requirement
from nodewright.model.pod import Pod
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.predicates.selectors import matches_selector
from nodewright.testkit.builders import build_budget, build_pod


def labelled(name: str, **labels: str) -> Pod:
    return build_pod(name, labels=labels)


def selecting(name: str, selector: LabelSelector | None, allowed: int = 0) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=selector),
        status=PodDisruptionBudgetStatus(disruptions_allowed=allowed),
    )


def test_row_59_the_second_of_two_nodes_finds_the_budget_used_up() -> None:
    budgets = DisruptionBudgets([build_budget("b", 1, {"app": "a"})])
    first, second = labelled("p", app="a"), labelled("q", app="a")
    assert budgets.can_remove([first]) == (True, True, None)
    budgets.remove([first])
    assert budgets.can_remove([second]) == (False, False, second)
    assert budgets.exhausted(second) is not None


def test_row_60_one_node_with_two_pods_may_go_but_not_at_once() -> None:
    budgets = DisruptionBudgets([build_budget("b", 1, {"app": "a"})])
    pods = [labelled("p", app="a"), labelled("q", app="a")]
    assert budgets.can_remove(pods) == (True, False, pods[1])
    budgets.remove(pods)
    assert not budgets.can_remove(pods).can_remove


def test_row_61_no_selector_matches_nothing_and_an_empty_one_everything() -> None:
    pod, elsewhere = labelled("p", app="a"), build_pod("q", namespace="other")
    assert not DisruptionBudgets([selecting("b", None)]).covers(pod)
    everything = DisruptionBudgets([selecting("b", LabelSelector())])
    assert everything.covers(pod)
    assert everything.covers(build_pod("unlabelled"))
    assert not everything.covers(elsewhere)


def test_a_selector_that_breaks_the_rules_matches_nothing() -> None:
    """The eviction API passes such a budget over, too."""
    broken = LabelSelector(match_expressions=(Requirement(key="app", operator="Resembles", values=("a",)),))
    assert not DisruptionBudgets([selecting("b", broken)]).covers(labelled("p", app="a"))


_LABELS = st.dictionaries(st.sampled_from(["app", "tier", "x"]), st.sampled_from(["a", "b", ""]), max_size=3)
_EXPRESSIONS = st.builds(
    Requirement,
    key=st.sampled_from(["app", "tier", "bad key"]),
    operator=st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt"]),
    values=st.lists(st.sampled_from(["a", "b", "!"]), max_size=2).map(tuple),
)
_SELECTORS = st.none() | st.builds(
    LabelSelector, match_labels=_LABELS, match_expressions=st.lists(_EXPRESSIONS, max_size=2).map(tuple)
)
_SETS = st.lists(st.tuples(_SELECTORS, st.integers(-2, 4)), max_size=6).map(
    lambda drawn: [selecting(f"b{n}", selector, allowed) for n, (selector, allowed) in enumerate(drawn)]
)
_PODS = st.lists(_LABELS, max_size=6).map(
    lambda drawn: [build_pod(f"p{n}", labels=labels) for n, labels in enumerate(drawn)]
)


def _about(budget: PodDisruptionBudget, pod: Pod) -> bool:
    return matches_selector(pod.metadata.labels, budget.spec.selector)


@given(_SETS, _PODS)
def test_the_index_finds_what_asking_every_budget_finds(budgets: list[PodDisruptionBudget], pods: list[Pod]) -> None:
    tracker = DisruptionBudgets(budgets)
    for pod in pods:
        assert tracker.matches(pod) == tuple(budget for budget in budgets if _about(budget, pod))


@given(_SETS, _PODS)
def test_the_answer_is_that_of_counting(budgets: list[PodDisruptionBudget], pods: list[Pod]) -> None:
    answer = DisruptionBudgets(budgets).can_remove(pods)
    touched = [(sum(_about(budget, pod) for pod in pods), budget.status.disruptions_allowed) for budget in budgets]
    used_up = any(count and allowed < 1 for count, allowed in touched)
    assert answer.can_remove == (not used_up)
    assert answer.in_parallel == (not used_up and all(count <= allowed for count, allowed in touched if count))
    assert (answer.blocker is None) == answer.in_parallel


@given(_SETS, _PODS, _PODS)
def test_removing_together_or_one_by_one_counts_the_same(
    budgets: list[PodDisruptionBudget], pods: list[Pod], others: list[Pod]
) -> None:
    together, singly = DisruptionBudgets(budgets), DisruptionBudgets(budgets)
    answer = together.can_remove(others)
    together.remove(pods)
    for pod in pods:
        singly.remove([pod])
    assert together.can_remove(others) == singly.can_remove(others)
    assert DisruptionBudgets(budgets).can_remove(others) == answer, "the budgets themselves stay as they are"


def test_budgets_in_each_others_way() -> None:
    """The eviction API supports one budget a pod."""
    pod = labelled("p", app="a")
    two = [build_budget("a", 1, {"app": "a"}), build_budget("all", 5), build_budget("other", 0, {"app": "b"})]
    strict = DisruptionBudgets(two, refuses_several=True)
    assert [budget.name for budget in strict.conflicting(pod)] == ["a", "all"]
    assert strict.conflicting(labelled("q", app="c")) == ()
    assert DisruptionBudgets(two).conflicting(pod) == ()
