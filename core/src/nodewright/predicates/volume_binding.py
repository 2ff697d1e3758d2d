"""VolumeBinding: the node can use all bound volumes, and unbound claims find or get a volume there."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from nodewright.model.cluster import PersistentVolume, PersistentVolumeClaim, StorageClass, TopologyTerm
from nodewright.model.meta import Requirement
from nodewright.model.node import CsiNode
from nodewright.model.pod import Volume
from nodewright.model.quantity import ZERO, Quantity
from nodewright.predicates.in_tree_volumes import (
    csi_node_of,
    migrated_plugins,
    translated_affinity,
    zonal_plugin_of,
)
from nodewright.predicates.node_selector import matches_node, requirement_mask, selector_mask
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.predicates.selectors import Labels, Selector, SelectorRequirement, parse_requirement, parse_selector
from nodewright.predicates.volumes import (
    WAIT_FOR_CONSUMER,
    claims_of,
    class_name_of_claim,
    class_name_of_volume,
    class_of_claim,
    has_claims,
    is_fully_bound,
    missing_claim,
    name_of,
    per_context,
)
from nodewright.snapshot.column import Mask
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

NODE_REASON = "node(s) didn't match PersistentVolume's node affinity"
BIND_REASON = "node(s) didn't find available persistent volumes to bind"
SPACE_REASON = "node(s) did not have enough free storage"
VOLUME_REASON = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
IMMEDIATE_REASON = "pod has unbound immediate PersistentVolumeClaims"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_STORAGE = "storage"


@dataclass(frozen=True, kw_only=True, eq=False)
class _UnboundClaim:
    """A claim that waits for its first pod, with the volumes that may serve it, best first.

    ``reserved`` is the volume that names this claim; then only this volume may serve it.
    """

    claim: PersistentVolumeClaim
    candidates: tuple[PersistentVolume, ...]
    reserved: PersistentVolume | None


@dataclass(frozen=True, kw_only=True, eq=False)
class _ClaimsToBind:
    """The claims of a class, sorted: volumes bound (None: missing), claims given to a node, claims to serve."""

    bound: tuple[PersistentVolume | None, ...]
    selected: tuple[tuple[str, PersistentVolumeClaim], ...]
    unbound_claims: tuple[_UnboundClaim, ...]


@per_context
def _plan(pod: PodClass, context: Context) -> _ClaimsToBind:
    claims = [claim for _, _, claim in claims_of(pod, context) if claim is not None]
    bound = [context.volumes.get(claim.spec.volume_name) for claim in claims if is_fully_bound(claim)]
    waiting = [claim for claim in claims if not is_fully_bound(claim) and _waits(claim, context)]
    selected = [(claim.metadata.annotations.get(_SELECTED_NODE), claim) for claim in waiting]
    open_claims = sorted((claim for node, claim in selected if node is None), key=_size_of_claim)
    return _ClaimsToBind(
        bound=tuple(bound),
        selected=tuple((node, claim) for node, claim in selected if node is not None),
        unbound_claims=tuple(_make_unbound_claim(claim, context) for claim in open_claims),
    )


def _waits(claim: PersistentVolumeClaim, context: Context) -> bool:
    """Return whether kube-scheduler binds this unbound claim (WaitForFirstConsumer)."""
    storage_class = class_of_claim(claim, context)
    delayed = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_CONSUMER
    return delayed and not claim.spec.volume_name


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    plan = _plan(pod, snapshot.context)
    found: Mask = np.ones(window.stop - window.start, dtype=np.bool_)
    for volume in plan.bound:
        found &= False if volume is None else _bound_mask(snapshot, volume, window)
    for node, claim in plan.selected:
        found &= _row_mask(snapshot, node, window) & _provision_mask(snapshot, claim, window)
    if plan.unbound_claims:
        found &= _serve_mask(snapshot, plan.unbound_claims, window)
    return found


def _reach_mask(snapshot: Snapshot, volume: PersistentVolume, window: slice) -> Mask:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return np.ones(window.stop - window.start, dtype=np.bool_)
    return selector_mask(snapshot, window, affinity.required, named=False)


def _bound_mask(snapshot: Snapshot, volume: PersistentVolume, window: slice) -> Mask:
    """Return the rows that reach a bound volume. Migrated nodes reach those of in-tree plugins by their driver's labels."""
    found, plugin = _reach_mask(snapshot, volume, window), zonal_plugin_of(volume)
    if not plugin:
        return found
    rows = range(window.start, window.stop)
    migrated = np.fromiter((plugin in migrated_plugins(csi_node_of(snapshot, row)) for row in rows), np.bool_)
    affinity = translated_affinity(volume, plugin)
    if affinity is None or not migrated.any():
        return found
    return np.where(migrated, selector_mask(snapshot, window, affinity, named=False), found)


def _row_mask(snapshot: Snapshot, name: str, window: slice) -> Mask:
    found = np.zeros(window.stop - window.start, dtype=np.bool_)
    row = snapshot.find_row(name)
    if row is not None and window.start <= row < window.stop:
        found[row - window.start] = True
    return found


def _serve_mask(snapshot: Snapshot, unbound_claims: tuple[_UnboundClaim, ...], window: slice) -> Mask:
    """Return a mask of the rows where every claim finds a volume, smallest claims first, or can be provisioned."""
    found: Mask = np.ones(window.stop - window.start, dtype=np.bool_)
    left: dict[str, Mask] = {}
    for unbound in unbound_claims:
        served = np.zeros_like(found)
        for volume in (unbound.reserved,) if unbound.reserved is not None else unbound.candidates:
            if volume.name not in left:
                left[volume.name] = _reach_mask(snapshot, volume, window)
            taken = left[volume.name] & ~served
            left[volume.name] = left[volume.name] & ~taken
            served |= taken
        found &= served | _provision_mask(snapshot, unbound.claim, window)
    return found


def _provision_mask(snapshot: Snapshot, claim: PersistentVolumeClaim, window: slice) -> Mask:
    storage_class = class_of_claim(claim, snapshot.context)
    nowhere = np.zeros(window.stop - window.start, dtype=np.bool_)
    if storage_class is None or not _is_provisioned(storage_class):
        return nowhere
    enough = _enough_space_mask(snapshot, claim, window)
    if not storage_class.allowed_topologies:
        return ~nowhere if enough is None else enough
    for term in storage_class.allowed_topologies:
        selector = _parse_topology(term)
        if selector is not None:
            masks = [requirement_mask(snapshot, window, requirement) for requirement in selector.requirements]
            nowhere |= np.logical_and.reduce(masks)
    return nowhere if enough is None else nowhere & enough


def _enough_space_mask(snapshot: Snapshot, claim: PersistentVolumeClaim, window: slice) -> Mask | None:
    """Return the rows on which the driver has room for a claim; None: the driver does not report it."""
    topologies = _topologies_with_space(claim, snapshot.context)
    if topologies is None:
        return None
    found: Mask = np.zeros(window.stop - window.start, dtype=np.bool_)
    for selector in topologies:
        masks = [requirement_mask(snapshot, window, requirement) for requirement in selector.requirements]
        found |= np.logical_and.reduce(masks) if masks else True
    return found


def _is_provisioned(storage_class: StorageClass) -> bool:
    return storage_class.provisioner not in ("", _NO_PROVISIONER)


def _parse_topology(term: TopologyTerm) -> Selector | None:
    """Return the selector of a term of allowedTopologies; None if it is empty or invalid and selects nothing."""
    stated = (Requirement(key=r.key, operator="In", values=r.values) for r in term.match_label_expressions)
    parsed = [parse_requirement(requirement) for requirement in stated]
    valid = [requirement for requirement in parsed if requirement is not None]
    return Selector(valid) if valid and len(valid) == len(parsed) else None


def _topologies_with_space(claim: PersistentVolumeClaim, context: Context) -> list[Selector] | None:
    """Return the nodes on which the driver has room for a claim, by CSIStorageCapacities; None: the driver reports none."""
    storage_class, size = class_of_claim(claim, context), claim.spec.resources.requests.get(_STORAGE)
    driver = context.csi_drivers.get(storage_class.provisioner) if storage_class else None
    if storage_class is None or size is None or driver is None or not driver.spec.storage_capacity:
        return None
    key = (_topologies_with_space, storage_class.name, size)
    known: list[Selector] | None = context.memo.get(key)
    if known is not None:
        return known
    found = context.memo[key] = list[Selector]()
    for held in context.storage_capacities:
        most = held.capacity if held.maximum_volume_size is None else held.maximum_volume_size
        if held.storage_class_name == storage_class.name and most is not None and not most < size:
            selector = parse_selector(held.node_topology) if held.node_topology is not None else None
            found += [selector] if selector is not None else []
    found[:] = _join(found)
    return found


def _join(selectors: Iterable[Selector]) -> list[Selector]:
    """Merge selectors into one for each key: local storage has one selector for each node."""
    values, others = dict[str, frozenset[str]](), list[Selector]()
    for selector in selectors:
        match selector.requirements:
            case (only,) if only.operator == "In":
                values[only.key] = values.get(only.key, frozenset()) | only.values
            case _:
                others.append(selector)
    return [*(Selector([SelectorRequirement(key, "In", held)]) for key, held in values.items()), *others]


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    node, plan = snapshot.node(row), _plan(pod, snapshot.context)
    labels = node.metadata.labels
    reasons = [_fault_of_bound(plan.bound, labels, csi_node_of(snapshot, row))]
    if any(name != node.name for name, _ in plan.selected):
        reasons.append(BIND_REASON)
    else:
        unserved = _find_unserved(plan.unbound_claims, lambda volume: _reaches(volume, labels))
        claims = [*(claim for _, claim in plan.selected), *unserved]
        reasons.append(_fault_of_provisioning(claims, labels, snapshot.context))
    # kube-scheduler puts a missing volume last.
    found = sorted((reason for reason in reasons if reason is not None), key=lambda reason: reason == VOLUME_REASON)
    return tuple(found) or None


def _reaches(volume: PersistentVolume, labels: Labels) -> bool:
    affinity = volume.spec.node_affinity
    return affinity is None or affinity.required is None or matches_node(affinity.required, labels)


def _fault_of_bound(
    volumes: tuple[PersistentVolume | None, ...], labels: Labels, csi_node: CsiNode | None
) -> str | None:
    for volume in volumes:
        if volume is None:
            return VOLUME_REASON
        if not _reaches_bound(volume, labels, csi_node):
            return NODE_REASON
    return None


def _reaches_bound(volume: PersistentVolume, labels: Labels, csi_node: CsiNode | None) -> bool:
    plugin = zonal_plugin_of(volume)
    if not plugin or plugin not in migrated_plugins(csi_node):
        return _reaches(volume, labels)
    affinity = translated_affinity(volume, plugin)
    return affinity is None or matches_node(affinity, labels)


def _fault_of_provisioning(
    claims: list[PersistentVolumeClaim], labels: Mapping[str, str], context: Context
) -> str | None:
    for claim in claims:
        storage_class = class_of_claim(claim, context)
        if storage_class is None or not _is_provisioned(storage_class):
            return BIND_REASON
        selectors = [_parse_topology(term) for term in storage_class.allowed_topologies]
        if selectors and not any(selector is not None and selector.matches(labels) for selector in selectors):
            return BIND_REASON
        topologies = _topologies_with_space(claim, context)
        if topologies is not None and not any(one.matches(labels) for one in topologies):
            return SPACE_REASON
    return None


def _refuse_pod(snapshot: Snapshot, pod: PodClass) -> Texts | None:
    context = snapshot.context
    for volume, key, claim in claims_of(pod, context):
        reason = _fault_of_claim(pod, volume, key, claim)
        if reason is not None:
            return (reason,)
    unbound = [claim for _, _, claim in claims_of(pod, context) if claim is not None and not is_fully_bound(claim)]
    for claim in unbound:
        storage_class = class_of_claim(claim, context)
        if storage_class is not None and storage_class.volume_binding_mode is None:
            return (f'VolumeBindingMode not set for StorageClass "{class_name_of_claim(claim)}"',)
    return (IMMEDIATE_REASON,) if not all(_waits(claim, context) for claim in unbound) else None


def _fault_of_claim(pod: PodClass, volume: Volume, key: str, claim: PersistentVolumeClaim | None) -> str | None:
    name = name_of(key)
    if claim is None and volume.persistent_volume_claim is not None:
        return missing_claim(key)
    if claim is None:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    if claim.status.phase == "Lost":
        lost = claim.spec.volume_name
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"'
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{name}" is being deleted'
    if volume.persistent_volume_claim is None and not _owns(pod, claim):
        return f"PVC {key} was not created for pod {pod.namespace}/{pod.pod.name} (pod is not owner)"
    return None


def _owns(pod: PodClass, claim: PersistentVolumeClaim) -> bool:
    controller = claim.metadata.controller
    return controller is not None and controller.uid == pod.pod.metadata.uid


def _make_unbound_claim(claim: PersistentVolumeClaim, context: Context) -> _UnboundClaim:
    """Return the volumes that may serve a claim, on any node (kube-scheduler's FindMatchingVolume)."""
    storage_class = class_name_of_claim(claim)
    alike = [
        volume
        for volume in context.volumes.values()
        if class_name_of_volume(volume) == storage_class and _is_large_enough(volume, claim)
    ]
    reserved = next((volume for volume in alike if _is_reserved(volume, claim)), None)
    free = [volume for volume in alike if volume.spec.claim_ref is None and _is_free_for(volume, claim)]
    return _UnboundClaim(claim=claim, candidates=tuple(sorted(free, key=_size_of_volume)), reserved=reserved)


def _size_of_claim(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get(_STORAGE, ZERO)


def _size_of_volume(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get(_STORAGE, ZERO)


def _find_unserved(
    unbound_claims: Iterable[_UnboundClaim], reaches: Callable[[PersistentVolume], bool]
) -> list[PersistentVolumeClaim]:
    """Return the claims without a volume on a node that can use only some volumes. Each volume serves one claim."""
    taken: set[str] = set()
    unserved = []
    for unbound in unbound_claims:
        options = (unbound.reserved,) if unbound.reserved is not None else unbound.candidates
        chosen = next((volume for volume in options if volume.name not in taken and reaches(volume)), None)
        if chosen is None:
            unserved.append(unbound.claim)
        else:
            taken.add(chosen.name)
    return unserved


def _is_large_enough(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    spec, wanted = volume.spec, claim.spec
    if volume.metadata.deletion_timestamp is not None or _size_of_volume(volume) < _size_of_claim(claim):
        return False
    same_mode = (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
    return same_mode and spec.volume_attributes_class_name == wanted.volume_attributes_class_name


def _is_reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference, own = volume.spec.claim_ref, claim.metadata
    if reference is None or (reference.namespace, reference.name) != (own.namespace, own.name):
        return False
    return not reference.uid or reference.uid == own.uid


def _is_free_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether an unclaimed volume is Available, with the claim's access modes and labels."""
    if volume.status.phase != "Available" or not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return False
    if claim.spec.selector is None:
        return True
    selector = parse_selector(claim.spec.selector)
    return selector is not None and selector.matches(volume.metadata.labels)


PREDICATE = Predicate(
    name="VolumeBinding", reads=whole, mask=_mask, explain=_explain, refuse_pod=_refuse_pod, concerns=has_claims
)
