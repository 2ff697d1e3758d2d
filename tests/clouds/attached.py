"""A cloud of tests, its clock, and a client that has read it."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from nodewright.adapters.provider import ProviderClient
from nodewright.testkit import FakeClock

C = TypeVar("C")


@dataclass
class Stage(Generic[C]):
    clock: FakeClock
    cloud: C
    client: ProviderClient

    def later(self, seconds: float, *wanted: str) -> None:
        """Time passes and the client reads the cloud."""
        self.clock.sleep(seconds)
        self.client.refresh(frozenset(wanted))
        self.client.node_groups()
