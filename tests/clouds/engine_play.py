"""The whole engine over a vendor's plugin and the server behind it, on virtual time: what every vendor's failure scenarios
have in common.

Two groups, one cheap and one dear, and pods that want three machines.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from nodewright.model.provisioning_request import BEST_EFFORT_ATOMIC
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.testkit import play

CHEAP, DEAR = "cheap", "dear"
PODS_AT = 5.0


class VendorCloud(Protocol):
    """The server that stands for a vendor's cloud."""

    def machines(self, group: str, /) -> frozenset[str]:
        """Return the provider ids of what lives in a group."""


def told(result: SimulationResult, reason: str) -> list[str]:
    """The messages of all events of one reason."""
    return [held.event.message for held in result.events if held.event.reason == reason]


class EnginePlay:
    """``names`` are the groups by their role, ``settings`` flags of nodewright. ``run`` is called once.

    Consolidation is off: it would later move the pods back to the cheap group.
    """

    def __init__(
        self,
        name: str,
        plugin_class: Callable[[ProviderContext], object],
        cloud: VendorCloud,
        clock: FakeClock,
        names: Mapping[str, str],
        options: Mapping[str, Any],
        *,
        end: float = 1500.0,
        settings: Mapping[str, Any] | None = None,
        as_request: bool = False,
    ) -> None:
        self.names = names
        self._plugin_class, self._cloud, self._clock = plugin_class, cloud, clock
        self._scenario: dict[str, Any] = {
            "duration": end,
            "seed": 1,
            "settings": {"expander": "price", "consolidation-policy": "off", **(settings or {})},
            "providers": {name: options},
        }
        pod = {"cpu": "1500m", "memory": 0}
        if as_request:  # for the same machines, all or none
            asked = {
                "name": "batch",
                "class": BEST_EFFORT_ATOMIC,
                "at": PODS_AT,
                "pod_sets": [{"count": 3, "pod": pod}],
            }
            self._scenario["provisioning_requests"] = [asked]
        else:
            self._scenario["deployments"] = [{"name": "web", "replicas": 3, "at": PODS_AT, "pod": pod}]
        self._happenings: list[tuple[float, Callable[[], object]]] = []

    def delete_request(self, at: float) -> None:
        """The user deletes the first ProvisioningRequest."""
        self._scenario["provisioning_requests"][0]["deleted_at"] = at

    def request_more(self, name: str, *, count: int, at: float) -> None:
        """One more ProvisioningRequest, for so many machines."""
        pod_sets = [{"count": count, "pod": {"cpu": "1500m", "memory": 0}}]
        asked = {"name": name, "class": BEST_EFFORT_ATOMIC, "at": at, "pod_sets": pod_sets}
        self._scenario["provisioning_requests"].append(asked)

    def at(self, moment: float, happening: Callable[[], object]) -> None:
        self._happenings.append((moment, happening))

    def groups(self) -> Iterable[str]:
        """Return every group whose machines get a kubelet."""
        return self.names.values()

    def running_machines(self) -> Mapping[str, str]:
        return {machine: group for group in self.groups() for machine in self._cloud.machines(group)}

    def next_change(self) -> float:
        return math.inf

    def run(self) -> SimulationResult:
        """Every pod runs in the end, or the test says why not."""
        return play(
            self._plugin_class,
            self,
            self._scenario,
            clock=self._clock,
            node_groups=[f"0:10:{name}" for name in self.names.values()],
            at=self._happenings,
        )
