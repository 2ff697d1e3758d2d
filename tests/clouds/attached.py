"""A cloud of tests, its clock, and a client that has read it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import Client, connect

C = TypeVar("C")


@dataclass
class Stage(Generic[C]):
    clock: FakeClock
    cloud: C
    client: Client

    def later(self, seconds: float, *wanted: str) -> None:
        """Time passes and the client reads the cloud."""
        self.clock.sleep(seconds)
        self.client.refresh(frozenset(wanted))
        self.client.node_groups()


@dataclass
class Attach(Generic[C]):
    """``attach("0:10:web", discover=("asg:tag=a",), refresh_interval=0)``: a plugin that has read the cloud once.

    ``options`` bring the plugin to the cloud; those of a call replace them.
    """

    vendor: str
    plugin: Callable[[ProviderContext], object]
    cloud: C
    clock: FakeClock
    options: Mapping[str, Any]

    def __call__(
        self, *nodes: str, discover: tuple[str, ...] = (), read: bool = True, dry_run: bool = False, **options: Any
    ) -> Stage[C]:
        context = ProviderContext(
            clock=self.clock,
            random=Random(1),
            options={**self.options, **options},
            node_group_specs=nodes,
            auto_discovery_specs=discover,
            dry_run=dry_run,
        )
        client = connect(self.vendor, self.plugin(context), self.clock)
        stage = Stage(clock=self.clock, cloud=self.cloud, client=client)
        if read:
            stage.later(0)
        return stage
