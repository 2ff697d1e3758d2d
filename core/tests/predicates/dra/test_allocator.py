"""The search: what it finds, and how it ends. The conformance kind ``dra`` compares it with the real allocator."""

from random import Random
from typing import Any

import pytest
from core.tests.predicates.dra.devices import asks, claim, device_class, gpu, slice_of
from core.tests.predicates.manifests import node
from msgspec.structs import replace

from nodewright.model.decode import convert_object
from nodewright.model.devices import ResourcePool, ResourceSlice
from nodewright.predicates.dra.allocator import AllocationContext, InUse, Refusal, RefusalCode, _DeviceSearch, allocate
from nodewright.predicates.dra.pools import SliceIndex
from nodewright.predicates.dra.selectors import Selectors


def search(slices: list[ResourceSlice], *specs: dict[str, Any], **extras: Any) -> list[list[str]] | Refusal:
    """Return the names of the devices of each claim on the node n, or why there are none."""
    pools = SliceIndex(slices).gather(node("n"))
    claims = [claim("c", spec).spec.devices for spec in specs]
    found = allocate(claims, AllocationContext(pools, {"gpu": device_class()}, Selectors(), **extras))
    return found if isinstance(found, Refusal) else [[given.candidate.id[2] for given in one] for one in found]


def code(found: list[list[str]] | Refusal) -> RefusalCode:
    assert isinstance(found, Refusal), found
    return found.code


def test_claims_take_devices_in_their_order() -> None:
    slices = [slice_of("n", gpu("a"), gpu("b"), gpu("c"))]
    assert search(slices, asks(1), asks(2)) == [["a"], ["b", "c"]]
    assert code(search(slices, asks(2), asks(2))) is RefusalCode.CANNOT_ALLOCATE


def test_devices_in_use_are_not_given_again() -> None:
    slices = [slice_of("n", gpu("a"), gpu("b"))]
    in_use = (InUse(frozenset({("gpu.example.com", "n", "a")})),)
    assert search(slices, asks(1), in_use=in_use) == [["b"]]


def test_devices_of_another_node_are_out_of_reach() -> None:
    assert code(search([slice_of("m", gpu("a"))], asks(1))) is RefusalCode.CANNOT_ALLOCATE


def test_a_later_request_makes_an_earlier_one_choose_again() -> None:
    """The first request takes the only a100 at first; then the second has none."""
    only = {"name": "r1", "exactly": {"deviceClassName": "gpu", "selectors": [_model("a100")]}}
    assert search([slice_of("n", gpu("a"), gpu("b", "l4"))], asks(1, only)) == [["b", "a"]]


def test_an_incomplete_pool_offers_nothing() -> None:
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    slices = [_of_pool(slice_of("n", gpu(name), pool=name), pool) for name in ("a", "b")]
    assert search(slices, asks(2)) == [["a", "b"]]
    assert code(search(slices[:1], asks(1))) is RefusalCode.CANNOT_ALLOCATE
    everything = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    assert code(search(slices[:1], asks(everything))) is RefusalCode.POOL_INCOMPLETE


def test_what_cannot_be_met_among_equal_devices_is_decided_at_once() -> None:
    """kubernetes#131730: without the comparison of equal devices the search tries all orders, 12! here."""
    slices = [slice_of("n", *[gpu(f"g{index:02}") for index in range(16)])]
    wanted = [1] * 12 + [{"name": "last", "exactly": {"deviceClassName": "gpu", "selectors": [_model("h100")]}}]
    assert code(search(slices, asks(*wanted), max_steps=5_000)) is RefusalCode.CANNOT_ALLOCATE


def test_a_search_that_takes_too_many_steps_is_undecided() -> None:
    """Every device has a value of its own, so that none stands for another."""
    devices = [gpu(f"g{index:02}", f"m{index}") for index in range(16)]
    last = {"name": "last", "exactly": {"deviceClassName": "gpu", "selectors": [_model("h100")]}}
    spec = asks(*[1] * 12, last, constraints=[{"distinctAttribute": "gpu.example.com/model"}])
    found = search([slice_of("n", *devices)], spec, max_steps=500)
    assert code(found) is RefusalCode.UNDECIDED
    assert isinstance(found, Refusal)
    assert found.text.startswith("undecided")


@pytest.mark.parametrize("seed", range(300))
def test_passing_over_equal_devices_changes_no_result(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    devices = [_random_device(chance, index) for index in range(chance.randint(2, 6))]
    specs = [_random_claim(chance) for _ in range(chance.randint(1, 2))]
    found = search([slice_of("n", *devices)], *specs, max_steps=10**6)
    monkeypatch.setattr(_DeviceSearch, "_kind", lambda *_: object())
    assert found == search([slice_of("n", *devices)], *specs, max_steps=10**6)


def _random_device(chance: Random, index: int) -> dict[str, Any]:
    attributes = {"model": {"string": chance.choice("ab")}, "root": {"int": chance.randint(0, 1)}}
    capacity = {"memory": {"value": f"{chance.choice([10, 20])}Gi", "requestPolicy": {"default": "5Gi"}}}
    return {
        "name": f"g{index}",
        "attributes": attributes,
        "capacity": capacity if chance.random() < 0.3 else {},
        "allowMultipleAllocations": chance.random() < 0.3,
    }


def _random_claim(chance: Random) -> dict[str, Any]:
    requests = list[dict[str, Any]]()
    for index in range(chance.randint(1, 3)):
        wanted: dict[str, Any] = {"deviceClassName": "gpu", "count": chance.randint(1, 2)}
        if chance.random() < 0.5:
            wanted["selectors"] = [_model(chance.choice("ab"))]
        if chance.random() < 0.15:
            wanted |= {"allocationMode": "All", "count": 0}
        if chance.random() < 0.2:
            other = {"name": "y", "deviceClassName": "gpu"}
            requests.append({"name": f"r{index}", "firstAvailable": [{"name": "x", **wanted}, other]})
        else:
            requests.append({"name": f"r{index}", "exactly": wanted})
    kind, name = chance.choice(["matchAttribute", "distinctAttribute"]), chance.choice(["model", "root"])
    return asks(*requests, constraints=[{kind: f"gpu.example.com/{name}"}] if chance.random() < 0.5 else [])


@pytest.mark.parametrize(("count", "fits"), [(2, True), (3, False)])
def test_counters_are_shared_by_the_partitions_of_a_card(count: int, fits: bool) -> None:
    uses = [{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]
    partitions = [gpu(f"p{index}", consumesCounters=uses) for index in range(4)]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 2}
    counters = [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]
    slices = [slice_of("n", *partitions), slice_of("n", pool="counters", sharedCounters=counters)]
    slices = [_of_pool(one, pool) for one in slices]
    assert (search(slices, asks(count)) == [[f"p{index}" for index in range(count)]]) is fits


def _of_pool(one: ResourceSlice, pool: dict[str, Any]) -> ResourceSlice:
    return replace(one, spec=replace(one.spec, pool=convert_object(ResourcePool, pool)))


def _model(name: str) -> dict[str, Any]:
    return {"cel": {"expression": f'device.attributes["gpu.example.com"].model == "{name}"'}}
