"""PUBLIC: play the whole engine against a provider in a test, on virtual time.

The engine and the provider are the real ones; API server, scheduler, kubelets and workloads are simulated.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import msgspec

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import CallRunner, CallSettings, ProviderClient, connect_provider, load_provider
from nodewright.engine.planning import Planning
from nodewright.model.errors import ConfigError
from nodewright.spec import Capability, NodeStart, ProviderContext, ProviderInfo, hookimpl
from nodewright_simulator.build import BuildOptions, LoadProvider, build_simulation
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import Scenario
from nodewright_simulator.scenario_file import read_scenario

REGISTERS_AFTER = 30.0

Happenings = Iterable[tuple[float, Callable[[], object]]]


class PlayedCloud(Protocol):
    """The author's fake of a cloud, as far as a play needs it."""

    def running_machines(self) -> Mapping[str, str]:
        """Return the machines that run now: providerID of the node that it becomes → id of its node group."""

    def next_change(self) -> float:
        """Return when machines come or go by themselves next (seconds); infinity if they do so only at a write."""


def play(
    plugin_class: Callable[[ProviderContext], object],
    cloud: PlayedCloud,
    scenario: str | Mapping[str, Any],
    *,
    clock: VirtualClock,
    node_groups: Sequence[str] = (),
    at: Happenings = (),
) -> SimulationResult:
    """Run a scenario with the engine, a provider and the fake of its cloud. Return what happened.

    ``scenario`` is YAML text or a mapping, with the keys of a scenario file. It has one provider, whose options the plugin
    gets. ``clock`` is the clock of the fake cloud, which stands at 0. ``node_groups`` are the values of ``--nodes``. ``at`` are
    pairs of a moment, in seconds, and what happens then. A machine's node registers 30 seconds after the machine runs.

    Raise ConfigError if the scenario is wrong, and InvariantError if the engine plans what its independent check refuses.
    """
    if clock.now():
        raise ConfigError(f"play: the clock must stand at 0, but it stands at {clock.now():g}")
    read = _read(scenario)
    if len(read.providers) != 1:
        raise ConfigError(f"{read.name}: providers: a play has one provider, but there are {len(read.providers)}")
    played = _with_kubelets(plugin_class)

    def load(name: str, context: ProviderContext, *, settings: CallSettings, runner: CallRunner) -> ProviderClient:
        plugin = played(replace(context, node_group_specs=tuple(node_groups)))
        plugin.play_kubelets(cloud, clock)
        client = connect_provider(name, plugin, clock=clock, runner=runner, settings=settings)
        client.demand_limits(node_groups)
        return client

    return _run(read, load, clock, at)


class Cluster:
    """A cluster on installed providers that can be simulated, such as ``fake``. The fixture ``cluster`` returns one."""

    def play(self, **scenario: Any) -> SimulationResult:
        """Run a scenario, given by the keys of a scenario file, and return what happened. Errors are those of ``play``."""
        return _run(_read(scenario), load_provider, VirtualClock(), ())


def _read(scenario: str | Mapping[str, Any]) -> Scenario:
    if isinstance(scenario, str):
        return read_scenario(scenario, "scenario")
    try:
        text = json.dumps({"name": "play", **scenario})
    except TypeError as error:
        raise ConfigError(f"scenario: {error}") from error
    return read_scenario(text, "scenario")


def _run(scenario: Scenario, load: LoadProvider, clock: VirtualClock, at: Happenings) -> SimulationResult:
    simulation = build_simulation(scenario, BuildOptions(load=load, clock=clock, planning=Planning(strict=True)))
    for moment, happening in at:
        simulation.steer(moment, partial(_happen, happening))
    return simulation.run()


def _happen(happening: Callable[[], object], at: float) -> None:
    del at
    happening()


def _with_kubelets(plugin_class: Callable[[ProviderContext], object]) -> Any:
    """Return the plugin's class with the hooks of a simulation, which know the machines from the cloud itself."""
    if not isinstance(plugin_class, type):
        raise ConfigError("play: plugin_class must be a class")
    return type(f"Played{plugin_class.__name__}", (_PlayedKubelets, plugin_class), {})


class _PlayedKubelets:
    """The hooks of the capability SIMULATION, put before a plugin's own class."""

    def play_kubelets(self, cloud: PlayedCloud, clock: VirtualClock) -> None:
        self._played_cloud = cloud
        self._played_clock = clock
        self._running_since: dict[str, float] = {}

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        info: ProviderInfo = super().provider_info()  # type: ignore[misc]
        return msgspec.structs.replace(info, capabilities=info.capabilities | {Capability.SIMULATION})

    @hookimpl
    def running_machines(self) -> Sequence[NodeStart]:
        running, now = self._played_cloud.running_machines(), self._played_clock.now()
        self._running_since = {machine: self._running_since.get(machine, now) for machine in running}
        return [
            NodeStart(
                instance_id=machine,
                group_id=running[machine],
                node_name=(machine.partition("://")[2] or machine).strip("/").replace("/", ".").lower(),
                running_since=since,
                register_after_seconds=REGISTERS_AFTER,
            )
            for machine, since in sorted(self._running_since.items())
        ]

    @hookimpl
    def next_change(self) -> float:
        return self._played_cloud.next_change()
