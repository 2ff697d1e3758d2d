"""The test server is checked against the SDK's types: a wrong member is found."""

import pytest

from gcecloud.schema import BadExchange, check_answer, read_request

_GROUP = "/compute/v1/projects/p/zones/z/instanceGroupManagers"


def test_requests_must_be_of_the_api() -> None:
    call = read_request("GET", _GROUP, {"maxResults": "500"}, None)
    assert call.route.name == "instanceGroupManagers.list"
    with pytest.raises(BadExchange, match="maxResult"):
        read_request("GET", _GROUP, {"maxResult": "500"}, None)
    with pytest.raises(BadExchange, match="there is no operation POST"):
        read_request("POST", f"{_GROUP}/m/resizeX", {}, None)
    with pytest.raises(BadExchange, match="nome"):
        read_request("POST", f"{_GROUP}/m/createInstances", {}, {"instances": [{"nome": "x"}]})


def test_answers_must_be_of_the_api() -> None:
    route = read_request("GET", f"{_GROUP}/m", {}, None).route
    check_answer(route, {"name": "m", "targetSize": 3, "updatePolicy": {"type": "PROACTIVE"}})
    for wrong, complaint in (
        ({"targetSize": "many"}, "targetSize"),
        ({"currentActions": {"creatingX": 1}}, "creatingX"),
        ({"updatePolicy": {"type": "SOMETIMES"}}, "SOMETIMES is no Type"),
    ):
        with pytest.raises(BadExchange, match=complaint):
            check_answer(route, wrong)
