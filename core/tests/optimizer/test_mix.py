"""Mixes of nodes: right, cheap, the same each time, with and without a solver."""

from dataclasses import replace

import numpy as np
import pytest
from core.tests.optimizer.exact import cheapest_price
from core.tests.optimizer.problems import ENDLESS, faults, problems
from hypothesis import given, settings
from hypothesis import strategies as st

from nodewright.optimizer.bound import find_values, undominated
from nodewright.optimizer.mix import find_mix
from nodewright.optimizer.problem import Bools, Mix, Problem


def solved(problem: Problem, *, time_used: float = 0.0) -> Mix:
    return find_mix(problem, find_values(problem), lambda: time_used)


def kinds_of(*kinds: tuple[float, float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return what nodes offer (cpu, memory, 110 pods) and their prices, of kinds given as (cpu, memory, price)."""
    return np.array([[cpu, memory, 110.0] for cpu, memory, _ in kinds]), np.array([price for *_, price in kinds])


def problem_of(pods: dict[tuple[float, float], int], *kinds: tuple[float, float, float]) -> Problem:
    """Return the problem of pods given as (cpu, memory): count, without limits."""
    requests = np.array([[cpu, memory, 1.0] for cpu, memory in pods])
    free, prices = kinds_of(*kinds)
    fits: Bools = np.all(requests[:, None, :] <= free[None, :, :], axis=2)
    many = [ENDLESS] * len(pods)
    return Problem(
        requests=requests,
        pods=list(pods.values()),
        per_node=many,
        free=free,
        prices=prices,
        rooms=[ENDLESS] * len(prices),
        fits=fits,
    )


def test_pods_of_two_shapes_go_on_the_two_kinds_that_suit_them() -> None:
    mix = solved(problem_of({(8, 1): 10, (1, 8): 10}, (8, 8, 10.0), (8, 1, 6.0), (1, 8, 6.0)))
    assert mix.price == 10 * 6.0 + 10 * 6.0
    mix = solved(problem_of({(7, 1): 10, (1, 7): 10}, (8, 8, 10.0), (8, 1, 6.0), (1, 8, 6.0)))
    assert mix.price == 10 * 10.0


def test_the_last_node_is_of_the_smallest_kind_that_takes_its_pods() -> None:
    mix = solved(problem_of({(4, 4): 9}, (16, 16, 4.0), (4, 4, 1.2)))
    assert mix.price == pytest.approx(2 * 4.0 + 1.2)


def test_a_scarce_kind_is_used_up_before_a_dearer_one() -> None:
    problem = problem_of({(4, 4): 8}, (16, 16, 4.0), (16, 16, 9.0))
    mix = solved(replace(problem, rooms=[1, ENDLESS]))
    assert (mix.price, mix.left) == (13.0, (0,))


def test_one_dear_node_for_all_pods_is_found_beside_a_cheap_one_that_takes_most() -> None:
    pods = {(200.0, 3000.0): 4, (700.0, 1024.0): 3, (700.0, 128.0): 3}
    problem = problem_of(pods, (8000, 32768, 0.368), (4000, 16384, 0.0736), (1000, 4096, 0.046))
    fits = np.array([[True, True, True], [True, True, False], [True, True, False]])
    assert solved(replace(problem, rooms=[3, 1, 3], fits=fits)).price == pytest.approx(0.368)


def test_kinds_that_are_the_same_are_all_used() -> None:
    problem = problem_of({(4, 4): 8}, (16, 16, 4.0), (16, 16, 4.0), (16, 15, 4.0))
    mix = solved(replace(problem, rooms=[0, 1, 1], fits=np.array([[True, True, False]])))
    assert (mix.price, mix.left) == (4.0, (4,))
    assert solved(replace(problem, rooms=[1, 1, 0])).left == (0,)


def test_a_kind_is_endless_if_its_nodes_suffice_for_each_class_alone() -> None:
    problem = problem_of({(4, 4): 9, (3, 3): 2, (20, 1): 5}, (16, 16, 4.0), (6, 6, 1.0))
    alone = replace(problem, per_node=[ENDLESS, 1, ENDLESS])
    assert replace(problem, rooms=[4, 9]).is_endless == [True, False]
    assert replace(alone, rooms=[5, 11]).is_endless == [True, True]
    assert replace(alone, rooms=[4, 10]).is_endless == [False, False]


def test_pods_without_room_are_left() -> None:
    problem = problem_of({(4, 4): 8}, (16, 16, 4.0))
    mix = solved(replace(problem, rooms=[1]))
    assert (mix.price, mix.left) == (4.0, (4,))


def test_pods_that_find_no_place_at_first_go_before_the_others() -> None:
    pods: dict[tuple[float, float], int] = {(13, 2): 9, (7, 11): 2, (7, 10): 2}
    problem = replace(problem_of(pods, (32, 32, 4.0), (26, 4, 5.0), (9, 13, 6.0)), rooms=[2, 3, 2])
    mix = solved(problem, time_used=1.0)
    assert not faults(problem, mix)
    assert not any(mix.left)


def test_the_first_mix_is_made_without_time_and_says_so() -> None:
    problem = problem_of({(3, 1): 40, (1, 3): 30, (2, 5): 20}, (16, 16, 4.1), (8, 16, 2.6), (4, 4, 1.1))
    mix = solved(problem, time_used=1.0)
    assert mix.is_cut
    assert not faults(problem, mix)
    assert not any(mix.left)


def test_of_kinds_that_replace_each_other_the_first_counts_for_the_bound() -> None:
    problem = problem_of({(1, 1): 4}, (4, 4, 4.0), (8, 8, 8.0), (4, 4, 5.0), (4, 2, 4.0))
    assert undominated(problem).tolist() == [True, False, False, False]


@settings(deadline=None, derandomize=True, max_examples=150)
@given(problem=problems())
def test_every_mix_is_right_and_not_below_the_bound(problem: Problem) -> None:
    values = find_values(problem)
    mix = find_mix(problem, values, lambda: 0.0)
    assert not faults(problem, mix)
    assert not any(mix.left)
    assert values.bound <= mix.price * (1 + 1e-6)
    assert find_mix(problem, values, lambda: 0.0) == mix


@settings(deadline=None, derandomize=True, max_examples=100)
@given(problem=problems())
def test_small_problems_are_within_two_per_cent_of_the_optimum(problem: Problem) -> None:
    optimum = cheapest_price(problem)
    assert optimum is not None
    assert find_values(problem).bound <= optimum * (1 + 1e-6)
    assert optimum - 1e-9 <= solved(problem).price <= 1.02 * optimum + 1e-9


@settings(deadline=None, derandomize=True, max_examples=200)
@given(problem=problems(scarce=True))
def test_where_all_pods_can_have_a_place_they_get_one(problem: Problem) -> None:
    mix = solved(problem)
    assert not faults(problem, mix)
    assert cheapest_price(problem) is None or not any(mix.left)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(problem=problems(), kind=st.integers(0, 3), factor=st.floats(0.1, 1.0))
def test_a_lower_price_makes_no_mix_dearer(problem: Problem, kind: int, factor: float) -> None:
    prices = problem.prices.copy()
    prices[kind % len(prices)] *= factor
    assert solved(replace(problem, prices=prices)).price <= solved(problem).price * 1.02 + 1e-9


@settings(deadline=None, derandomize=True, max_examples=60)
@given(problem=problems(most_kinds=3), cpu=st.integers(1, 16), memory=st.integers(1, 16), price=st.integers(1, 20))
def test_a_further_kind_makes_no_mix_dearer(problem: Problem, cpu: int, memory: int, price: int) -> None:
    offered = np.array([cpu, memory, 6.0])
    fits = (problem.requests <= offered).all(axis=1)
    more = replace(
        problem,
        free=np.vstack([problem.free, offered]),
        prices=np.append(problem.prices, float(price)),
        rooms=[*problem.rooms, ENDLESS],
        fits=np.column_stack([problem.fits, fits]),
    )
    assert solved(more).price <= solved(problem).price * 1.02 + 1e-9


def test_the_bound_is_tight_for_many_kinds_of_which_none_may_take_all_pods() -> None:
    sizes = [
        (cpu, cpu * share, cpu * 0.05 * (1 + number / 200))
        for cpu in (4, 8, 16, 32)
        for number, share in enumerate((2, 4, 8) * 8)
    ]
    pods = {(0.05 + 0.0131 * n, 0.1 + 0.0377 * (n * 61 % 150)): 30 for n in range(200)}
    endless = problem_of(pods, *sizes)
    limited = replace(endless, rooms=[1000] * len(sizes))
    assert find_values(limited).bound == pytest.approx(find_values(endless).bound, rel=1e-4)
