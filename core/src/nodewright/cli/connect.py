"""Builds the providers that the settings name."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nodewright.adapters.provider import CallRunner, CallSettings, ProviderClient, installed_providers, load_provider
from nodewright.adapters.provider.recording import RECORD_VARIABLE, SCHEMA, RecordedSession, Recorder
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
            random=Random(self._seed(name)),
            options=settings.options,
            node_group_specs=settings.nodes,
            auto_discovery_specs=settings.node_group_auto_discovery,
            dry_run=self.dry_run,
            exchanges=self._recorder(name, settings),
        )
        calls = CallSettings(
            deadline_seconds=settings.call_timeout, dry_run=self.dry_run, honours_retry_after=self.honours_retry_after
        )
        return load_provider(name, context, settings=calls, runner=self.make_runner(), gate=self.gate)

    def connect_all(self, providers: Mapping[str, ProviderSettings]) -> tuple[ProviderClient, ...]:
        """Build a client of each provider, in the order of the settings."""
        return tuple(self.connect(name, settings) for name, settings in providers.items())

    def _seed(self, name: str) -> str:
        return f"{self.seed}/{name}"

    def _recorder(self, name: str, settings: ProviderSettings) -> Recorder | None:
        """Return a recorder of the provider's exchanges with its cloud; None: they are not recorded."""
        folder = os.environ.get(RECORD_VARIABLE)
        if not folder:
            return None
        plugin = next((found for found in installed_providers() if found.name == name), None)
        session = RecordedSession(
            schema=SCHEMA,
            provider=name,
            distribution=plugin.distribution if plugin is not None else "",
            version=plugin.version if plugin is not None else "",
            seed=self._seed(name),
            options=dict(settings.options),
            node_group_specs=settings.nodes,
            auto_discovery_specs=settings.node_group_auto_discovery,
            dry_run=self.dry_run,
        )
        return Recorder(Path(folder), session, self.clock, os.environ)
