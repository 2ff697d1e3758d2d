"""Kind ``dra``: on which nodes pods with device claims fit, one pod after another, and which devices they get."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from nodewright.model.decode import convert_object
from nodewright.model.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from nodewright.model.node import Node
from nodewright.model.objects import ClusterObjects
from nodewright.model.pod import Pod, ResourceClaimState
from nodewright.model.quantity import Quantity
from nodewright.predicates import explain, feasible
from nodewright.predicates.dra.allocator import Refusal
from nodewright.predicates.dra.state import DeviceLedger, demand_of
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_OBJECTS: dict[str, tuple[str, type]] = {
    "resourceSlices": ("resource_slices", ResourceSlice),
    "deviceClasses": ("device_classes", DeviceClass),
    "resourceClaims": ("resource_claims", ResourceClaim),
    "resourceClaimTemplates": ("resource_claim_templates", ResourceClaimTemplate),
    "deviceTaintRules": ("device_taint_rules", DeviceTaintRule),
}
_EXTENDED = "(extended)"


def check(case: Mapping[str, Any]) -> list[str]:
    """Return what differs from the decisions observed, pod by pod and node by node."""
    world = _World(case["input"])
    pairs = zip(case["input"]["pods"], case["expected"]["pods"], strict=True)
    return [difference for manifest, wanted in pairs for difference in world.check(manifest, wanted)]


class _World:
    def __init__(self, given: Mapping[str, Any]) -> None:
        read: dict[str, list[Any]] = {}
        for key, manifests in given["objects"].items():
            field, wanted = _OBJECTS[key]
            read[field] = [convert_object(wanted, manifest) for manifest in manifests]
        templates = {template.key: template for template in read.get("resource_claim_templates", [])}
        claims = read.setdefault("resource_claims", [])
        self._made: dict[tuple[str, str], str] = {}
        for manifest in given["pods"]:
            claims += _made_claims(convert_object(Pod, manifest), templates, self._made)
        self._claims = {claim.key: claim for claim in claims}
        self._snapshot = Snapshot(Context.of(ClusterObjects(**{field: tuple(found) for field, found in read.items()})))
        self._nodes = [convert_object(Node, node) for node in given["nodes"]]
        self._snapshot.add_nodes(self._nodes)
        for manifest in given.get("scheduledPods", []):
            pod = convert_object(Pod, manifest)
            if pod.spec.node_name in self._snapshot:
                row = self._snapshot.row(pod.spec.node_name)
                self._snapshot.place(self._snapshot.class_of(pod, placed=True), row, pod=pod)

    def check(self, manifest: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
        pod = convert_object(Pod, manifest)
        named = self._named(pod)
        if isinstance(named, str):
            if wanted.get("waits", {}).get("class") != named:
                yield f"{pod.name}: waits: {named}, observed {wanted}"
            return
        pod_class = self._snapshot.class_of(named)
        refusal = demand_of(pod_class, self._snapshot.context).refusal
        if "waits" in wanted:
            if refusal is None or refusal.code != wanted["waits"]["class"]:
                yield f"{pod.name}: {refusal}, observed {wanted}"
            return
        for name, observed in wanted["results"].items():
            yield from self._compare(pod, pod_class, name, observed)
        yield from self._place(pod, pod_class, wanted)

    def _compare(self, pod: Pod, pod_class: PodClass, name: str, observed: Mapping[str, Any]) -> Iterator[str]:
        snapshot, row = self._snapshot, self._snapshot.row(name)
        rejection = explain(snapshot, pod_class, row)
        if bool(feasible(snapshot, pod_class)[row]) != (rejection is None):
            yield f"{pod.name} on {name}: mask and explanation disagree: {rejection}"
        if observed["fits"] != (rejection is None):
            yield f"{pod.name} on {name}: {rejection or 'fits'}, observed {observed}"
        elif rejection is not None and rejection.predicate != observed["plugin"]:
            yield f"{pod.name} on {name}: {rejection.predicate}: {rejection}, observed {observed}"
        elif rejection is not None and rejection.predicate == "DynamicResources":
            found = self._refusal(pod_class, row)
            if found.code != observed["class"] or found.is_error != (observed["code"] == "Error"):
                yield f"{pod.name} on {name}: {found}, observed {observed}"

    def _refusal(self, pod_class: PodClass, row: int) -> Refusal:
        refusal = demand_of(pod_class, self._snapshot.context).refusal
        found = refusal or DeviceLedger.of(self._snapshot).find(self._snapshot, pod_class, row)
        assert isinstance(found, Refusal)
        return found

    def _place(self, pod: Pod, pod_class: PodClass, wanted: Mapping[str, Any]) -> Iterator[str]:
        snapshot = self._snapshot
        rows = [row for row, fits in enumerate(feasible(snapshot, pod_class)) if fits]
        is_error = any(result.get("code") == "Error" for result in wanted["results"].values())
        if not rows or is_error:
            if "placed" in wanted:
                yield f"{pod.name}: not placed, observed {wanted['placed']}"
            return
        if snapshot.name(rows[0]) != wanted.get("placed"):
            yield f"{pod.name}: placed on {snapshot.name(rows[0])}, observed {wanted.get('placed')}"
            return
        devices = DeviceLedger.of(snapshot)
        found = devices.find(snapshot, pod_class, rows[0])
        assert not isinstance(found, Refusal)
        state, context = devices.state(snapshot), snapshot.context
        fresh = [claim.key for claim in demand_of(pod_class, context).claims if not devices.is_held(state, claim.key)]
        names = [key.partition("/")[2] for key in fresh] + [_EXTENDED]
        observed = wanted.get("allocations", {})
        for name, given in zip(names, found, strict=False):
            chosen = [
                (one.request, *one.candidate.id, one.is_admin, one.consumed is not None, dict(one.consumed or {}))
                for one in given
            ]
            seen = [_observed(one) for one in observed.get(name, {}).get("devices", [])]
            if chosen != seen:
                yield f"{pod.name}, claim {name}: {chosen}, observed {seen}"
        snapshot.place(pod_class, rows[0])

    def _named(self, pod: Pod) -> Pod | str:
        """Return the pod with the claims that were made for it, or the class of why it waits."""
        states = {state.name: state for state in pod.status.resource_claim_statuses} or {
            name: ResourceClaimState(name=name, resource_claim_name=made)
            for (owner, name), made in self._made.items()
            if owner == pod.name
        }
        references = []
        for reference in pod.spec.resource_claims:
            if not reference.resource_claim_template_name:
                references.append(reference)
                continue
            state = states.get(reference.name)
            if state is None:
                return "claim-missing"
            if not state.resource_claim_name:
                continue
            claim = self._claims.get(f"{pod.metadata.namespace}/{state.resource_claim_name}")
            if claim is not None and not any(
                owner.controller and owner.uid == pod.metadata.uid for owner in claim.metadata.owner_references
            ):
                return "claim-not-owned"
            references.append(
                msgspec.structs.replace(
                    reference, resource_claim_name=state.resource_claim_name, resource_claim_template_name=""
                )
            )
        return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=tuple(references)))


def _made_claims(
    pod: Pod, templates: Mapping[str, ResourceClaimTemplate], made: dict[tuple[str, str], str]
) -> Iterator[ResourceClaim]:
    """Yield the claims that the controller makes for a pod from templates."""
    if pod.status.resource_claim_statuses:
        return
    for reference in pod.spec.resource_claims:
        template = templates.get(f"{pod.metadata.namespace}/{reference.resource_claim_template_name}")
        if template is None:
            continue
        made[pod.name, reference.name] = name = f"{pod.name}-{reference.name}"
        owner = {"kind": "Pod", "name": pod.name, "uid": pod.metadata.uid, "controller": True}
        meta = {"name": name, "namespace": pod.metadata.namespace, "uid": name, "ownerReferences": [owner]}
        claim = convert_object(ResourceClaim, {"metadata": meta})
        yield msgspec.structs.replace(claim, spec=template.spec.spec)


def _observed(one: Mapping[str, Any]) -> tuple[Any, ...]:
    amounts = {name: Quantity.of(amount).nano for name, amount in one.get("consumedCapacity", {}).items()}
    is_admin, is_shared = one.get("adminAccess", False), one.get("shared", False)
    return one["request"], one["driver"], one["pool"], one["device"], is_admin, is_shared, amounts
