"""Slices, classes and claims as manifests say them."""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewright.model.decode import convert_object
from nodewright.model.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from nodewright.model.objects import ClusterObjects
from nodewright.snapshot.context import Context

DRIVER = "gpu.example.com"
Manifest = Mapping[str, Any]


def gpu(name: str, model: str = "a100", **extras: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": model}, "uuid": {"string": name}}, **extras}


def slice_of(node: str, *devices: Manifest, pool: str = "", **spec: Any) -> ResourceSlice:
    """Return the only slice of a node's pool; without a node, devices that all nodes reach."""
    where = {"nodeName": node} if node else {"allNodes": True}
    held = {"name": pool or node or "shared", "generation": 1, "resourceSliceCount": 1}
    manifest = {"driver": DRIVER, "pool": held, "devices": list(devices), **where, **spec}
    return convert_object(ResourceSlice, {"metadata": {"name": f"slice-{node}-{pool}"}, "spec": manifest})


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> DeviceClass:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return convert_object(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}})


def asks(*requests: Manifest | int, **devices: Any) -> dict[str, Any]:
    """Return the spec of a claim. A number asks for as many devices of the class ``gpu``."""
    made = [
        {"name": f"r{index}", "exactly": {"deviceClassName": "gpu", "count": one}} if isinstance(one, int) else one
        for index, one in enumerate(requests)
    ]
    return {"devices": {"requests": made, **devices}}


def claim(name: str, spec: Manifest, status: Manifest | None = None) -> ResourceClaim:
    meta = {"name": name, "namespace": "default", "uid": name}
    return convert_object(ResourceClaim, {"metadata": meta, "spec": spec, "status": status or {}})


def template(name: str, spec: Manifest) -> ResourceClaimTemplate:
    meta = {"name": name, "namespace": "default"}
    return convert_object(ResourceClaimTemplate, {"metadata": meta, "spec": {"spec": spec}})


def allocated(node: str, *devices: str, users: Sequence[str] = ()) -> dict[str, Any]:
    """Return the status of a claim that has devices of a node."""
    results = [{"request": "r0", "driver": DRIVER, "pool": node, "device": device} for device in devices]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    reserved = [{"resource": "pods", "name": user, "uid": user} for user in users]
    return {"allocation": {"devices": {"results": results}, "nodeSelector": selector}, "reservedFor": reserved}


def context(
    slices: Sequence[ResourceSlice],
    classes: Sequence[DeviceClass] | None = None,
    claims: Sequence[ResourceClaim] = (),
    templates: Sequence[ResourceClaimTemplate] = (),
) -> Context:
    return Context.of(
        ClusterObjects(
            resource_slices=tuple(slices),
            device_classes=tuple(classes if classes is not None else [device_class()]),
            resource_claims=tuple(claims),
            resource_claim_templates=tuple(templates),
        )
    )
