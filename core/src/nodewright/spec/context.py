"""The argument of a provider's entry point."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodewright.model.clock import Clock


@dataclass(frozen=True, kw_only=True)
class ProviderContext:
    """The argument of the entry point that builds a provider.

    ``options`` is the provider's own part of the configuration. The core does not check it: the plugin raises
    ConfigError for unknown keys. ``node_group_specs`` are the values of ``--nodes``, and ``auto_discovery_specs`` are
    the values of ``--node-group-auto-discovery``. A provider takes time only from ``clock`` and random numbers only
    from ``random``. In a ``dry_run`` another process manages the groups: the provider takes nothing from it, such as messages
    of a queue that has one reader.
    """

    clock: Clock
    random: Random = field(default_factory=lambda: Random(0))
    options: Mapping[str, Any] = field(default_factory=dict)
    node_group_specs: tuple[str, ...] = ()
    auto_discovery_specs: tuple[str, ...] = ()
    dry_run: bool = False
