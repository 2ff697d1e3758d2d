"""CEL selectors: what is evaluated, how often, and without the extra."""

import subprocess
import sys
from typing import Any

import pytest
from core.tests.predicates.dra.devices import gpu, slice_of
from core.tests.predicates.manifests import node

from nodewright.predicates.dra import selectors
from nodewright.predicates.dra.allocator import SearchError
from nodewright.predicates.dra.pools import Candidate, SliceIndex

HERE = 'device.attributes["gpu.example.com"]'


def candidates(*devices: dict[str, Any]) -> tuple[Candidate, ...]:
    return SliceIndex([slice_of("n", *devices)]).gather(node("n")).candidates


def holds(expression: str, **device: Any) -> bool:
    return selectors.Selectors()(candidates(gpu("a", **device))[0], expression)


CARD = {
    "attributes": {
        "model": {"string": "a100"},
        "index": {"int": 3},
        "ecc": {"bool": True},
        "driverVersion": {"version": "1.10.0-rc.2"},
        "other.example.com/tier": {"string": "gold"},
    },
    "capacity": {"memory": {"value": "80Gi"}},
}


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com" && !device.allowMultipleAllocations',
        f'{HERE}.model.matches("^a[0-9]+$") && {HERE}.model.find("[0-9]+") == "100"',
        f"cel.bind(here, {HERE}, here.index == 3 && here.ecc)",
        f'{HERE}.driverVersion.isGreaterThan(semver("1.10.0-rc.1")) && {HERE}.driverVersion.isLessThan(semver("1.10.0"))',
        f"{HERE}.driverVersion.minor() == 10",
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("81920Mi")) == 0',
        'device.capacity["gpu.example.com"].memory.sub(quantity("40Gi")) == quantity("40Gi")',
        'device.capacity["gpu.example.com"].memory.asInteger() == 85899345920',
        f'{HERE}.?missing.orValue("none") == "none" && !("missing" in {HERE})',
        'device.attributes["other.example.com"].tier == "gold" && !("tier" in device.attributes["third.example.com"])',
        'isQuantity("1Gi") && !isQuantity("much") && isSemver("1.2.3") && !isSemver("1.2") && isSemver("v1.2", true)',
        'sets.intersects(["a100"], [device.attributes["gpu.example.com"].model]) && cidr("10.0.0.0/8").containsIP("10.1.2.3")',
    ],
)
def test_what_kubernetes_adds_to_cel_is_known(expression: str) -> None:
    assert holds(expression, **CARD)


@pytest.mark.parametrize(
    "expression", [f"{HERE}.missing == 1", f"{HERE}.index", "no such(", f"{HERE}.model + 1 == 2", "x" * 20_000]
)
def test_what_cannot_be_evaluated_is_an_error(expression: str) -> None:
    with pytest.raises(SearchError, match="CEL runtime error"):
        holds(expression, **CARD)


def test_a_selector_is_evaluated_once_per_distinct_device() -> None:
    """The devices differ in their uuid; the expression reads the model only."""
    evaluator = selectors.Selectors()
    for candidate in candidates(*[gpu(f"g{index}", "l4" if index % 2 else "a100") for index in range(50)]):
        evaluator(candidate, f'{HERE}.model == "l4"')
    assert evaluator.evaluations == 2
    for candidate in candidates(*[gpu(f"g{index}") for index in range(5)]):
        evaluator(candidate, f"{HERE}.all(name, size(name) > 1)")
    assert evaluator.evaluations == 7


_WITHOUT = """
import sys
sys.modules["cel_expr_python"] = None
from core.tests.predicates.dra.devices import asks, context, device_class, gpu, slice_of, template
from core.tests.predicates.manifests import cluster, node, pod, refusals
asked = pod(resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
for expressions in ((), ("true",)):
    given = context([slice_of("n", gpu("a"))], [device_class("gpu", *expressions)], templates=[template("t", asks(1))])
    print(refusals(cluster(node("n"), context=given), asked))
"""


def test_without_the_extra_only_claims_with_selectors_are_refused() -> None:
    found = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == ["{}", str({"n": f"DynamicResources: {selectors.NO_CEL}"})]
