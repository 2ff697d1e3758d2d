"""Only a leader writes, and only while its lease outlasts the call."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from nodewright.adapters.kube.api import Api, ApiError, Lines, Request
from nodewright.adapters.provider.runner import CallRunner, NotStarted

T = TypeVar("T")

# Seconds for which nobody else may become leader.
Remaining = Callable[[], float]


class GuardedApi:
    """Implements Api: what changes something is not even sent once the lease may run out before the answer."""

    def __init__(self, api: Api, remaining: Remaining) -> None:
        self._api = api
        self._remaining = remaining

    def send(self, request: Request) -> bytes:
        if request.method != "GET" and self._remaining() <= request.timeout:
            raise ApiError(f"{request}: not sent: this process does not lead, or may not for much longer", status=409)
        return self._api.send(request)

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        return self._api.follow(request)


class GuardedRunner:
    """Implements CallRunner: no call to a cloud starts unless the lease outlasts its deadline."""

    def __init__(self, runner: CallRunner, remaining: Remaining) -> None:
        self._runner = runner
        self._remaining = remaining

    def run(self, call: Callable[[], T], deadline_seconds: float) -> T:
        if self._remaining() <= deadline_seconds:
            raise NotStarted("the lease may run out before the cloud answers: another process may lead by then")
        return self._runner.run(call, deadline_seconds)
