"""The CustomResourceDefinitions of deploy/crds: what the API server will take, and what it will refuse."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from nodewright.model.decode import convert_object
from nodewright.model.provisioning_request import (
    ACCEPTED,
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    SEED_ATOMIC,
    SEED_CHECK_CAPACITY,
    ProvisioningRequest,
)

FOLDER = Path(__file__).parents[3] / "deploy" / "crds"
VERSIONS = ("v1", "v1beta1")


def definition(plural: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / f"{plural}.yaml").read_text())
    return found


def validator(plural: str, version: str) -> Draft7Validator:
    found = next(one for one in definition(plural)["spec"]["versions"] if one["name"] == version)
    schema = found["schema"]["openAPIV3Schema"]
    Draft7Validator.check_schema(schema)
    return Draft7Validator(schema)


def request(**spec: Any) -> dict[str, Any]:
    """A good request, with some of its spec changed."""
    sets = [{"podTemplateRef": {"name": "workers"}, "count": 2}]
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": {"provisioningClassName": CHECK_CAPACITY, "podSets": sets, **spec},
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", [CHECK_CAPACITY, BEST_EFFORT_ATOMIC, SEED_CHECK_CAPACITY, SEED_ATOMIC])
def test_good_requests(version: str, kind: str) -> None:
    good = request(provisioningClassName=kind, parameters={"ValidUntilSeconds": "3600"})
    validator("provisioningrequests", version).validate(good)
    assert convert_object(ProvisioningRequest, good).pod_count == 2


BAD = {
    "no pod sets": {"podSets": []},
    "too many pod sets": {"podSets": [{"podTemplateRef": {"name": "a"}, "count": 1}] * 33},
    "no pods": {"podSets": [{"podTemplateRef": {"name": "a"}, "count": 0}]},
    "too many pods": {"podSets": [{"podTemplateRef": {"name": "a"}, "count": 16385}]},
    "no template": {"podSets": [{"count": 1}]},
    "a template that is no name": {"podSets": [{"podTemplateRef": {"name": "Workers!"}, "count": 1}]},
    "a class that is no name": {"provisioningClassName": "check capacity"},
    "a class that is too long": {"provisioningClassName": "a" * 254},
    "a parameter that is no text": {"parameters": {"noRetry": True}},
    "a parameter that is too long": {"parameters": {"noRetry": "x" * 256}},
    "too many parameters": {"parameters": {f"p{number}": "" for number in range(101)}},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("spec", BAD.values(), ids=BAD)
def test_bad_requests(version: str, spec: dict[str, Any]) -> None:
    assert not validator("provisioningrequests", version).is_valid(request(**spec))


def test_what_we_write_is_a_good_status() -> None:
    condition = {"type": ACCEPTED, "status": "True", "reason": "Accepted", "message": "", "observedGeneration": 1}
    good = request() | {"status": {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    assert validator("provisioningrequests", "v1").is_valid(good)
    assert not validator("provisioningrequests", "v1").is_valid(request() | {"status": {"conditions": [condition]}})


@pytest.mark.parametrize(("count", "is_good"), [(64, True), (65, False)])
def test_a_status_has_no_more_than_64_details(count: int, is_good: bool) -> None:
    details = {f"detail{number}": "x" for number in range(count)}
    given = request() | {"status": {"provisioningClassDetails": details}}
    assert validator("provisioningrequests", "v1").is_valid(given) is is_good


def test_versions_scope_and_what_may_not_change() -> None:
    spec = definition("provisioningrequests")["spec"]
    assert spec["scope"] == "Namespaced"
    assert spec["names"]["shortNames"] == ["provreq", "provreqs"]
    found = {one["name"]: (one["served"], one["storage"], one.get("deprecated", False)) for one in spec["versions"]}
    assert found == {"v1": (True, True, False), "v1beta1": (True, False, True)}
    for version in spec["versions"]:
        assert version["subresources"] == {"status": {}}
        fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        for field in fields.values():
            assert field["x-kubernetes-validations"] == [{"rule": "self == oldSelf", "message": "Value is immutable"}]
