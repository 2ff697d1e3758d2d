"""Users of the page beyond loopback: the API server says who a token's bearer is, and whether the user may read a path."""

import threading
from collections.abc import Callable, Hashable
from hashlib import sha256
from typing import Any, Generic, TypeVar

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Request, read_answer
from nodewright.adapters.web import Denied

T = TypeVar("T")

# No component of Kubernetes serves a path that begins so.
PREFIX = "/nodewright"
_USER_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_TIMEOUT_SECONDS = 10.0
# As long as Kubernetes' own components keep what the API server says of a token and of a right.
_KEPT_SECONDS = 10.0
_MOST_KEPT = 1000


class _User(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct):
    authenticated: bool = False
    user: _User = _User()


class _TokenReview(msgspec.Struct):
    status: _TokenStatus


class _AccessStatus(msgspec.Struct):
    allowed: bool = False


class _AccessReview(msgspec.Struct):
    status: _AccessStatus


class _Kept(Generic[T]):
    """Values that are kept for some seconds, at most ``_MOST_KEPT``; safe in any thread."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._held: dict[Hashable, tuple[float, T]] = {}

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return the value of the key, or what ``find`` returns; its errors are not kept."""
        with self._lock:
            held = self._held.get(key)
        if held is not None and self._now() < held[0]:
            return held[1]
        found = find()
        with self._lock:
            self._held.pop(key, None)
            while len(self._held) >= _MOST_KEPT:
                del self._held[next(iter(self._held))]
            self._held[key] = (self._now() + _KEPT_SECONDS, found)
        return found


class TokenReviewer:
    """Decides by TokenReview and SubjectAccessReview, as Kubernetes' own components do; call it in any thread.

    A right is that to a path that is no resource (``nonResourceURLs`` of a ClusterRole), with the request's method as verb. It is
    asked for with ``PREFIX`` before the path, since such a right holds in the whole cluster: a right to ``/metrics`` is one to
    those of the API server, too. ``now`` returns seconds of a steady clock. Tokens are kept as hashes.
    """

    def __init__(self, api: Api, now: Callable[[], float]) -> None:
        self._api = api
        self._users = _Kept[_User | None](now)
        self._rights = _Kept[bool](now)

    def __call__(self, token: str, method: str, path: str) -> Denied | None:
        """Return why the bearer of the token may not ask for the path; None: it may."""
        try:
            user = self._users.get(sha256(token.encode()).digest(), lambda: self._find_user(token))
            if user is None:
                return Denied(401, "the API server does not accept this token")
            asked = (msgspec.json.encode(user, order="sorted"), method, path)
            if self._rights.get(asked, lambda: self._may(user, method, path)):
                return None
        except ApiError as error:
            return Denied(503, f"the API server did not say whether you may see this: {error}")
        return Denied(
            403,
            f"{user.username} may not {method.lower()} {path}: a ClusterRole with {PREFIX}{path} in nonResourceURLs allows it",
        )

    def _find_user(self, token: str) -> _User | None:
        """Return the user with this token; None if the API server knows none."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = read_answer(self._ask(_USER_REVIEWS, body), _TokenReview, "TokenReview").status
        return status.user if status.authenticated and status.user.username else None

    def _may(self, user: _User, method: str, path: str) -> bool:
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "nonResourceAttributes": {"path": f"{PREFIX}{path}", "verb": method.lower()},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return read_answer(self._ask(_ACCESS_REVIEWS, body), _AccessReview, "SubjectAccessReview").status.allowed

    def _ask(self, path: str, body: dict[str, Any]) -> bytes:
        return self._api.send(
            Request(method="POST", path=path, body=msgspec.json.encode(body), timeout=_TIMEOUT_SECONDS)
        )
