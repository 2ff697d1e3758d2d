"""PUBLIC, for plugins: record each request to a cloud's API with its response, or answer it from a recording.

The core sets ``ProviderContext.exchanges`` while it records (``NODEWRIGHT_RECORD``) or replays (``nodewright provider
replay``); otherwise it is None. A plugin passes its requests through it where its SDK sends them: ``tap_session`` does so for
SDKs that use the library ``requests``. Requests for access tokens must not pass.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

T = TypeVar("T")


class ApiRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it is sent. ``operation`` names the kind of request, without its arguments."""

    operation: str
    method: str
    url: str
    headers: Mapping[str, str] = {}
    body: str = ""


class ApiAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A response; ``failure`` says why none came, and is empty if one came."""

    status: int = 0
    headers: Mapping[str, str] = {}
    body: str = ""
    failure: str = ""


class Exchanges(Protocol):
    """A recording that is made, or one that is replayed. Thread-safe."""

    @property
    def replays(self) -> bool:
        """Return whether requests are answered from a recording: nothing may be sent, and credentials are not needed."""

    def find(self, request: ApiRequest) -> ApiAnswer | None:
        """Return the recorded answer to a request; None: send it."""

    def note(self, request: ApiRequest, answer: ApiAnswer) -> None:
        """Record a request that was sent and its answer."""

    def fact(self, name: str, find: Callable[[], T]) -> T:
        """Return what ``find`` returns, a value of JSON, and record it; in a replay return what was recorded.

        Use it for facts that a plugin does not learn from the API, such as its region from the machine on which it runs.
        """


def tap_session(
    session: Any,
    exchanges: Exchanges,
    failure: type[Exception],
    trim: Callable[[str], str] = lambda body: body,
) -> None:
    """Let a session of the library ``requests`` pass its requests through ``exchanges``.

    ``failure`` is the exception that it raises in a replay for a response that never came. ``trim`` removes secrets that
    only the plugin can recognize from a recorded body; the plugin itself gets the body as it came.
    """
    send = session.send

    def pass_through(request: Any, **how: Any) -> Any:
        asked = ApiRequest(
            operation=f"{request.method} {request.url.partition('?')[0].partition('://')[2].partition('/')[2]}",
            method=request.method,
            url=request.url,
            headers=dict(request.headers),
            body=as_text(request.body),
        )
        known = exchanges.find(asked)
        if known is not None:
            if known.failure:
                raise failure(known.failure)
            return session.get_adapter(request.url).build_response(request, RecordedBody(known))
        try:
            answer = send(request, **how)
            body = as_text(answer.content)
        except Exception as error:
            exchanges.note(asked, ApiAnswer(failure=f"{type(error).__name__}: {error}"))
            raise
        exchanges.note(asked, ApiAnswer(status=answer.status_code, headers=dict(answer.headers), body=trim(body)))
        return answer

    session.send = pass_through


def as_text(body: object) -> str:
    """Return a body as text; empty if there is none."""
    if isinstance(body, bytes | bytearray):
        return body.decode("utf-8", "replace")
    return body if isinstance(body, str) else ""


class RecordedBody:
    """A recorded response in the form that urllib3 gives to the libraries above it."""

    def __init__(self, answer: ApiAnswer) -> None:
        self.status = answer.status
        self.headers = dict(answer.headers)
        self.reason = ""
        self._left = answer.body.encode()

    def stream(self, amount: int = 65536, **_: Any) -> Iterator[bytes]:
        """Yield the body in pieces."""
        while self._left:
            yield self.read(amount)

    def read(self, amount: int | None = None, **_: Any) -> bytes:
        """Return the next part of the body."""
        end = len(self._left) if amount is None else amount
        part, self._left = self._left[:end], self._left[end:]
        return part

    def close(self) -> None:
        """Drop the rest of the body."""
        self._left = b""

    def release_conn(self) -> None:
        """Do nothing: there is no connection."""
