"""How often the API server was asked for what, and how it answered."""

import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager

from nodewright.adapters.kube.api import Api, ApiError, Lines, Request

_OK = 200
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


# Verb, resource and HTTP's code; 0: there was no answer.
Asked = tuple[str, str, int]


class MeteredApi:
    """Implements Api; for any number of threads."""

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
    """The resource of a path, with its subresource, and whether the path names one object."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    resource = "/".join((rest[0], rest[2])) if len(rest) > 2 else "".join(rest[:1])
    return resource, len(rest) > 1
