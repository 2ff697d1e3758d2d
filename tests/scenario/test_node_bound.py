"""The lower bound of node-hours, by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node_bound import Moment, NodeBound, Shape, averaged, moments
from whole_nodes import price_of_whole_nodes

SMALL, BIG, GPU = Shape((4, 8, 0), 10), Shape((16, 32, 0), 2), Shape((4, 8, 1), 3)


@pytest.mark.parametrize(
    ("shapes", "running", "nodes"),
    [
        ([SMALL], {}, 0.0),
        ([SMALL], {(2, 1, 0): 3}, 1.5),
        ([SMALL], {(1, 8, 0): 1}, 1.0),  # memory is what binds
        ([SMALL, BIG], {(4, 8, 0): 4}, 1.0),  # the bigger shape holds four
        ([SMALL, BIG], {(4, 8, 0): 12}, 6.0),  # of which there are but two
        ([SMALL, GPU], {(1, 1, 1): 2, (4, 8, 0): 1}, 2.0),  # what is left beside the GPUs is used too
    ],
)
def test_the_fewest_nodes(shapes: list[Shape], running: dict[tuple[int, ...], int], nodes: float) -> None:
    assert NodeBound(shapes).nodes(running) == pytest.approx(nodes)


@pytest.mark.parametrize(
    ("prices", "dollars"),
    [((1.0, 3.0), 3.0), ((1.0, 5.0), 4.0), ((0.5, 3.0), 2.0)],  # a big node holds four pods, a small one holds one
)
def test_the_least_dollars(prices: tuple[float, float], dollars: float) -> None:
    shapes = [SMALL._replace(price=prices[0]), BIG._replace(price=prices[1])]
    assert NodeBound(shapes).nodes({(4, 8, 0): 4}) == pytest.approx(dollars)


@pytest.mark.parametrize(
    ("running", "dollars"),
    [({(4, 8, 0): 1}, 1.0), ({(4, 8, 0): 3}, 3.0), ({(4, 8, 0): 6}, 5.0), ({(2, 1, 0): 1, (1, 1, 1): 1}, 2.0)],
)
def test_the_least_dollars_of_whole_nodes(running: dict[tuple[int, ...], int], dollars: float) -> None:
    shapes = [SMALL, BIG._replace(price=3.0), GPU._replace(price=2.0)]
    assert price_of_whole_nodes(NodeBound(shapes).programme(running), len(shapes)) == pytest.approx(dollars, rel=2e-3)


def test_what_fits_no_shape_has_no_bound() -> None:
    with pytest.raises(ValueError, match="no packing of 1 pods"):
        NodeBound([SMALL]).nodes({(1, 1, 1): 1})


def test_changes_of_one_instant_are_one_moment() -> None:
    changes = [(5.0, (1,), 1), (0.0, (1,), 1), (5.0, (1,), -1), (9.0, (1,), -1)]
    assert list(moments(changes)) == [Moment(0.0, {(1,): 1}), Moment(5.0, {(1,): 1}), Moment(9.0, {})]


def test_node_hours_are_summed_over_time() -> None:
    history = [Moment(0.0, {(4, 8, 0): 2}), Moment(1800.0, {(4, 8, 0): 1}), Moment(3600.0, {})]
    assert NodeBound([SMALL]).node_hours(history, 7200.0) == pytest.approx(1.5)


def test_averages_keep_what_ran_and_never_raise_the_bound() -> None:
    history = [Moment(0.0, {(3, 8, 0): 2}), Moment(10.0, {(3, 8, 0): 1, (1, 1, 1): 1}), Moment(70.0, {})]
    coarse = averaged(history, 100.0, 4)
    assert [moment.at for moment in coarse] == [0.0, 25.0, 50.0, 75.0]
    for size, seconds in (((3, 8, 0), 2 * 10.0 + 60.0), ((1, 1, 1), 60.0)):
        assert sum(25.0 * moment.running.get(size, 0.0) for moment in coarse) == pytest.approx(seconds)
    bound = NodeBound([SMALL, GPU])
    exact = bound.node_hours(history, 100.0)
    assert 0.8 * exact < bound.node_hours(coarse, 100.0) <= exact + 1e-9


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 8)), min_size=1, max_size=20))
def test_whole_pods_on_whole_nodes_never_need_fewer(pods: list[tuple[int, int]]) -> None:
    """First fit is a packing, so it uses no fewer nodes than the bound says."""
    nodes: list[list[int]] = []
    for cpu, memory in pods:
        room = next((node for node in nodes if node[0] >= cpu and node[1] >= memory), None)
        if room is None:
            room = [4, 8]
            nodes.append(room)
        room[0] -= cpu
        room[1] -= memory
    running: dict[tuple[int, ...], int] = {size: pods.count(size) for size in pods}
    assert NodeBound([Shape((4, 8), 100)]).nodes(running) <= len(nodes) + 1e-6
