"""A provider that raises, hangs or cannot be refreshed affects only its own groups."""

from typing import Any

import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallSettings, InlineRunner, ProviderClient, connect_provider
from nodewright.engine.planning import Planning
from nodewright.model.settings import ScaleUpSettings, Settings
from nodewright.spec import ProviderContext, ProviderInfo, hookimpl
from nodewright.testkit import build_pod
from nodewright_fake import FakeProvider
from nodewright_simulator.controllers import DeploymentController
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.simulation import RunOptions, Simulation

TROUBLE = [
    {"kind": "hang", "hook": "refresh"},
    {"kind": "hang", "hook": "target_size"},
    {"kind": "crash", "hook": "refresh"},
    {"kind": "crash", "hook": "instances"},
    {"kind": "crash", "hook": "increase_size"},
    {"kind": "refuse", "hook": "*", "error": "access_denied"},
    {"kind": "throttle", "hook": "node_groups", "retry_after": "30s"},
    {"kind": "slow", "hook": "refresh", "seconds": "50s"},
]


class NamedFake(FakeProvider):
    """A fake provider under another name."""

    def __init__(self, context: ProviderContext, name: str) -> None:
        super().__init__(context)
        self._name = name

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        return ProviderInfo(name=self._name, capabilities=super().provider_info().capabilities)


def connect(name: str, clock: VirtualClock, price: float, faults: list[dict[str, Any]]) -> ProviderClient:
    group = {"name": "g", "cpu": 4, "max_size": 10, "price_per_hour": price}
    plugin = NamedFake(ProviderContext(clock=clock, options={"groups": [group], "faults": faults}), name)
    settings = CallSettings(deadline_seconds=20.0)
    return connect_provider(name, plugin, clock=clock, runner=InlineRunner(clock), settings=settings)


def run(faults: list[dict[str, Any]]) -> SimulationResult:
    """The cheap provider is in trouble, the dear one is well."""
    clock = VirtualClock()
    providers = [connect("cheap", clock, 0.1, faults), connect("dear", clock, 0.2, [])]
    settings = Settings(scale_up=ScaleUpSettings(expander="price"))
    simulation = Simulation(clock, providers, RunOptions(end=1800.0, settings=settings, planning=Planning(strict=True)))
    web = DeploymentController(simulation.cluster, "web", build_pod("web", cpu="1", memory="1Gi", unschedulable=False))
    simulation.agenda.at(5.0, lambda at: web.scale(8, at))
    return simulation.run()


@pytest.mark.parametrize("fault", TROUBLE, ids=lambda fault: f"{fault['kind']}-{fault['hook']}")
def test_the_other_provider_serves_the_pods(fault: dict[str, Any]) -> None:
    result = run([fault])
    assert result.final.pending == 0
    assert sum(result.final.nodes.values()) == 2
    assert result.problems == ()
    if fault["kind"] != "slow":  # slow is no failure: its answers come in the end
        assert result.final.nodes == {"dear/g": 2}


def test_a_provider_that_fails_later_keeps_what_it_has() -> None:
    result = run([{"kind": "refuse", "hook": "refresh", "error": "unavailable", "start": "5m"}])
    assert result.final.nodes == {"cheap/g": 2}
