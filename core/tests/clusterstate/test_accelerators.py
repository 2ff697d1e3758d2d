"""A node without its accelerators is not ready yet (docs/behaviour/loop.md)."""

from dataclasses import replace

import pytest
from core.tests.predicates.dra.devices import asks, claim, context, gpu, slice_of
from msgspec import structs

from nodewright.clusterstate.accelerators import Accelerators, DeviceCounter
from nodewright.model.group import slices_for
from nodewright.model.pod import ResourceClaimReference
from nodewright.model.settings import Settings
from nodewright.planner.growth import count_ready_nodes
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_node, build_pod
from nodewright.testkit.world import PROVIDER, World, grown, ref
from nodewright.validate.quotas import Devices

LABEL, RESOURCE = "gpu-type", "vendor/gpu"


@pytest.mark.parametrize(
    ("labels", "devices", "age", "expected"),
    [
        ({LABEL: "t"}, 1, 60, "ready"),
        ({LABEL: "t"}, 0, 60, "not_started"),
        ({LABEL: "t"}, 0, 901, "unready"),
        ({}, 0, 60, "ready"),
    ],
)
def test_readiness_waits_for_the_devices(labels: dict[str, str], devices: int, age: float, expected: str) -> None:
    world = World()
    world.provider = ProviderSeen(name=PROVIDER, gpu_label=LABEL, gpu_resources=(RESOURCE,))
    world.add_group("g", 1)
    world.nodes = [
        build_node(
            "n",
            provider_id="cloud:///g/0",
            labels=labels,
            extended={RESOURCE: devices},
            created_at=world.now - age,
        )
    ]
    state = world.state()
    assert getattr(state.groups[ref("g")].readiness, expected) == ("n",)
    assert (ref("g") in state.memory.samples) is (expected == "ready")


def published(*, driver: str = "gpu.example.com", parts: int = 1) -> World:
    """Return a world with a labelled node whose devices only ResourceSlices show."""
    world = World()
    world.provider = ProviderSeen(name=PROVIDER, gpu_label=LABEL, gpu_resources=(RESOURCE,))
    world.add_group("g", 1, labels={LABEL: "t"})
    one = slice_of("g-0", gpu("a"))
    pool = structs.replace(one.spec.pool, resource_slice_count=parts)
    world.context = context([structs.replace(one, spec=structs.replace(one.spec, driver=driver, pool=pool))])
    return world


@pytest.mark.parametrize(
    ("driver", "parts", "is_up"),
    [("gpu.example.com", 1, True), ("gpu.example.com", 2, False), ("compute-domain.example.com", 1, False)],
)
def test_a_node_whose_devices_a_driver_publishes_is_up(driver: str, parts: int, is_up: bool) -> None:
    """Without the device plugin no resource counts its devices. Other drivers do not stand for them."""
    world = published(driver=driver, parts=parts)
    state = world.state()
    assert (state.groups[ref("g")].readiness.ready == ("g-0",)) is is_up
    assert (ref("g") in state.memory.samples) is is_up
    assert count_ready_nodes(state, Settings().templates) == is_up
    assert bool(world.plan(scale_up_from_zero=False).halted) is not is_up


def test_a_template_counts_the_whole_devices_of_its_slices() -> None:
    world = published()
    whole, part = ({"name": kind, "attributes": {"type": {"string": kind}}} for kind in ("gpu", "mig"))
    slices = (slice_of("template", gpu("a"), gpu("b"), whole, part),)
    template = structs.replace(build_node("template", labels={LABEL: "t"}), device_slices=slices)
    accelerators = Accelerators((LABEL,), (RESOURCE,))
    assert accelerators.count(template) == ("t", 3)
    world.groups[ref("g")] = replace(world.groups[ref("g")], template=template)
    state = world.state()
    assert DeviceCounter(state.observation).count(world.nodes[0]) == ("t", 3)
    assert Devices(state.observation).of(world.nodes[0]) == ("t", 3)


def test_pods_with_claims_wait_for_a_labelled_node_of_the_driver_and_buy_no_second() -> None:
    """The template has the label and the slices, and no resource, as with the option dra_gpus."""
    world = World()
    world.provider = ProviderSeen(name=PROVIDER, gpu_label=LABEL, gpu_resources=(RESOURCE,))
    bare = build_node("template", labels={LABEL: "t"})
    told = structs.replace(bare, device_slices=slices_for("template", (slice_of("", gpu("a")).spec,)))
    world.add_group("g", 0, template=told)
    claims = [claim("c", asks(1))]
    world.context = context([], claims=claims)
    pending = build_pod("p", created_at=world.now - 60)
    wants = (ResourceClaimReference(name="x", resource_claim_name="c"),)
    world.pending = [structs.replace(pending, spec=structs.replace(pending.spec, resource_claims=wants))]
    assert grown(world.plan()) == {"g": (0, 1)}
    world.add_group("g", 1, template=told, labels={LABEL: "t"}, max_size=10)
    world.context = context([slice_of("g-0", gpu("a"))], claims=claims)
    assert world.state().groups[ref("g")].readiness.ready == ("g-0",)
    assert world.plan().actions == ()
