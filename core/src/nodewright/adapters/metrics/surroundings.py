"""Counts that other parts keep anyway: read when Prometheus asks, not copied in every loop."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_OWN = "nodewright"


class LeaseCounts(NamedTuple):
    """``remaining`` in seconds; None where nobody is elected."""

    renewed: int = 0
    failed: int = 0
    remaining: float | None = None


class ProviderCalls(NamedTuple):
    """Calls of one operation with one result."""

    provider: str
    operation: str
    result: str
    calls: int
    seconds: float


def _no_requests() -> Mapping[tuple[str, str, int], int]:
    return {}


def _no_calls() -> tuple[ProviderCalls, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the counts are. ``kube_requests`` by verb, resource and HTTP status; ``hooks`` are calls to plugins,
    ``cloud_calls`` those that plugins made of their clouds, as far as they count them.
    """

    kube_requests: Callable[[], Mapping[tuple[str, str, int], int]] = _no_requests
    lease: Callable[[], LeaseCounts] = LeaseCounts
    hooks: Callable[[], tuple[ProviderCalls, ...]] = _no_calls
    cloud_calls: Callable[[], tuple[ProviderCalls, ...]] = _no_calls
    dropped_events: Callable[[], int] = int
    state_writes: Callable[[], int] = int


class Surroundings(Collector):
    """Registers itself."""

    def __init__(self, registry: CollectorRegistry, sources: Sources) -> None:
        self._sources = sources
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        yield from self._kube()
        yield from self._lease()
        yield from _calls("hook_calls", "Calls to plugins", self._sources.hooks())
        yield from _calls("cloud_api_calls", "Calls of clouds' APIs", self._sources.cloud_calls())

    def _kube(self) -> Iterator[Metric]:
        requests = _counter(
            "kube_requests", "Requests to the API server; code 0: no answer.", "verb", "resource", "code"
        )
        for (verb, resource, code), count in sorted(self._sources.kube_requests().items()):
            requests.add_metric((verb, resource, str(code)), count)
        yield requests
        for name, text, count in (
            ("events_dropped", "Events that the API server did not take in time.", self._sources.dropped_events()),
            ("state_writes", "Writes of the ConfigMaps with the engine's memory.", self._sources.state_writes()),
        ):
            found = _counter(name, text)
            found.add_metric((), count)
            yield found

    def _lease(self) -> Iterator[Metric]:
        counts = self._sources.lease()
        renewals = _counter("lease_renewals", "Tries to take or renew the lease.", "result")
        renewals.add_metric(("renewed",), counts.renewed)
        renewals.add_metric(("failed",), counts.failed)
        yield renewals
        remaining = GaugeMetricFamily(
            f"{_OWN}_lease_remaining_seconds", "For how long nobody else may lead; absent where nobody is elected."
        )
        if counts.remaining is not None:
            remaining.add_metric((), counts.remaining)
        yield remaining


def _calls(name: str, text: str, found: tuple[ProviderCalls, ...]) -> Iterator[Metric]:
    labels = ("provider", "operation", "result")
    calls = _counter(name, f"{text}.", *labels)
    seconds = _counter(f"{name}_seconds", f"{text}: time spent in them.", *labels)
    for one in found:
        calls.add_metric((one.provider, one.operation, one.result), one.calls)
        seconds.add_metric((one.provider, one.operation, one.result), one.seconds)
    yield calls
    yield seconds


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"{_OWN}_{name}", text, labels=labels)
