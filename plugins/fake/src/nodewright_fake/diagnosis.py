"""What ``nodewright doctor`` reports about the fake cloud."""

from collections.abc import Iterator
from contextlib import contextmanager

from nodewright.spec import ApiCalls, Clock, Finding, FindingLevel, ProviderError
from nodewright_fake.cloud import FakeCloud
from nodewright_fake.options import Resize


class CallCount:
    """Counts calls that a real cloud would serve over the network, by operation and result."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._made: dict[tuple[str, str], tuple[int, float]] = {}

    @contextmanager
    def counted(self, operation: str) -> Iterator[None]:
        """Count one call, its result and its duration."""
        started, result = self._clock.now(), "ok"
        try:
            yield
        except ProviderError as error:
            result = error.code
            raise
        finally:
            calls, seconds = self._made.get((operation, result), (0, 0.0))
            self._made[operation, result] = (calls + 1, seconds + self._clock.now() - started)

    def made(self) -> tuple[ApiCalls, ...]:
        """Return the calls so far."""
        return tuple(
            ApiCalls(operation=operation, result=result, calls=calls, seconds=seconds)
            for (operation, result), (calls, seconds) in sorted(self._made.items())
        )


def find(cloud: FakeCloud) -> Iterator[Finding]:
    """Return one finding per group: whether the option ``interference`` resizes it or takes machines back."""
    for name in cloud.group_names():
        others = [change for change in cloud.coming_interference() if change.group == name]
        resizes = any(isinstance(change, Resize) for change in others)
        if not others:
            yield Finding(
                level=FindingLevel.OK, subject="other writers", message="no other writer is configured", group_id=name
            )
            continue
        yield Finding(
            level=FindingLevel.WARNING,
            subject="other writers",
            message="another writer resizes this group"
            if resizes
            else "another writer takes machines of this group back",
            remedy="remove the group from the option interference",
            group_id=name,
        )
