"""Which nodes to close: counts add up, nothing is overfull, and what is closed is worth it."""

from random import Random

import numpy as np
import pytest
from core.tests.optimizer.problems import ENDLESS, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.optimizer.closing import Closing, find_closing
from nodewright.optimizer.problem import Problem
from nodewright.optimizer.relaxation import ClosingProblem, ClosingProgramme


def unlimited() -> float:
    return 0.0


@st.composite
def closings(draw: st.DrawFn) -> ClosingProblem:
    """Draw nodes of the kinds of a problem, each with some pods that fit it."""
    buying = draw(problems(most_pods=1))
    classes, kinds = buying.fits.shape
    nodes = draw(st.integers(1, 5))
    kind_of = np.array([draw(st.integers(0, kinds - 1)) for _ in range(nodes)])
    free = buying.free[kind_of].copy()
    pods = np.zeros((classes, nodes), dtype=np.int64)
    for node in range(nodes):
        for one in range(classes):
            wanted = draw(st.integers(0, 2))
            while wanted and pods[one, node] < buying.per_node[one] and (buying.requests[one] <= free[node]).all():
                pods[one, node] += 1
                free[node] -= buying.requests[one]
                wanted -= 1
    per_node = np.array(buying.per_node)
    return ClosingProblem(
        buying=Problem(
            requests=buying.requests,
            pods=pods.sum(axis=1).tolist(),
            per_node=buying.per_node,
            free=buying.free,
            prices=buying.prices,
            rooms=buying.rooms,
            fits=buying.fits,
        ),
        pods=pods,
        free=free,
        takes=np.where(buying.fits[:, kind_of], per_node[:, None] - pods, 0),
        prices=buying.prices[kind_of],
        costs=np.array([draw(st.integers(0, 4)) / 2 for _ in range(nodes)]),
        may_close=np.array([draw(st.booleans()) for _ in range(nodes)]),
        kinds=kind_of,
        most_of_kind=np.array([draw(st.integers(0, 5)) for _ in range(kinds)]),
        most=draw(st.integers(1, 5)),
    )


def faults(problem: ClosingProblem, found: Closing) -> list[str]:
    """Return what is wrong with a result."""
    closed = np.zeros(len(problem.prices), dtype=bool)
    closed[found.closed] = True
    wrong, bought = _faults_of_bought(problem, found)
    moving = problem.pods[:, closed].sum(axis=1)
    if (found.moved.sum(axis=1) + bought + np.array(found.bought.left) != moving).any() or sum(found.bought.left):
        wrong.append("pods are lost")
    if found.moved[:, closed].any() or (found.moved > np.maximum(problem.takes, 0)).any():
        wrong.append("pods go where they may not")
    if (found.moved.T @ problem.buying.requests > problem.free).any():
        wrong.append("a node that stays is too full")
    if closed[~problem.may_close].any() or closed.sum() > problem.most:
        wrong.append("nodes are closed that must stay")
    if (np.bincount(problem.kinds[closed], minlength=len(problem.most_of_kind)) > problem.most_of_kind).any():
        wrong.append("too many nodes of a kind are closed")
    saved = float(problem.prices[closed].sum()) - found.bought.price
    if abs(saved - found.saved) > 1e-9 or found.gain > saved - float(problem.costs[closed].sum()) + 1e-9:
        wrong.append("the gain is not what is saved less what is disrupted")
    if found.gain <= 0:
        wrong.append("it is not worth it")
    return wrong


def _faults_of_bought(problem: ClosingProblem, found: Closing) -> tuple[list[str], np.ndarray]:
    """Return what is wrong with the new nodes, and how many pods of each class they have."""
    wrong, pods_of = list[str](), np.zeros(len(problem.buying.pods), dtype=int)
    for kind, pods, copies in found.bought.patterns:
        use = sum((count * problem.buying.requests[one] for one, count in pods), np.zeros(problem.free.shape[1]))
        if (use > problem.buying.free[kind]).any() or not all(problem.buying.fits[one, kind] for one, _ in pods):
            wrong.append("a new node is too full")
        for one, count in pods:
            pods_of[one] += count * copies
    return wrong, pods_of


@given(closings(), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_what_is_closed_pays_and_every_pod_has_a_place(problem: ClosingProblem, seed: int) -> None:
    found = find_closing(problem, unlimited, Random(seed))
    if found is not None:
        assert not faults(problem, found)


def two_nodes(cost: float = 0.0, small: float = 1.0) -> ClosingProblem:
    """Two nodes at 4.0 with a pod each, of which one node takes both; a small node takes one pod."""
    requests = np.array([[2.0, 1.0]])
    buying = Problem(
        requests=requests,
        pods=[2],
        per_node=[ENDLESS],
        free=np.array([[2.0, 8.0]]),
        prices=np.array([small]),
        rooms=[ENDLESS],
        fits=np.array([[True]]),
    )
    return ClosingProblem(
        buying=buying,
        pods=np.array([[1, 1]]),
        free=np.array([[6.0, 7.0], [6.0, 7.0]]),
        takes=np.array([[ENDLESS, ENDLESS]]),
        prices=np.array([4.0, 4.0]),
        costs=np.array([cost, cost]),
        may_close=np.array([True, True]),
        kinds=np.array([0, 0]),
        most_of_kind=np.array([2]),
        most=2,
    )


@pytest.mark.parametrize(
    ("problem", "saved"),
    [
        (two_nodes(), 6.0),  # both go, for two small nodes
        (two_nodes(small=5.0), 4.0),  # one goes: the other takes its pod
        (two_nodes(cost=3.5, small=5.0), 4.0),
        (two_nodes(cost=3.5), 4.0),  # the second would save 2.0 and disrupt 3.5
    ],
)
def test_the_best_set_of_two_nodes_is_found(problem: ClosingProblem, saved: float) -> None:
    found = find_closing(problem, unlimited, Random(1))
    assert found is not None
    assert found.saved == pytest.approx(saved)


def test_nothing_is_closed_that_disrupts_more_than_it_saves() -> None:
    assert find_closing(two_nodes(cost=4.5), unlimited, Random(1)) is None


def test_the_first_sets_are_tried_when_time_is_up_at_once() -> None:
    found = find_closing(two_nodes(), lambda: 1.0, Random(1))
    assert found is not None
    assert found.saved >= 4.0


def test_pods_are_planned_together_for_room_and_new_nodes() -> None:
    """The largest pod fits into the room of the node that stays, but the other two fill it, and a small node takes the largest."""
    buying = Problem(
        requests=np.array([[3.0, 1.0], [2.0, 1.0]]),
        pods=[1, 2],
        per_node=[ENDLESS, ENDLESS],
        free=np.array([[3.0, 10.0]]),
        prices=np.array([1.0]),
        rooms=[ENDLESS],
        fits=np.array([[True], [True]]),
    )
    problem = ClosingProblem(
        buying=buying,
        pods=np.array([[1, 0], [2, 0]]),
        free=np.array([[0.0, 0.0], [4.0, 10.0]]),
        takes=np.full((2, 2), ENDLESS),
        prices=np.array([10.0, 10.0]),
        costs=np.zeros(2),
        may_close=np.array([True, False]),
        kinds=np.array([0, 0]),
        most_of_kind=np.array([2]),
        most=2,
    )
    found = find_closing(problem, unlimited, Random(1))
    assert found is not None
    assert not faults(problem, found)
    assert found.saved == pytest.approx(9.0)
    assert found.moved[:, 1].tolist() == [0, 2]


@given(closings())
@settings(max_examples=50)
def test_rounding_closes_whole_nodes_that_may_be_closed(problem: ClosingProblem) -> None:
    closed = ClosingProgramme(problem).round(lambda: False)
    assert closed is None or not closed[~problem.may_close].any()


def test_the_programme_is_rounded_as_long_as_there_is_time() -> None:
    closed = ClosingProgramme(two_nodes()).round(lambda: False)
    assert closed is not None
    assert closed.any()
    assert ClosingProgramme(two_nodes()).round(lambda: True) is None
