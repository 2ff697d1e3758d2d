"""Only a leader writes to the API server, and only while its lease outlasts the call."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Lines, Request
from nodewright.model.write_fence import LEAST_SECONDS

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
        if remaining <= LEAST_SECONDS:
            raise ApiError(f"{request}: not sent: this process does not lead, or will not for much longer")
        return self._api.send(msgspec.structs.replace(request, timeout=min(request.timeout, remaining)))

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        return self._api.follow(request)
