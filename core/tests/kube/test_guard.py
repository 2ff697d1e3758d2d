"""No request that could outlast the lease is sent to the API server."""

import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.kube.api import ApiError, GuardedApi, Request

PATH = "/api/v1/namespaces/kube-system/configmaps"


def test_a_write_gets_no_longer_than_the_lease_lasts(server: ApiServer) -> None:
    remaining = [12.0]
    guarded = GuardedApi(server, lambda: remaining[0])
    guarded.send(Request(method="POST", path=PATH, body=b'{"metadata": {"name": "one"}}'))
    assert server.writes[-1].timeout == 12.0
    for seconds in (1.0, 0.0):
        remaining[0] = seconds
        with pytest.raises(ApiError, match="does not lead"):
            guarded.send(Request(method="DELETE", path=f"{PATH}/one"))
    assert guarded.send(Request(method="GET", path=f"{PATH}/one"))
