"""Waiting for notices, in a thread for each provider."""

import threading

from nodewright.adapters.provider.client import NoticeWatch
from nodewright.model.errors import ProviderUnavailable


class Waiting:
    """A provider whose calls end one after the other as ``answers`` say; the last one stops the watch."""

    name = "cloud"

    def __init__(self, *answers: bool | Exception | None) -> None:
        self._answers = list(answers)
        self.calls = 0
        self.watch: NoticeWatch | None = None

    def await_interruption(self, timeout: float) -> bool | None:
        assert timeout > 0
        self.calls += 1
        answer = self._answers.pop(0)
        if not self._answers and self.watch is not None:
            self.watch.stop()
        if isinstance(answer, Exception):
            raise answer
        return answer


def watch(provider: Waiting) -> tuple[int, list[str]]:
    """Let the watch run to its end; return how often it rang, and what it said."""
    rings, said = list[None](), list[str]()
    made = NoticeWatch([provider], lambda: rings.append(None), lambda _, problem: said.append(problem))
    provider.watch = made
    made.start()
    for thread in threading.enumerate():
        if thread.name == "notices-cloud":
            thread.join(10)
    return len(rings), said


def test_each_notice_rings_once() -> None:
    provider = Waiting(False, True, False, True)
    assert watch(provider) == (2, ["", "", "", ""])


def test_a_provider_that_cannot_wait_is_asked_once() -> None:
    provider = Waiting(None, True)
    assert watch(provider) == (0, [])
    assert provider.calls == 1


def test_a_failure_is_said() -> None:
    rings, said = watch(Waiting(True, ProviderUnavailable("no answer")))
    assert rings == 1
    assert "no answer" in said[-1]
