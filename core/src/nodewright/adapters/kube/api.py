"""The interface of an API server for the rest of this package: requests, responses as bytes, and typed errors."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from nodewright.model.errors import KubeApiError
from nodewright.model.write_fence import LEAST_SECONDS

T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

NO_ANSWER = 0
_RETRYABLE = frozenset({NO_ANSWER, 408, 429, 500, 502, 503, 504})

Query = Mapping[str, str]


class ApiError(KubeApiError):
    """The API server refused or failed. ``status`` is HTTP's; 0: no response came; ``retry_after`` in seconds."""

    def __init__(self, message: str, *, status: int = NO_ANSWER, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message, retryable=status in _RETRYABLE)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_forbidden(self) -> bool:
        """Return whether the user has no right to what was asked for."""
        return self.status == 403

    @property
    def is_conflict(self) -> bool:
        """Return whether another writer was faster, or the object exists already."""
        return self.status == 409

    @property
    def is_expired(self) -> bool:
        """The resource version or the continue token is too old: everything must be listed again."""
        return self.status == 410


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One call; ``timeout`` in seconds holds for connecting and for each wait for bytes."""

    method: str
    path: str
    query: dict[str, str] = {}
    body: bytes | None = None
    content_type: str = JSON
    timeout: float = 30.0
    compressed: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Lines(Protocol):
    """A watch: one line for each event. ``abandon`` ends it from another thread."""

    def __iter__(self) -> Iterator[bytes]: ...
    def abandon(self) -> None: ...


class Api(Protocol):
    """An API server. Both methods raise ApiError."""

    def send(self, request: Request) -> bytes: ...
    def follow(self, request: Request) -> AbstractContextManager[Lines]: ...


def get(api: Api, path: str, query: Query | None = None) -> bytes:
    return api.send(Request(method="GET", path=path, query=dict(query or {})))


def find(api: Api, path: str) -> bytes | None:
    """Return what is at the path; None if there is nothing."""
    try:
        return get(api, path)
    except ApiError as error:
        if error.is_missing:
            return None
        raise


def read_answer(raw: bytes | msgspec.Raw, kind: type[T], name: str) -> T:
    """Decode what the API server returned; raise ApiError if it is not such an object."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise ApiError(f"the API server's response is not a valid {name}: {error}") from None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


def read_status(raw: bytes | msgspec.Raw, what: str, status: int, retry_after: float = 0.0) -> ApiError:
    """Return the error that a ``Status`` object describes; ``what`` is the request."""
    try:
        found = msgspec.json.decode(raw, type=_Status)
    except (msgspec.DecodeError, ValueError):
        found = _Status()
    code = status or found.code
    said = found.message or f"HTTP {code}"
    return ApiError(f"{what}: {said}", status=code, reason=found.reason, retry_after=retry_after)


# Returns for how many seconds no other process can become leader.
Remaining = Callable[[], float]


class GuardedApi:
    """Implements Api: a write may take no longer than the lease lasts, and is not sent without the lease."""

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


_OK = 200
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


# Verb, resource and HTTP's code; 0: no response came.
Asked = tuple[str, str, int]


class MeteredApi:
    """Implements Api: count requests by verb, resource and HTTP status. Safe in any thread."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._counts: Counter[Asked] = Counter()

    def counts(self) -> Mapping[Asked, int]:
        with self._lock:
            return dict(self._counts)

    def send(self, request: Request) -> bytes:
        try:
            answer = self._api.send(request)
        except ApiError as error:
            self._count(request, error.status)
            raise
        self._count(request, _OK)
        return answer

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        self._count(request, _OK)
        return self._api.follow(request)

    def _count(self, request: Request, code: int) -> None:
        resource, is_one = _find_resource(request.path)
        verb = _VERBS.get(request.method, request.method.lower())
        if verb == "get" and not is_one:
            verb = "watch" if request.query.get("watch") else "list"
        with self._lock:
            self._counts[verb, resource, code] += 1


def _find_resource(path: str) -> tuple[str, bool]:
    """Return the resource of a path, with its subresource, and whether the path names one object."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    resource = "/".join((rest[0], rest[2])) if len(rest) > 2 else "".join(rest[:1])
    return resource, len(rest) > 1
