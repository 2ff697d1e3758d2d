"""Only a leader writes, and only while its lease outlasts the call."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Lines, Request
from nodewright.adapters.provider.runner import CallRunner, NotStarted

T = TypeVar("T")

# No write is worth beginning with less.
_LEAST_SECONDS = 1.0

# Seconds for which nobody else may become leader.
Remaining = Callable[[], float]


class GuardedApi:
    """Implements Api: what changes something gets no longer than the lease lasts, and is not sent without one."""

    def __init__(self, api: Api, remaining: Remaining) -> None:
        self._api = api
        self._remaining = remaining

    def send(self, request: Request) -> bytes:
        if request.method == "GET":
            return self._api.send(request)
        remaining = self._remaining()
        if remaining <= _LEAST_SECONDS:
            raise ApiError(f"{request}: not sent: this process does not lead, or will not for much longer")
        return self._api.send(msgspec.structs.replace(request, timeout=min(request.timeout, remaining)))

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
