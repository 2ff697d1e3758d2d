"""Requests to the API server are counted by resource and verb."""

import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.kube.api import ApiError, MeteredApi, Request

NODE = {"metadata": {"name": "n"}}


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "resource"),
    [
        ("GET", "/api/v1/nodes/n", {}, "get", "nodes"),
        ("PATCH", "/api/v1/nodes/n", {}, "patch", "nodes"),
        ("POST", "/api/v1/namespaces/a/pods/p/eviction", {}, "create", "pods/eviction"),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/l", {}, "get", "leases"),
        ("GET", "/apis/apps/v1/daemonsets", {"limit": "5"}, "list", "daemonsets"),
        ("DELETE", "/api/v1/namespaces/a/configmaps/c", {}, "delete", "configmaps"),
    ],
)
def test_verb_and_resource(
    server: ApiServer, method: str, path: str, query: dict[str, str], verb: str, resource: str
) -> None:
    server.refusals[path] = ApiError("no", status=403)
    api = MeteredApi(server)
    with pytest.raises(ApiError):
        api.send(Request(method=method, path=path, query=query))
    assert api.counts() == {(verb, resource, 403): 1}


def test_what_was_answered_and_what_was_not(server: ApiServer) -> None:
    server.put("/api/v1/nodes/n", NODE)
    api = MeteredApi(server)
    for _ in range(2):
        api.send(Request(method="GET", path="/api/v1/nodes/n"))
    server.faults.append(ApiError("no answer"))
    with pytest.raises(ApiError):
        api.send(Request(method="GET", path="/api/v1/nodes/n"))
    watch = Request(method="GET", path="/api/v1/nodes", query={"watch": "true", "resourceVersion": "1"})
    with api.follow(watch):
        assert api.counts() == {("get", "nodes", 200): 2, ("get", "nodes", 0): 1, ("watch", "nodes", 200): 1}
