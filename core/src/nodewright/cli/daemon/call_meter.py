"""How often and how long the providers call their clouds, for the metrics."""

from collections.abc import Mapping, Sequence

from nodewright.adapters.metrics import ProviderCalls
from nodewright.adapters.provider import ProviderClient
from nodewright.model.errors import ProviderError


class CallMeter:
    """Calls that providers count. Call ``take`` in the loop's thread; the other methods are safe in any thread."""

    def __init__(self, providers: Sequence[ProviderClient]) -> None:
        self._providers = providers
        self._cloud: tuple[ProviderCalls, ...] = ()
        self._refreshed = 0.0

    def take(self) -> float:
        """Read the counts, once per loop; return the seconds that refreshing took in this loop."""
        found = []
        for provider in self._providers:
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
            for provider in self._providers
            for hook, stats in provider.stats().items()
            for result, calls, seconds in (
                ("ok", stats.calls - stats.errors, stats.seconds),
                ("error", stats.errors, stats.seconds),
            )
        )

    def _refresh_seconds(self) -> float:
        stats: list[Mapping[str, float]] = [
            {hook: held.seconds for hook, held in provider.stats().items()} for provider in self._providers
        ]
        return sum(held.get("refresh", 0.0) for held in stats)
