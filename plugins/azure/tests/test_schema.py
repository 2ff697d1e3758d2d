"""The check against the SDK's models can fail: otherwise the server of these tests would prove nothing."""

from typing import Any

import pytest
from azure.mgmt.compute import models

from azurecloud.schema import check, check_request

_SET = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/a"
_VERSION = {"api-version": "2026-04-01"}
_POOL = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerService/managedClusters/c/agentPools/p"
_AKS_VERSION = "2026-08-01"


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"sku": {"capacity": "3"}}, "$.sku.capacity: '3' is no int"),
        ({"sku": {"capacity": True}}, "$.sku.capacity: True is no int"),
        ({"sku": None}, "$.sku: null"),
        ({"sku": []}, "$.sku: no object"),
        ({"zones": "1"}, "$.zones: no list"),
        ({"tags": {"a": 1}}, "$.tags[a]: 1 is no str"),
        ({"properties": {"orchestrationMode": "Weird"}}, "$.properties.orchestrationMode: 'Weird' is no Orch"),
        ({"properties": {"colour": "red"}}, "$.properties.colour: VirtualMachineScaleSetProperties has no such"),
    ],
)
def test_answers_that_azure_would_not_give(value: dict[str, Any], complaint: str) -> None:
    [found] = check(value, models.VirtualMachineScaleSet, "$")
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "complaint"),
    [
        ("PUT", f"{_SET}/nothing", _VERSION, {}, "the SDK has no such operation"),
        ("PATCH", _SET, {"api-version": "2019-01-01"}, {}, "version 2019-01-01"),
        ("PATCH", _SET, {**_VERSION, "force": "1"}, {}, "query force"),
        ("PATCH", _SET, _VERSION, {"sku": {"size": 3}}, "size: Sku has no such member"),
    ],
)
def test_requests_that_the_sdk_would_not_send(
    method: str, path: str, query: dict[str, str], body: Any, complaint: str
) -> None:
    [found] = check_request(method, path, query, body, "VirtualMachineScaleSetUpdate")
    assert complaint in found


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"properties": {"type": "Pets"}}, "type: 'Pets' is no AgentPoolType"),
        ({"properties": {"count": "3"}}, "count: '3' is no int"),
        (
            {"properties": {"virtualMachinesProfile": {"scale": {"manual": [{"sizes": ["a"]}]}}}},
            "sizes: ManualScaleProfile has no such member",
        ),
    ],
)
def test_agent_pools_that_aks_would_not_take(body: Any, complaint: str) -> None:
    [found] = check_request("PUT", _POOL, {"api-version": _AKS_VERSION}, body, "AgentPool")
    assert complaint in found
    assert check_request("PUT", _POOL, {"api-version": _AKS_VERSION}, {"properties": {"count": 3}}, "AgentPool") == []
