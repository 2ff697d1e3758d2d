"""Loads provider plugins and calls them through one typed client."""

from nodewright.adapters.provider.calls import CallSettings, HookStats
from nodewright.adapters.provider.client import ProviderClient, WithheldWrite
from nodewright.adapters.provider.loader import (
    BUILD_SECONDS,
    InstalledProvider,
    connect_provider,
    installed_providers,
    load_provider,
)
from nodewright.adapters.provider.runner import CallRunner, CallTimedOut, InlineRunner, ThreadRunner

__all__ = [
    "BUILD_SECONDS",
    "CallRunner",
    "CallSettings",
    "CallTimedOut",
    "HookStats",
    "InlineRunner",
    "InstalledProvider",
    "ProviderClient",
    "ThreadRunner",
    "WithheldWrite",
    "connect_provider",
    "installed_providers",
    "load_provider",
]
