"""Builds the providers of the settings, and checks whether they have the groups of ``--nodes``."""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from nodewright.adapters.provider import CallRunner, CallSettings, ProviderClient, installed_providers, load_provider
from nodewright.adapters.provider.client import ends_alike
from nodewright.adapters.provider.recording import RECORD_VARIABLE, SCHEMA, RecordedSession, Recorder
from nodewright.cli.screen import name_some
from nodewright.model.clock import Clock
from nodewright.model.errors import NodeGroupNotFound, ProviderError
from nodewright.model.group import GroupRef
from nodewright.model.printable import printable, suggest
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


def find_unlisted(providers: Iterable[ProviderClient]) -> Iterator[str]:
    """Yield a sentence for each group of ``--nodes`` that its provider does not have; the providers were read before."""
    for provider in providers:
        yield from filter(None, _find_missing(provider).values())


def find_misspelt(providers: Iterable[ProviderClient], known: Iterable[GroupRef]) -> Iterator[str]:
    """Read the providers, and yield a sentence for each name in ``--nodes`` that stands for no group, now or before.

    ``known`` are groups that existed, by name or id. One of them may be gone: that must not keep the other groups from being
    scaled. Providers that cannot be read now are not checked.
    """
    ids: dict[str, list[str]] = defaultdict(list)
    for ref in known:
        ids[ref.provider].append(ref.group_id.lower())
    for provider in providers:
        if not provider.named:
            continue
        # Nothing is bought or removed by what is read here.
        provider.note_last_write(-math.inf)
        try:
            provider.refresh()
            provider.node_groups()
            missing = _find_missing(provider)
        except ProviderError:
            continue
        for name, sentence in missing.items():
            if sentence and not any(ends_alike(name.lower(), one) for one in ids[provider.name]):
                yield sentence


def _find_missing(provider: ProviderClient) -> dict[str, str]:
    """Return a sentence for each name in ``--nodes`` without a group; an empty one if its group cannot be read.

    A provider may list a group only because the flag names it, and raise NodeGroupNotFound when the group is read.
    """
    missing = {}
    if provider.unlisted:
        listed = [group.id for group in provider.node_groups()]
    for name in provider.unlisted:
        known = suggest(name, listed) or (f"; it lists {name_some(listed)}" if listed else "")
        said = f"provider {provider.name} lists no group {printable(name)}, nor another with its limits{known}"
        missing[name] = f"--nodes: {said}"
    for name, ids in provider.named.items():
        for group_id in ids:
            try:
                provider.target_size(group_id)
            except NodeGroupNotFound as error:
                missing[name] = f"--nodes: provider {provider.name} has no group {printable(name)}: {error}"
            except ProviderError:
                missing[name] = ""
    return missing
