"""Who may see the page beyond loopback: what the API server is asked, and for how long its answer counts."""

from contextlib import AbstractContextManager
from typing import Any

import msgspec
import pytest

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.kube.api import ApiError, Lines, Request
from nodewright.adapters.kube.token_review import TokenReviewer

USER = {"username": "ada", "uid": "u1", "groups": ["ops"], "extra": {"scopes": ["a"]}}


class Reviews:
    """Implements Api: knows users by their tokens, and the paths that each may get."""

    def __init__(self) -> None:
        self.users: dict[str, dict[str, Any]] = {"good": USER}
        self.paths = {("ada", "get", "/nodewright/groups"), ("ada", "get", "/pods")}
        self.asked: list[dict[str, Any]] = []
        self.fault: ApiError | None = None

    def send(self, request: Request) -> bytes:
        if self.fault is not None:
            raise self.fault
        body = msgspec.json.decode(request.body or b"")
        self.asked.append(body)
        assert request.path.endswith(f"/v1/{body['kind'].lower()}s")
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            return msgspec.json.encode({"status": {"authenticated": True, "user": user} if user else {"error": "no"}})
        wanted = spec["nonResourceAttributes"]
        return msgspec.json.encode(
            {"status": {"allowed": (spec["user"], wanted["verb"], wanted["path"]) in self.paths}}
        )

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        raise NotImplementedError


def test_a_right_is_that_of_the_user_with_all_that_the_api_server_knows_of_it() -> None:
    api, clock = Reviews(), VirtualClock(0.0)
    review = TokenReviewer(api, clock.now)
    assert review("good", "GET", "/groups") is None
    assert api.asked[0]["spec"] == {"token": "good"}
    attributes = {"path": "/nodewright/groups", "verb": "get"}
    asked = {key: value for key, value in USER.items() if key != "username"}
    assert api.asked[1]["spec"] == {"user": "ada", **asked, "nonResourceAttributes": attributes}
    for path, method in (("/pods", "GET"), ("/groups", "HEAD"), ("/groups/", "GET")):
        denied = review("good", method, path)
        assert denied is not None
        assert denied.status == 403
        assert f"ada may not {method.lower()} {path}: a ClusterRole with /nodewright{path} in" in denied.sentence


def test_an_unknown_token_is_refused_and_no_right_is_asked_for() -> None:
    api = Reviews()
    review = TokenReviewer(api, VirtualClock(0.0).now)
    for _ in range(2):
        denied = review("bad", "GET", "/groups")
        assert denied is not None
        assert denied.status == 401
    assert [one["kind"] for one in api.asked] == ["TokenReview"]


def test_an_answer_counts_for_ten_seconds() -> None:
    api, clock = Reviews(), VirtualClock(0.0)
    review = TokenReviewer(api, clock.now)
    for _ in range(3):
        assert review("good", "GET", "/groups") is None
    assert len(api.asked) == 2
    api.users.clear()
    clock.sleep(9.9)
    assert review("good", "GET", "/groups") is None
    clock.sleep(0.2)
    denied = review("good", "GET", "/groups")
    assert denied is not None
    assert denied.status == 401


@pytest.mark.parametrize("status", [0, 403, 500])
def test_an_api_server_that_does_not_say_is_no_consent_and_is_asked_again(status: int) -> None:
    api = Reviews()
    review = TokenReviewer(api, VirtualClock(0.0).now)
    api.fault = ApiError("it broke", status=status)
    denied = review("good", "GET", "/groups")
    assert denied is not None
    assert (denied.status, "it broke" in denied.sentence) == (503, True)
    api.fault = None
    assert review("good", "GET", "/groups") is None


def test_tokens_without_end_take_no_memory_without_end() -> None:
    api = Reviews()
    review = TokenReviewer(api, VirtualClock(0.0).now)
    for number in range(1500):
        assert review(f"bad-{number}", "GET", "/groups") is not None
    asked = len(api.asked)
    review("bad-1499", "GET", "/groups")
    assert len(api.asked) == asked
    review("bad-0", "GET", "/groups")
    assert len(api.asked) == asked + 1
