"""Requests for capacity on the control plane: a user asks, reads the conditions, and brings the pods."""

import urllib.error
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from tests.e2e.cloud import SharedCloud
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import PATIENCE, wait_until

from nodewright.model.provisioning_request import CLASS_ANNOTATION, REQUEST_ANNOTATION, SEED_ATOMIC

CRDS = tuple(sorted((Path(__file__).parents[2] / "deploy" / "crds").glob("*.yaml")))
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE_PATCH = "application/merge-patch+json"


def install_crds(plane: ControlPlane) -> None:
    """Every file of deploy/crds, until the API server serves what is in it; what is there already stays."""
    install(plane, [yaml.safe_load(file.read_text()) for file in CRDS])


def install(plane: ControlPlane, definitions: Sequence[Mapping[str, Any]]) -> None:
    """Custom resource definitions, until the API server serves them; what is there already stays."""
    there = {held["metadata"]["name"] for held in plane.request(DEFINITIONS)["items"]}
    for definition in definitions:
        if definition["metadata"]["name"] not in there:
            plane.request(DEFINITIONS, method="POST", body=definition)
    for definition in definitions:
        name, spec = definition["metadata"]["name"], definition["spec"]
        wait_until(partial(is_established, plane, name), f"definition {name}")
        for version in spec["versions"]:
            path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
            wait_until(partial(is_served, plane, path), f"list at {path}")


def is_established(plane: ControlPlane, name: str) -> bool:
    # Null, not left out, until the API server has looked at it.
    held = plane.request(f"{DEFINITIONS}/{name}").get("status", {}).get("conditions") or ()
    return {"Established", "NamesAccepted"} <= {one["type"] for one in held if one["status"] == "True"}


def is_served(plane: ControlPlane, path: str) -> bool:
    """Just after it is established, an API server may know nothing of it yet, or be making its storage."""
    try:
        plane.request(path)
    except urllib.error.HTTPError as error:
        if error.code in (404, 429, 503):
            return False
        raise
    return True


def increases(shared: SharedCloud) -> list[tuple[str, int, int]]:
    """Group, target before and target after of each."""
    return [args for what, args in shared.calls if what == "increase"]


class Asking:
    """A user of requests in a namespace; they are of all or nothing unless another class is said."""

    def __init__(self, plane: ControlPlane, namespace: str = "default") -> None:
        self._plane = plane
        self._made: list[str] = []
        self._objects = f"/api/v1/namespaces/{namespace}"
        self._requests = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{namespace}/provisioningrequests"

    def template(self, name: str, **spec: Any) -> None:
        """Of pods of 1 cpu and 1 GiB; ``spec`` is what else there is to them."""
        body = {"metadata": {"name": name}, "template": {"metadata": {}, "spec": _spec(**spec)}}
        self._plane.request(f"{self._objects}/podtemplates", method="POST", body=body)

    def ask(
        self,
        name: str,
        *counts: int,
        kind: str = SEED_ATOMIC,
        parameters: Mapping[str, str] | None = None,
        template: str = "one-core",
    ) -> None:
        """So many pods a set, of a template that is there."""
        sets = [{"podTemplateRef": {"name": template}, "count": count} for count in counts]
        spec = {"provisioningClassName": kind, "podSets": sets, "parameters": dict(parameters or {})}
        body = {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": name},
            "spec": spec,
        }
        self._plane.request(self._requests, method="POST", body=body)

    def consume(self, name: str, count: int, kind: str = SEED_ATOMIC) -> None:
        """The pods of a request come."""
        for number in range(count):
            self.pod(f"{name}-{number}", {REQUEST_ANNOTATION: name, CLASS_ANNOTATION: kind})

    def pod(self, name: str, annotations: Mapping[str, str]) -> None:
        body = {"metadata": {"name": name, "annotations": dict(annotations)}, "spec": _spec()}
        self._plane.request(f"{self._objects}/pods", method="POST", body=body)

    def withdraw(self, name: str) -> None:
        self._plane.request(f"{self._requests}/{name}", method="DELETE")

    def conditions(self, name: str) -> dict[str, str]:
        """Type → ``status/reason``."""
        return {kind: f"{one['status']}/{one['reason']}" for kind, one in self._held(name).items()}

    def message(self, name: str, kind: str) -> str:
        return str(self._held(name)[kind]["message"])

    def wait(self, name: str, kind: str, said: str, seconds: float = PATIENCE) -> None:
        """Until the condition is ``status/reason``."""
        try:
            wait_until(lambda: self.conditions(name).get(kind) == said, f"{kind}={said} of {name}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._held(name)}") from None

    def set_back(self, name: str, kind: str, since: str) -> None:
        """As if a condition stood since long ago; everything else stays."""
        held = self._held(name)
        held[kind]["lastTransitionTime"] = since
        body = {"status": {"conditions": list(held.values())}}
        self._plane.request(f"{self._requests}/{name}/status", method="PATCH", body=body, content=MERGE_PATCH)

    def hold(self, name: str) -> None:
        """An operator has to let go of it before it is gone."""
        self._finalize(name, ["example.com/hold"])

    def let_go(self, name: str) -> None:
        self._finalize(name, [])

    def names(self) -> set[str]:
        return {held["metadata"]["name"] for held in self._plane.request(self._requests)["items"]}

    def count(self, kind: str) -> Counter[str]:
        """How many requests say what (``status/reason``) of a condition."""
        held = self._plane.request(self._requests)["items"]
        conditions = [one for request in held for one in request.get("status", {}).get("conditions", ())]
        return Counter(f"{one['status']}/{one['reason']}" for one in conditions if one["type"] == kind)

    def told(self, kind: str, name: str) -> dict[str, str]:
        """Events of an object as kubectl describe finds them: reason → message."""
        path = f"{self._requests}/{name}" if kind == "ProvisioningRequest" else f"{self._objects}/pods/{name}"
        uid = self._plane.request(path)["metadata"]["uid"]
        query = f"fieldSelector=involvedObject.kind={kind},involvedObject.uid={uid}"
        found = self._plane.request(f"{self._objects}/events?{query}")["items"]
        return {event["reason"]: event["message"] for event in found}

    def make(self, kind: str, plural: str, name: str, spec: Mapping[str, Any]) -> None:
        """Something of the whole cluster, until the end of the test; ``kind`` is ``version/Kind``."""
        version, _, bare = kind.partition("/")
        group = "autoscaling.x-k8s.io"
        body = {"apiVersion": f"{group}/{version}", "kind": bare, "metadata": {"name": name}, "spec": spec}
        path = f"/apis/{group}/{version}/{plural}"
        self._plane.request(path, method="POST", body=body)
        self._made.append(f"{path}/{name}")

    def clear(self) -> None:
        for path in (self._requests, f"{self._objects}/podtemplates", *self._made):
            self._plane.request(path, method="DELETE")

    def _finalize(self, name: str, finalizers: list[str]) -> None:
        body = {"metadata": {"finalizers": finalizers}}
        self._plane.request(f"{self._requests}/{name}", method="PATCH", body=body, content=MERGE_PATCH)

    def _held(self, name: str) -> dict[str, dict[str, Any]]:
        found = self._plane.request(f"{self._requests}/{name}").get("status", {}).get("conditions", ())
        return {one["type"]: one for one in found}


def _spec(**more: Any) -> dict[str, Any]:
    requests = {"cpu": "1", "memory": "1Gi"}
    return {"containers": [{"name": "c", "image": "none.invalid/c", "resources": {"requests": requests}}], **more}
