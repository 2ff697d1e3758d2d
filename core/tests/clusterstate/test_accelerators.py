"""A node without its accelerators is not ready yet (docs/behaviour/loop.md)."""

import pytest

from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_node
from nodewright.testkit.world import PROVIDER, World, ref

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
