"""A fake cloud on virtual time, with one client."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import Client, connect
from nodewright_fake import FakeCloud, FakeProvider


@dataclass
class Stage:
    """A cloud, its clock and a client that has read it once."""

    clock: FakeClock
    cloud: FakeCloud
    client: Client

    def later(self, seconds: float) -> None:
        """Time passes and the client reads the cloud."""
        self.clock.sleep(seconds)
        self.client.refresh()

    def states(self, group: str) -> list[str]:
        return [instance.state.value for instance in self.client.instances(group)]


SetUp = Callable[..., Stage]


@pytest.fixture
def set_up() -> SetUp:
    """Builds a stage of the given options; group ``a`` in zone z1 and ``b`` in z2 unless said otherwise."""

    def build(seed: int = 1, **options: Any) -> Stage:
        clock = FakeClock(1000)
        groups = [{"name": "a", "size": 1, "zone": "z1"}, {"name": "b", "zone": "z2", "instance_type": "big"}]
        context = ProviderContext(clock=clock, random=Random(seed), options={"groups": groups, **options})
        provider = FakeProvider(context)
        client = connect("fake", provider, clock)
        client.refresh()
        client.node_groups()
        return Stage(clock=clock, cloud=provider.cloud, client=client)

    return build
