"""How far mixes of small cases are from the exact optimum, and the optimum of cases by hand."""

from typing import Any

import msgspec
import pytest

from cost import CASES, measure
from cost_cases import Case, read_cases
from cost_optimum import cheapest_price
from nodewright.cli.settings.load import load_settings

SMALL = {case.name: case for case in read_cases([CASES]) if case.pods < 30}


def price_of(case: Case) -> float:
    return measure(case, load_settings({"expander": "least-cost", "scale-down-enabled": "false"}, {}))["price"]


def case_of(*workloads: dict[str, Any], **changes: Any) -> Case:
    """Return a case in which 4 cores cost 1 and 16 cost 3.5."""
    kinds = [("small", "4", "8Gi", 1.0), ("large", "16", "64Gi", 3.5)]
    types = [
        {
            "name": name,
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "20"},
            "labels": {"size": name},
            "offers": [{"zone": "zone-a", "price": price}],
        }
        for name, cpu, memory, price in kinds
    ]
    held = [
        {"name": f"w{n}", "requests": {"cpu": "1", "memory": "1Gi"}, **workload} for n, workload in enumerate(workloads)
    ]
    rest = {"karpenter": {"price": 2.0}, "lp_bound": 1.0, **changes}
    return msgspec.convert({"name": "hand", "family": "hands", "types": types, "workloads": held, **rest}, Case)


@pytest.mark.parametrize(
    ("workloads", "expected"),
    [
        ([{"pending": 4}], 1.0),
        ([{"pending": 13}], 3.5),
        ([{"pending": 18}], 4.5),
        ([{"pending": 3, "anti_hostname": True}], 3.0),
        ([{"pending": 4, "spread": ["hostname"], "max_skew": 2}], 2.0),
        ([{"pending": 1, "selector": {"size": "large"}}, {"pending": 3}], 3.5),
        ([{"pending": 3}, {"pending": 2, "requests": {"cpu": "3", "memory": "1Gi"}}], 3.0),
    ],
)
def test_the_optimum_of_new_nodes(workloads: list[dict[str, Any]], expected: float) -> None:
    assert cheapest_price(case_of(*workloads)) == pytest.approx(expected)


def test_the_optimum_gives_room_on_nodes_that_run_to_the_pods_that_save_most() -> None:
    """Without the pod of three cores on the running node a second node is needed."""
    nodes = [{"name": "n0", "type": "small", "zone": "zone-a"}]
    there: dict[str, Any] = {"pending": 0, "placed": {"n0": 1}}
    workloads: list[dict[str, Any]] = [there, {"pending": 4}, {"pending": 1, "requests": {"cpu": "3", "memory": "1Gi"}}]
    assert cheapest_price(case_of(*workloads, nodes=nodes)) == pytest.approx(1.0)
    repelling: list[dict[str, Any]] = [{"pending": 1, "placed": {"n0": 1}, "anti_hostname": True}]
    assert cheapest_price(case_of(*repelling, nodes=nodes)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", sorted(SMALL))
def test_small_cases_are_within_two_per_cent_of_the_optimum(name: str) -> None:
    optimum = cheapest_price(SMALL[name])
    assert optimum * (1 - 1e-9) <= price_of(SMALL[name]) <= optimum * 1.02
