"""How far mixes are from the optimum where the bound that splits pods is loose: a bound by whole fillings of nodes."""

from typing import Any

import msgspec
import pytest

from cost import CASES, measure
from cost_bound import pattern_bound
from cost_cases import Case, read_cases
from cost_optimum import cheapest_price
from nodewright.cli.settings.load import load_settings

CASES_BY_NAME = {case.name: case for case in read_cases([CASES])}


def case_of(workloads: list[dict[str, Any]], **changes: Any) -> Case:
    """Return a case in which 4 cores cost 1 and 16 cost 3.5."""
    types = [
        {
            "name": name,
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "20"},
            "offers": [{"zone": "zone-a", "price": price}],
        }
        for name, cpu, memory, price in (("small", "4", "8Gi", 1.0), ("large", "16", "64Gi", 3.5))
    ]
    held = [{"name": f"w{n}", **workload} for n, workload in enumerate(workloads)]
    rest = {"karpenter": {"price": 2.0}, "lp_bound": 1.0, **changes}
    return msgspec.convert({"name": "hand", "family": "hands", "types": types, "workloads": held, **rest}, Case)


def test_pods_of_more_than_half_a_node_need_a_node_each() -> None:
    """Split, three of them would need two and a quarter nodes."""
    requests = {"cpu": "3", "memory": "1Gi"}
    assert pattern_bound(case_of([{"pending": 3, "requests": requests}]), 10) == pytest.approx(3.0)


def test_nodes_that_are_there_cost_nothing() -> None:
    nodes = [{"name": "n0", "type": "small", "zone": "zone-a"}]
    case = case_of([{"pending": 3, "requests": {"cpu": "3", "memory": "1Gi"}}], nodes=nodes)
    assert pattern_bound(case, 10) == pytest.approx(2.0)


@pytest.mark.parametrize("name", ["p-shared-011", "p-shared-027", "p-shared-037"])
def test_no_optimum_is_below_the_bound(name: str) -> None:
    case = CASES_BY_NAME[name]
    assert pattern_bound(case, 6) <= cheapest_price(case) * (1 + 1e-9)


def test_where_the_bound_is_loose_the_mix_is_within_seven_per_cent_of_that_of_fillings() -> None:
    """p-shared-025 has 77 pods, half of which go on nodes that run."""
    case = CASES_BY_NAME["p-shared-025"]
    bound = pattern_bound(case, 14)
    assert bound > 1.05 * case.lp_bound
    price = measure(case, load_settings({"expander": "least-cost", "scale-down-enabled": "false"}, {}))["price"]
    assert bound <= price <= 1.07 * bound
