"""Counts repeated calls: only the core may repeat calls, not an SDK."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import pytest

from mishaps import Mishap, Mishaps
from nodewright.spec import ProviderError


class Cloud(Protocol):
    """What the clouds of tests have in common here."""

    calls: Counter[str]
    mishaps: Mishaps[Any]


def requests_of(cloud: Cloud, operation: str, mishap: object | Mishap, call: Callable[[], object]) -> int:
    """How many requests one call of a client sends when every one of that operation fails so."""
    before = cloud.calls[operation]
    for _ in range(50):
        cloud.mishaps.plan(operation, mishap)
    with pytest.raises(ProviderError):
        call()
    while cloud.mishaps.take(operation):
        """What did not happen is not left for later calls."""
    return cloud.calls[operation] - before
