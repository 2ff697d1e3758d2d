"""Nothing that may outlast the lease is begun."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from nodewright.adapters.kube.guard import GuardedRunner
from nodewright.adapters.provider.runner import NotStarted

T = TypeVar("T")


class Clouds:
    """Implements CallRunner, for clouds that answer at once."""

    def run(self, call: Callable[[], T], deadline_seconds: float) -> T:
        assert deadline_seconds == 60.0
        return call()


def test_a_call_to_a_cloud_starts_only_if_the_lease_outlasts_its_deadline() -> None:
    remaining, made = [60.1], list[str]()
    runner = GuardedRunner(Clouds(), lambda: remaining[0])
    runner.run(lambda: made.append("in time"), 60.0)
    for seconds in (60.0, 5.0, 0.0):
        remaining[0] = seconds
        with pytest.raises(NotStarted, match="lease"):
            runner.run(lambda: made.append("too late"), 60.0)
    assert made == ["in time"]
