"""Balancing over similar groups."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodewright.estimator.binpacking import Template
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL
from nodewright.model.pod import Pod
from nodewright.model.quantity import Quantity
from nodewright.model.settings import ScaleUpSettings
from nodewright.planner.scale_up.balancing import are_similar, balance_sizes, share_a_label
from nodewright.testkit.builders import build_node, build_pod

SIZES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [(1, [2, 3, 6]), (4, [4, 4, 6]), (0, [1, 3, 6]), (8, [6, 6, 6])],
)
def test_seed_002_balances_a1_b3_c6(wanted: int, expected: list[int]) -> None:
    assert balance_sizes([(1, 20), (3, 20), (6, 20)], wanted) == expected


def test_a_full_group_steps_aside() -> None:
    assert balance_sizes([(1, 2), (1, 20)], 6) == [2, 6]


def test_nothing_to_deal_to_is_an_error() -> None:
    with pytest.raises(ValueError, match="no groups"):
        balance_sizes([], 3)


@given(SIZES, st.integers(0, 200))
def test_dealing_keeps_maxima_and_is_level(sizes: list[tuple[int, int]], wanted: int) -> None:
    new = balance_sizes(sizes, wanted)
    room = sum(max(0, most - now) for now, most in sizes)
    grown = [(size, most) for size, (now, most) in zip(new, sizes, strict=True) if size != now]
    assert sum(new) - sum(now for now, _ in sizes) == min(wanted, room)
    assert all(size <= most for size, most in grown)
    # No group that could still grow is more than one below the largest that grew.
    highest = max((size for size, _ in grown), default=0)
    could_grow = [size for size, (_, most) in zip(new, sizes, strict=True) if size < most]
    assert all(size >= highest - 1 for size in could_grow)


def template(*daemons: Pod, pods: int = 110, labels: Mapping[str, str] | None = None) -> Template:
    return Template(build_node("n", pods=pods, labels=labels or {}), daemons)


def asking(name: str, amount: str) -> Pod:
    return build_pod("agent", cpu="0", memory="0", extended={name: amount}, owner=("DaemonSet", "agent"))


@pytest.mark.parametrize("name", ["ephemeral-storage", "example.com/device"])
def test_a_request_for_what_is_not_offered_counts_below_zero(name: str) -> None:
    plain, wanting = template(), template(asking(name, "1"))
    assert not are_similar(plain, wanting, ScaleUpSettings())
    assert not are_similar(wanting, template(asking(name, "1")), ScaleUpSettings()), "as in CA: no ratio of a debt"


def test_the_number_of_daemon_pods_is_no_difference() -> None:
    few = template(pods=20)
    many = template(*(build_pod(f"d{k}", cpu="0", memory="0") for k in range(4)), pods=20)
    assert are_similar(few, many, ScaleUpSettings())


def test_labels_that_a_provider_ignores_are_no_difference() -> None:
    a, b = template(labels={"pool": "a"}), template(labels={"pool": "b"})
    assert not are_similar(a, b, ScaleUpSettings())
    assert are_similar(a, b, ScaleUpSettings(), ["pool"])
    assert are_similar(a, b, ScaleUpSettings(balancing_ignore_label=("pool",)))


def test_a_shared_label_of_the_provider_settles_it() -> None:
    a, b, other = (template(labels={"pool": pool}) for pool in ("x", "x", ""))
    assert share_a_label(a, b, ["pool"])
    assert not share_a_label(a, other, ["pool"])
    assert not share_a_label(other, other, ["pool"])


REGION_LABEL = "topology.kubernetes.io/region"


INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"


# The definition of seed 002, clause by clause; the last two say how to get it where the default differs (ADR 24).


def offering(memory: str = "100Gi", allocatable: str = "", **labels: str) -> Template:
    """Of one machine type; ``allocatable``: memory, where it is less than the capacity."""
    node = build_node("n", memory=memory, labels=labels)
    left = {**node.status.allocatable, "memory": Quantity.of(allocatable or memory)}
    return Template(replace(node, status=replace(node.status, allocatable=left)))


def test_groups_of_other_machines_are_not_similar() -> None:
    small, large = Template(build_node("n", cpu="2")), Template(build_node("n", cpu="32"))
    assert not are_similar(small, large, ScaleUpSettings())
    wider = Template(build_node("n", cpu="2", extended={"example.com/device": "1"}))
    assert not are_similar(small, wider, ScaleUpSettings())


def test_allocatable_and_what_is_free_of_it_may_differ_by_five_in_a_hundred() -> None:
    whole = offering()
    assert are_similar(whole, offering(allocatable="95Gi"), ScaleUpSettings())
    assert not are_similar(whole, offering(allocatable="94Gi"), ScaleUpSettings())
    for asked, similar in (("5Gi", True), ("6Gi", False)):
        agent = build_pod("agent", cpu="0", memory=asked, owner=("DaemonSet", "agent"))
        assert are_similar(whole, Template(whole.node, (agent,)), ScaleUpSettings()) is similar
    agent = build_pod("agent", cpu="0", memory="6Gi", owner=("DaemonSet", "agent"))
    assert not are_similar(Template(whole.node, (agent,)), offering(allocatable="94Gi"), ScaleUpSettings()), (
        "alike free"
    )


def test_of_labels_only_those_of_places_may_differ() -> None:
    a, b = offering(**{ZONE_LABEL: "a", HOSTNAME_LABEL: "x"}), offering(**{ZONE_LABEL: "b"})
    assert are_similar(a, b, ScaleUpSettings())
    assert not are_similar(a, offering(team="red"), ScaleUpSettings())


def test_memory_may_differ_a_little_unless_the_flag_says_it_must_not() -> None:
    one, other = offering("100Gi"), offering("99Gi")
    assert are_similar(one, other, ScaleUpSettings())
    assert not are_similar(one, offering("98Gi"), ScaleUpSettings())
    assert not are_similar(one, other, ScaleUpSettings(memory_difference_ratio=0.0))


def test_regions_may_differ_unless_the_flag_names_the_label() -> None:
    kind = {INSTANCE_TYPE_LABEL: "m"}
    east, west = offering(**{REGION_LABEL: "east", **kind}), offering(**{REGION_LABEL: "west", **kind})
    assert are_similar(east, west, ScaleUpSettings())
    within = ScaleUpSettings(balancing_label=(REGION_LABEL, INSTANCE_TYPE_LABEL))
    assert not are_similar(east, west, within)
    assert are_similar(east, offering(**{REGION_LABEL: "east", ZONE_LABEL: "b", **kind}), within)
