"""What the rest of this package needs of an API server: bytes for a path, and errors that tell what to do next."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from nodewright.model.errors import KubeApiError

T = TypeVar("T")

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"

NO_ANSWER = 0
_RETRYABLE = frozenset({NO_ANSWER, 408, 429, 500, 502, 503, 504})

Query = Mapping[str, str]


class ApiError(KubeApiError):
    """The API server refused or failed. ``status`` is HTTP's, 0 when no answer came; ``retry_after`` in seconds."""

    def __init__(self, message: str, *, status: int = NO_ANSWER, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message, retryable=status in _RETRYABLE)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        """Somebody else wrote in between, or the object is there already."""
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
    """An API server. Both raise ApiError."""

    def send(self, request: Request) -> bytes: ...
    def follow(self, request: Request) -> AbstractContextManager[Lines]: ...


def get(api: Api, path: str, query: Query | None = None) -> bytes:
    return api.send(Request(method="GET", path=path, query=dict(query or {})))


def find(api: Api, path: str) -> bytes | None:
    """None: there is nothing at that path."""
    try:
        return get(api, path)
    except ApiError as error:
        if error.is_missing:
            return None
        raise


def read_answer(raw: bytes | msgspec.Raw, kind: type[T], name: str) -> T:
    """What the API server answered; ApiError for what is no such object."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        raise ApiError(f"the API server answered what is no {name}: {error}") from None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


def read_status(raw: bytes | msgspec.Raw, what: str, status: int, retry_after: float = 0.0) -> ApiError:
    """The error that a ``Status`` object tells of; ``what`` is what was asked."""
    try:
        found = msgspec.json.decode(raw, type=_Status)
    except (msgspec.DecodeError, ValueError):
        found = _Status()
    code = status or found.code
    said = found.message or f"HTTP {code}"
    return ApiError(f"{what}: {said}", status=code, reason=found.reason, retry_after=retry_after)
