"""The whole engine over a vendor's plugin and the server behind it, on virtual time: what every vendor's failure scenarios
have in common.

Two groups, one cheap and one dear, and pods that want three machines.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import msgspec

from nodewright.adapters.provider import CallSettings, InlineRunner, connect_provider
from nodewright.engine.planning import Planning
from nodewright.model.settings import ScaleUpSettings, Settings
from nodewright.spec import Capability, NodeStart, ProviderInfo, hookimpl
from nodewright.testkit import FakeClock, build_pod
from nodewright_simulator.controllers import DeploymentController
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.simulation import RunOptions, Simulation

CHEAP, DEAR = "cheap", "dear"
PODS_AT = 5.0
Machines = Callable[[str], frozenset[str]]


class PlayedKubelets:
    """Beside a plugin's own class: kubelets are played for the machines that the cloud has, past the plugin."""

    def play_kubelets(self, clock: FakeClock, machines: Machines, groups: Sequence[str]) -> None:
        self._played_clock = clock
        self._played_machines = machines
        self._played_groups = groups
        self._running_since: dict[str, float] = {}
        self._changes: list[float] = []

    def announce(self, moment: float) -> None:
        """Then machines come or go by themselves, and the cluster shall look."""
        self._changes.append(moment)

    @hookimpl
    def running_machines(self) -> Sequence[NodeStart]:
        return [
            NodeStart(
                instance_id=machine,
                group_id=group,
                node_name=_node_name(machine),
                running_since=self._running_since.setdefault(machine, self._played_clock.now()),
                register_after_seconds=30.0,
            )
            for group in self._played_groups
            for machine in sorted(self._played_machines(group))
        ]

    @hookimpl
    def node_start(self, instance_id: str) -> NodeStart:
        return next(start for start in self.running_machines() if start.instance_id == instance_id)

    @hookimpl
    def next_change(self) -> float:
        return min((moment for moment in self._changes if moment > self._played_clock.now()), default=math.inf)


def with_simulation(info: ProviderInfo) -> ProviderInfo:
    """A plugin's info once its kubelets are played."""
    return msgspec.structs.replace(info, capabilities=info.capabilities | {Capability.SIMULATION})


def _node_name(machine: str) -> str:
    """The last part of an id is not one machine's alone in every cloud."""
    return machine.partition("://")[2].strip("/").replace("/", ".").lower()


def told(result: SimulationResult, reason: str) -> list[str]:
    """The messages of all events of one reason."""
    return [held.event.message for held in result.events if held.event.reason == reason]


class EnginePlay:
    """``names`` are the groups by their role; ``plugin`` has its kubelets played. ``run`` is called once."""

    def __init__(
        self,
        name: str,
        plugin: PlayedKubelets,
        clock: FakeClock,
        names: Mapping[str, str],
        *,
        end: float = 1500.0,
        settings: Settings | None = None,
    ) -> None:
        self.names = names
        self._plugin = plugin
        calls = CallSettings(deadline_seconds=60.0)
        client = connect_provider(name, plugin, clock=clock, runner=InlineRunner(clock), settings=calls)
        chosen = settings or Settings(scale_up=ScaleUpSettings(expander="price"))
        options = RunOptions(end=end, settings=chosen, planning=Planning(strict=True))
        self._simulation = Simulation(clock, [client], options)
        web = DeploymentController(self._simulation.cluster, "web", build_pod("web", cpu="1500m", unschedulable=False))
        self._simulation.agenda.at(PODS_AT, lambda at: web.scale(3, at))

    def at(self, moment: float, happening: Callable[[], object]) -> None:
        def happen(_: float) -> None:
            happening()

        self._simulation.agenda.at(moment, happen)
        self._plugin.announce(moment + 1.0)

    def run(self) -> SimulationResult:
        """Every pod runs in the end, or the test says why not."""
        return self._simulation.run()
