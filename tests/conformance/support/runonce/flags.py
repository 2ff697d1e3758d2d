"""The flags of a case as settings."""

from collections.abc import Mapping
from typing import Any

from nodewright.cli.settings.load import load_settings
from nodewright.model.settings import Settings


def read_flags(flags: Mapping[str, Any]) -> Settings:
    """CA's decisions under these flags; raises ConfigError for one that is not known."""
    known = {
        name: [str(part) for part in value] if isinstance(value, list) else str(value) for name, value in flags.items()
    }
    return load_settings({**known, "profile": "ca"}, {})
