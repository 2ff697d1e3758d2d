"""CapacityQuotas and ProvisioningClasses: what the API server will take, and what it will refuse."""

from typing import Any

import pytest
from core.tests.model.test_crds import definition, validator

from nodewright.model.capacity_quota import CapacityQuota
from nodewright.model.decode import convert_object
from nodewright.model.objects import KINDS
from nodewright.model.provisioning_request import ProvisioningClass


def quota(**resources: Any) -> dict[str, Any]:
    return {"metadata": {"name": "q"}, "spec": {"limits": {"resources": resources}}}


def held(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "train"}, "spec": spec}


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_quotas(version: str) -> None:
    schema = validator("capacityquotas", version)
    good = quota(cpu=10, memory="64Gi", nodes="3")
    schema.validate(good)
    assert convert_object(CapacityQuota, good).spec.limits.resources == {"cpu": 10, "memory": "64Gi", "nodes": "3"}
    assert not schema.is_valid({"metadata": {}, "spec": {}})
    assert not schema.is_valid({"metadata": {}})
    assert not schema.is_valid(quota(cpu=[1]))
    assert not schema.is_valid(quota(**{f"example.com/r{number}": 1 for number in range(21)}))
    (rules,) = {
        tuple(rule["message"] for rule in found["x-kubernetes-validations"])
        for found in [schema.schema["properties"]["spec"]["properties"]["limits"]["properties"]["resources"]]
    }
    assert rules == ("A resource has a name of 63 characters at most.", "An amount is a whole number from 0 up.")


def test_classes() -> None:
    schema = validator("provisioningclasses", "v1alpha1")
    good = held(
        provisioner="check-capacity.kubernetes.io",
        parameters={"ValidUntilSeconds": "2h"},
        namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]},
        limits={"pods": 10, "nodes": 0},
    )
    schema.validate(good)
    found = convert_object(ProvisioningClass, good)
    assert (found.spec.limits.pods, found.spec.limits.nodes) == (10, 0)
    schema.validate({"metadata": {"name": "check-capacity.kubernetes.io"}})
    for bad in (
        {"limits": {"pods": -1}},
        {"limits": {"nodes": 1.5}},
        {"provisioner": "Not a name"},
        {"parameters": {"a": 1}},
    ):
        assert not schema.is_valid(held(**bad)), bad


@pytest.mark.parametrize(
    ("plural", "kind", "names", "versions"),
    [
        ("capacityquotas", "CapacityQuota", ["cq"], {"v1beta1": True, "v1alpha1": False}),
        ("provisioningclasses", "ProvisioningClass", ["provclass"], {"v1alpha1": True}),
    ],
)
def test_names_scope_and_versions(plural: str, kind: str, names: list[str], versions: dict[str, bool]) -> None:
    """The version that is stored is the one in which they are asked for."""
    spec = definition(plural)["spec"]
    assert (spec["scope"], spec["names"]["kind"], spec["names"]["shortNames"]) == ("Cluster", kind, names)
    assert {one["name"]: one["storage"] for one in spec["versions"]} == versions
    assert all(one["served"] for one in spec["versions"])
    assert versions[KINDS[kind].version]
