"""The parts of ``nodewright run`` that need nothing but settings, and each other."""

import os
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nodewright.adapters.kube.lease import LeaseOptions
from nodewright.adapters.logs import ConditionLog
from nodewright.adapters.metrics import ProviderCalls
from nodewright.adapters.provider import ProviderClient
from nodewright.adapters.web import Pages, WebServer
from nodewright.adapters.web.health import HealthLimits
from nodewright.model.errors import ProviderError
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation

_IN_A_POD = "KUBERNETES_SERVICE_HOST"


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """``shadow``: another autoscaler works here, and is compared with; nothing is written then, as in a ``dry_run``."""

    dry_run: bool = False
    shadow: bool = False
    once: bool = False
    seed: int | None = None

    @property
    def only_looks(self) -> bool:
        return self.dry_run or self.shadow


def lease_options(settings: Settings, is_first: Callable[[], bool]) -> LeaseOptions:
    leader = settings.leader
    return LeaseOptions(
        namespace=leader.leader_elect_resource_namespace or settings.cluster.namespace,
        name=leader.leader_elect_resource_name,
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        duration=leader.leader_elect_lease_duration,
        renew_deadline=leader.leader_elect_renew_deadline,
        retry_period=leader.leader_elect_retry_period,
        is_first=is_first,
    )


def make_servers(settings: Settings, public: Pages, private: Pages) -> tuple[WebServer, ...]:
    """``public`` pages may be read by everybody, so that they are the ones that leave a pod. Raises ConfigError."""
    serving = settings.serving
    address = serving.address or usual_address(os.environ)
    servers: tuple[WebServer, ...] = (WebServer("address", address, public),)
    if serving.debug_address:
        servers += (WebServer("debug_address", serving.debug_address, private),)
    return servers


def usual_address(environ: Mapping[str, str]) -> str:
    """CA's inside a pod; elsewhere nobody else is told anything."""
    return ":8085" if _IN_A_POD in environ else "127.0.0.1:8085"


def health_limits(settings: Settings) -> HealthLimits:
    serving = settings.serving
    return HealthLimits(
        inactivity=serving.max_inactivity, failing=serving.max_failing_time, startup=serving.max_startup_time
    )


def tell_unreadable(lasting: ConditionLog, seen: Observation) -> None:
    """Say which providers and groups begin to fail: what nobody asked of them would else be told nowhere."""
    failing = {name: provider.problem for name, provider in seen.providers.items()}
    for name, problem in failing.items():
        lasting.see(f"provider {name}", problem)
    for ref, group in seen.groups.items():
        lasting.see(f"group {ref}", "" if failing.get(ref.provider) else group.problem)


class CloudMeter:
    """What providers count of themselves; ``take`` in the loop's thread, the rest in any."""

    def __init__(self, providers: Callable[[], Sequence[ProviderClient]]) -> None:
        self._providers = providers
        self._cloud: tuple[ProviderCalls, ...] = ()
        self._refreshed = 0.0

    def take(self) -> float:
        """Once in a loop; answers the seconds that refreshing took in it."""
        found = []
        for provider in self._providers():
            try:
                counted = provider.api_calls() or ()
            except ProviderError:
                continue
            found += [ProviderCalls(provider.name, c.operation, c.result, c.calls, c.seconds) for c in counted]
        self._cloud = tuple(found)
        before, self._refreshed = self._refreshed, self._refresh_seconds()
        return self._refreshed - before

    def cloud_calls(self) -> tuple[ProviderCalls, ...]:
        return self._cloud

    def hooks(self) -> tuple[ProviderCalls, ...]:
        return tuple(
            ProviderCalls(provider.name, hook, result, calls, seconds if result == "ok" else 0.0)
            for provider in self._providers()
            for hook, stats in provider.stats().items()
            for result, calls, seconds in (
                ("ok", stats.calls - stats.errors, stats.seconds),
                ("error", stats.errors, stats.seconds),
            )
        )

    def _refresh_seconds(self) -> float:
        stats: list[Mapping[str, float]] = [
            {hook: held.seconds for hook, held in provider.stats().items()} for provider in self._providers()
        ]
        return sum(held.get("refresh", 0.0) for held in stats)
