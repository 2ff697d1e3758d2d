"""The CustomResourceDefinition of CapacityBuffers: what the API server will take, and what it will refuse."""

from typing import Any

import pytest
from core.tests.model.test_crds import definition, validator

from nodewright.model.capacity_buffer import CapacityBuffer
from nodewright.model.decode import convert_object

VERSIONS = ("v1beta1", "v1alpha1")


def buffer(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default"},
        "spec": spec,
    }


GOOD = {
    "a number": {"podTemplateRef": {"name": "chunk"}, "replicas": 5},
    "limits": {"podTemplateRef": {"name": "chunk"}, "limits": {"cpu": 8, "memory": "16Gi"}},
    "a share": {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}, "percentage": 20},
    "nothing yet": {},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_good_buffers(version: str, spec: dict[str, Any]) -> None:
    validator("capacitybuffers", version).validate(buffer(**spec))
    read = convert_object(CapacityBuffer, buffer(**spec)).spec
    assert (read.replicas, read.percentage, read.limits) == tuple(
        spec.get(key) for key in ("replicas", "percentage", "limits")
    )


BAD = {
    "a share that is text": {"scalableRef": {"kind": "Deployment", "name": "web"}, "percentage": "20%"},
    "less than nothing": {"podTemplateRef": {"name": "chunk"}, "replicas": -1},
    "half a pod": {"podTemplateRef": {"name": "chunk"}, "replicas": 0.5},
    "a template without a name": {"podTemplateRef": {"name": ""}, "replicas": 1},
    "a scalable of no kind": {"scalableRef": {"name": "web"}, "percentage": 1},
    "limits that are a list": {"podTemplateRef": {"name": "chunk"}, "limits": ["cpu"]},
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("spec", BAD.values(), ids=BAD)
def test_bad_buffers(version: str, spec: dict[str, Any]) -> None:
    assert not validator("capacitybuffers", version).is_valid(buffer(**spec))


def test_versions_names_and_what_excludes_each_other() -> None:
    spec = definition("capacitybuffers")["spec"]
    assert (spec["scope"], spec["names"]["shortNames"]) == ("Namespaced", ["cb"])
    found = {one["name"]: (one["served"], one["storage"], one.get("deprecated", False)) for one in spec["versions"]}
    assert found == {"v1beta1": (True, True, False), "v1alpha1": (True, False, True)}
    for version in spec["versions"]:
        assert version["subresources"] == {"status": {}}
        fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert [rule["rule"] for rule in fields["x-kubernetes-validations"]] == [
            "!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)",
            "!(has(self.podTemplateRef) && has(self.scalableRef))",
        ]
        strategy = fields["properties"]["provisioningStrategy"]
        assert strategy["default"] == "buffer.x-k8s.io/active-capacity"


def test_what_we_write_is_a_good_status() -> None:
    condition = {
        "type": "ReadyForProvisioning",
        "status": "False",
        "reason": "error",
        "message": "there is no PodTemplate default/chunk",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
        "observedGeneration": 1,
    }
    strategy = "buffer.x-k8s.io/active-capacity"
    status = {"podTemplateRef": {"name": "chunk"}, "replicas": 0, "podTemplateGeneration": 1}
    good = buffer() | {"status": {**status, "provisioningStrategy": strategy, "conditions": [condition]}}
    validator("capacitybuffers", "v1beta1").validate(good)
