"""Builds the providers that the settings name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from nodewright.adapters.provider import CallRunner, CallSettings, ProviderClient, load_provider
from nodewright.model.clock import Clock
from nodewright.model.settings import ProviderSettings
from nodewright.model.write_fence import WriteFence
from nodewright.spec.hooks import ProviderContext


@dataclass(frozen=True, kw_only=True)
class Connector:
    """Builds providers with a clock, a random seed and a runner that makes the calls (by default threads).

    ``honours_retry_after``: as in CallSettings; CA does not. ``gate`` is asked before each write.
    """

    clock: Clock
    seed: int = 0
    dry_run: bool = True
    honours_retry_after: bool = True
    make_runner: Callable[[], CallRunner | None] = lambda: None
    gate: WriteFence | None = None

    def connect(self, name: str, settings: ProviderSettings) -> ProviderClient:
        """Build one provider's client; raise PluginError or ConfigError."""
        context = ProviderContext(
            clock=self.clock,
            random=Random(f"{self.seed}/{name}"),
            options=settings.options,
            node_group_specs=settings.nodes,
            auto_discovery_specs=settings.node_group_auto_discovery,
            dry_run=self.dry_run,
        )
        calls = CallSettings(
            deadline_seconds=settings.call_timeout, dry_run=self.dry_run, honours_retry_after=self.honours_retry_after
        )
        return load_provider(name, context, settings=calls, runner=self.make_runner(), gate=self.gate)

    def connect_all(self, providers: Mapping[str, ProviderSettings]) -> tuple[ProviderClient, ...]:
        """Build a client of each provider, in the order of the settings."""
        return tuple(self.connect(name, settings) for name, settings in providers.items())
