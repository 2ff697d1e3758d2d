"""What a provider is built from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodewright.model.clock import Clock


@dataclass(frozen=True, kw_only=True)
class ProviderContext:
    """Handed to the entry point that builds a provider.

    ``options`` is the provider's own part of the configuration, unchecked: the plugin refuses unknown keys
    with ConfigError. ``node_group_specs`` are ``--nodes`` values, ``auto_discovery_specs`` those of
    ``--node-group-auto-discovery``. ``random`` is the only source of chance a provider may use.
    """

    clock: Clock
    random: Random = field(default_factory=lambda: Random(0))
    options: Mapping[str, Any] = field(default_factory=dict)
    node_group_specs: tuple[str, ...] = ()
    auto_discovery_specs: tuple[str, ...] = ()
