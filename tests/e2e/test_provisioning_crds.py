"""The CustomResourceDefinitions of deploy/crds on a real API server: what it takes, and what it refuses and why."""

import json
import urllib.error
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import yaml
from tests.e2e.control_plane import ControlPlane
from tests.e2e.requesting import CRDS, MERGE_PATCH, install_crds

DEFINITIONS = {file.stem: yaml.safe_load(file.read_text())["spec"] for file in CRDS}
VERSIONS = [
    (plural, version["name"])
    for plural, spec in DEFINITIONS.items()
    for version in spec["versions"]
    if version["served"]
]
_UNPROCESSABLE = 422


class Samples(NamedTuple):
    """Specs by what is about them; of bad ones, each with the field that the refusal must name."""

    good: Mapping[str, dict[str, Any]]
    bad: Mapping[str, tuple[dict[str, Any], str]]


def sets(*counts: int, template: str = "workers") -> list[dict[str, Any]]:
    return [{"podTemplateRef": {"name": template}, "count": count} for count in counts]


def request(**spec: Any) -> dict[str, Any]:
    return {"provisioningClassName": "check-capacity.kubernetes.io", "podSets": sets(2), **spec}


SAMPLES = {
    "provisioningrequests": Samples(
        good={
            "least": request(),
            "most sets and pods": request(podSets=sets(*[16_384] * 32)),
            "parameters": request(parameters={"ValidUntilSeconds": "2h", "noRetry": "true"}),
            "most parameters": request(parameters={f"p{number}": "x" * 255 for number in range(100)}),
            "a class of another controller": request(provisioningClassName="queued.example.com"),
        },
        bad={
            "no class": ({"podSets": sets(1)}, "spec.provisioningClassName"),
            "no sets": ({"provisioningClassName": "a"}, "spec.podSets"),
            "an empty list of sets": (request(podSets=[]), "spec.podSets"),
            "too many sets": (request(podSets=sets(*[1] * 33)), "spec.podSets"),
            "no pods": (request(podSets=sets(1, 0)), "spec.podSets[1].count"),
            "fewer than none": (request(podSets=sets(-1)), "spec.podSets[0].count"),
            "too many pods": (request(podSets=sets(16_385)), "spec.podSets[0].count"),
            "more than any number": (request(podSets=sets(2**40)), "spec.podSets[0].count"),
            "no template": (request(podSets=[{"count": 1}]), "spec.podSets[0].podTemplateRef"),
            "a template that is no name": (
                request(podSets=sets(1, template="../other")),
                "spec.podSets[0].podTemplateRef.name",
            ),
            "a template without name": (request(podSets=sets(1, template="")), "spec.podSets[0].podTemplateRef.name"),
            "a class that is no name": (request(provisioningClassName="check capacity"), "spec.provisioningClassName"),
            "a parameter that is no text": (request(parameters={"noRetry": True}), "spec.parameters.noRetry"),
            "a parameter that is too long": (request(parameters={"noRetry": "x" * 256}), "spec.parameters.noRetry"),
            "too many parameters": (request(parameters={f"p{n}": "" for n in range(101)}), "spec.parameters"),
        },
    ),
}


def quota(resources: dict[str, Any]) -> dict[str, Any]:
    return {"limits": {"resources": resources}}


def buffer(**spec: Any) -> dict[str, Any]:
    return {"podTemplateRef": {"name": "workers"}, "replicas": 2, **spec}


WEB = {"apiGroup": "apps", "kind": "Deployment", "name": "web"}
SAMPLES |= {
    "provisioningclasses": Samples(
        good={
            "the name alone": {},
            "everything": {
                "provisioner": "atomic-scale-up.kubernetes.io",
                "parameters": {"ValidUntilSeconds": "2h"},
                "namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In", "values": ["a"]}]},
                "limits": {"pods": 100, "nodes": 0},
            },
        },
        bad={
            "a provisioner that is no name": ({"provisioner": "Atomic!"}, "spec.provisioner"),
            "a parameter that is no text": ({"parameters": {"noRetry": True}}, "spec.parameters.noRetry"),
            "fewer pods than none": ({"limits": {"pods": -1}}, "spec.limits.pods"),
            "nodes that are no number": ({"limits": {"nodes": "many"}}, "spec.limits.nodes"),
            "a selector that is none": (
                {"namespaceSelector": {"matchExpressions": [{"key": "team"}]}},
                "spec.namespaceSelector.matchExpressions[0].operator",
            ),
        },
    ),
    "capacityquotas": Samples(
        good={
            "numbers and quantities": quota({"cpu": 100, "memory": "1Ti", "nodes": "0", "nvidia.com/gpu": 8}),
            "some nodes": {"selector": {"matchLabels": {"pool": "gpu"}}, **quota({"cpu": "64"})},
            "most kinds": quota({f"example.com/r{number}": 1 for number in range(20)}),
        },
        bad={
            "no limits": ({}, "spec.limits"),
            "no resources": ({"limits": {}}, "spec.limits.resources"),
            "less than nothing": (quota({"cpu": -1}), "spec.limits.resources"),
            "less than nothing as text": (quota({"cpu": "-1"}), "spec.limits.resources"),
            "a part of one": (quota({"cpu": "500m"}), "spec.limits.resources"),
            "no amount": (quota({"cpu": "many"}), "spec.limits.resources.cpu"),
            "too many kinds": (quota({f"r{number}": 1 for number in range(21)}), "spec.limits.resources"),
            "a name that is too long": (quota({"x" * 64: 1}), "spec.limits.resources"),
        },
    ),
    "capacitybuffers": Samples(
        good={
            "replicas of a template": buffer(),
            "a share of a workload": {"scalableRef": WEB, "percentage": 10},
            "as many as the limits take": {"podTemplateRef": {"name": "workers"}, "limits": {"cpu": "10"}},
        },
        bad={
            "both at once": (buffer(scalableRef=WEB), "spec"),
            "a template and no number": ({"podTemplateRef": {"name": "workers"}}, "spec"),
            "fewer replicas than none": (buffer(replicas=-1), "spec.replicas"),
            "a share below nothing": ({"scalableRef": WEB, "percentage": -1}, "spec.percentage"),
        },
    ),
}


@pytest.fixture(scope="module")
def served(plane: ControlPlane) -> ControlPlane:
    install_crds(plane)
    return plane


@pytest.fixture
def made(served: ControlPlane) -> Iterator[str]:
    """The path of a request that is there."""
    root = path_of("provisioningrequests", "v1")
    served.request(root, method="POST", body=manifest("provisioningrequests", "v1", request(parameters={"a": "b"})))
    yield f"{root}/sample"
    served.request(root, method="DELETE")


def path_of(plural: str, version: str) -> str:
    spec = DEFINITIONS[plural]
    place = "namespaces/default/" if spec["scope"] == "Namespaced" else ""
    return f"/apis/{spec['group']}/{version}/{place}{plural}"


def manifest(plural: str, version: str, spec: dict[str, Any]) -> dict[str, Any]:
    names = DEFINITIONS[plural]
    kind = names["names"]["kind"]
    return {
        "apiVersion": f"{names['group']}/{version}",
        "kind": kind,
        "metadata": {"name": "sample"},
        "spec": spec,
    }


def refusal(plane: ControlPlane, path: str, body: object, method: str, content: str = "") -> str:
    with pytest.raises(urllib.error.HTTPError) as caught:
        plane.request(path, method=method, body=body, content=content)
    assert caught.value.code == _UNPROCESSABLE
    return str(json.loads(caught.value.read())["message"])


def test_there_are_samples_of_every_kind() -> None:
    assert DEFINITIONS.keys() <= SAMPLES.keys()


@pytest.mark.parametrize(("plural", "version"), VERSIONS)
def test_good_ones_are_taken_as_they_are(served: ControlPlane, plural: str, version: str) -> None:
    """Unknown fields are errors here, so that nothing is dropped silently."""
    path = path_of(plural, version)
    assert served.request(path)["kind"] == DEFINITIONS[plural]["names"]["listKind"]
    for spec in SAMPLES[plural].good.values():
        body = manifest(plural, version, spec)
        taken = served.request(f"{path}?dryRun=All&fieldValidation=Strict", method="POST", body=body)
        assert spec.items() <= taken["spec"].items()  # more where there are defaults


@pytest.mark.parametrize(("plural", "version"), VERSIONS)
def test_bad_ones_are_refused_and_the_field_is_named(served: ControlPlane, plural: str, version: str) -> None:
    path = f"{path_of(plural, version)}?dryRun=All"
    for what, (spec, field) in SAMPLES[plural].bad.items():
        said = refusal(served, path, manifest(plural, version, spec), "POST")
        assert field in said, what


def test_what_is_written_in_one_version_is_read_in_the_other(served: ControlPlane, made: str) -> None:
    old = served.request(made.replace("/v1/", "/v1beta1/"))
    assert old["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"
    assert old["spec"] == served.request(made)["spec"] == request(parameters={"a": "b"})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("podSets", sets(3)),
        ("provisioningClassName", "atomic-scale-up.kubernetes.io"),
        ("parameters", {"a": "c"}),
        ("parameters", None),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_wish_does_not_change(served: ControlPlane, made: str, version: str, field: str, value: object) -> None:
    path = made.replace("/v1/", f"/{version}/")
    said = refusal(served, path, {"spec": {field: value}}, "PATCH", MERGE_PATCH)
    assert f"spec.{field}" in said
    assert "Value is immutable" in said


def test_parameters_are_not_added_later(served: ControlPlane, made: str) -> None:
    root, _, _ = made.rpartition("/")
    body = manifest("provisioningrequests", "v1", request())
    body["metadata"] = {"name": "plain"}
    served.request(root, method="POST", body=body)
    said = refusal(served, f"{root}/plain", {"spec": {"parameters": {"noRetry": "true"}}}, "PATCH", MERGE_PATCH)
    assert "spec.parameters" in said
    served.request(f"{root}/plain", method="PATCH", body={"spec": {"parameters": {}}}, content=MERGE_PATCH)


def test_a_status_is_written_apart_and_checked(served: ControlPlane, made: str) -> None:
    condition = {"type": "Failed", "status": "True", "reason": "Late", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    body = {"status": {"conditions": [{**condition, "message": "x"}]}}
    served.request(made, method="PATCH", body=body, content=MERGE_PATCH)
    assert "status" not in served.request(made)
    served.request(f"{made}/status", method="PATCH", body=body, content=MERGE_PATCH)
    assert served.request(made)["status"] == body["status"]
    for field, value in (("reason", "too large!"), ("message", "x" * 32_769), ("status", "Perhaps")):
        wrong = {"status": {"conditions": [{**condition, "message": "x", field: value}]}}
        said = refusal(served, f"{made}/status", wrong, "PATCH", MERGE_PATCH)
        assert f"status.conditions[0].{field}" in said
