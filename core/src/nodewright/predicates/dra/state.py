"""The devices that are in use in a snapshot, and the claims of pods of a class on one node.

For extended resources that a DeviceClass serves, kube-scheduler makes a claim for a pod on one node; ``claim_for`` makes
the same claim.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodewright.model.devices import (
    AllocatedDevice,
    ClaimRequest,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ResourceClaim,
)
from nodewright.model.node import Node
from nodewright.model.pod import Container, NodeSelector, NodeSelectorTerm, PodSpec
from nodewright.predicates.dra.allocator import AllocationContext, ChosenDevice, InUse, Refusal, RefusalCode, allocate
from nodewright.predicates.dra.pools import DeviceId, NodePools, SliceIndex
from nodewright.predicates.dra.selectors import NO_CEL, Selectors, is_available
from nodewright.predicates.node_selector import matches_node
from nodewright.predicates.volumes import per_context
from nodewright.snapshot.claim_log import ClaimLog
from nodewright.snapshot.context import Context
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot

_MAX_KNOWN = 2**16
_ELSEWHERE = Refusal(RefusalCode.CLAIM_ELSEWHERE, "resourceclaim not available on the node")
Found = list[list[ChosenDevice]] | Refusal


@dataclass(frozen=True)
class PodClaim:
    """One claim of the pods of a class. ``key`` is ``namespace/name``; empty: each pod gets a claim of its own."""

    key: str
    spec: DeviceClaim


@dataclass(frozen=True)
class DeviceDemand:
    """The claims of the pods of a class; ``refusal``: why no node can serve them. ``resources`` are served by classes."""

    claims: tuple[PodClaim, ...] = ()
    resources: tuple[str, ...] = ()
    refusal: Refusal | None = None

    @property
    def is_shared(self) -> bool:
        """Return whether other pods may use a claim too."""
        return any(claim.key for claim in self.claims)


@per_context
def demand_of(pod: PodClass, context: Context) -> DeviceDemand:
    """Return the claims of the pods of a class, as the context knows them."""
    claims = list[PodClaim]()
    for reference in pod.spec.resource_claims:
        if reference.resource_claim_template_name:
            key = f"{pod.namespace}/{reference.resource_claim_template_name}"
            template = context.claim_templates.get(key)
            if template is None:
                return _refused(RefusalCode.CLAIM_MISSING, f'could not find ResourceClaimTemplate "{key}"')
            claims.append(PodClaim("", template.spec.spec.devices))
        else:
            key = f"{pod.namespace}/{reference.resource_claim_name}"
            claim = context.device_claims.get(key)
            if claim is None:
                return _refused(RefusalCode.CLAIM_MISSING, f'could not find ResourceClaim "{key}"')
            if claim.metadata.deletion_timestamp is not None:
                return _refused(RefusalCode.CLAIM_DELETED, f'resourceclaim "{claim.name}" is being deleted')
            claims.append(PodClaim(key, claim.spec.devices))
    resources = tuple(sorted(name for name in pod.requests if name in context.device_resources))
    open_claims = [claim.spec for claim in claims if not _is_allocated(context, claim.key)]
    refusal = _refuse_classes(open_claims, context)
    if refusal is None and not is_available() and _has_selectors(open_claims, resources, context):
        refusal = Refusal(RefusalCode.NO_CEL, NO_CEL)
    return DeviceDemand(tuple(claims), resources, refusal)


def _refused(code: RefusalCode, text: str) -> DeviceDemand:
    return DeviceDemand(refusal=Refusal(code, text))


def _is_allocated(context: Context, key: str) -> bool:
    return bool(key) and context.device_claims[key].status.allocation is not None


def _refuse_classes(claims: Iterable[DeviceClaim], context: Context) -> Refusal | None:
    """Return why no node can serve the claims: one of the device classes that they name does not exist."""
    for claim in claims:
        for request in claim.requests:
            named = [(request.name, request.exactly)] if request.exactly is not None else []
            named += [(f"{request.name}/{one.name}", one) for one in request.first_available]
            if not named:
                return Refusal(RefusalCode.CLASS_MISSING, f"request {request.name}: unknown request type")
            for name, one in named:
                if one.device_class_name not in context.device_classes:
                    text = f"request {name}: device class {one.device_class_name} does not exist"
                    return Refusal(RefusalCode.CLASS_MISSING, text)
    return None


def _has_selectors(claims: Iterable[DeviceClaim], resources: Iterable[str], context: Context) -> bool:
    asks = [
        one
        for claim in claims
        for request in claim.requests
        for one in (request.exactly, *request.first_available)
        if one is not None
    ]
    names = [one.device_class_name for one in asks] + [context.device_resources[name].name for name in resources]
    return any(one.selectors for one in asks) or any(context.device_classes[name].spec.selectors for name in names)


@dataclass(frozen=True, eq=False)
class HeldClaim:
    """The rows on which an allocated claim can be used: one row, or those that a selector matches (None: all)."""

    row: int | None
    selector: NodeSelector | None = None


@dataclass(frozen=True, eq=False)
class DeviceState:
    """Changes by simulated pods: devices taken on each row and elsewhere, claims that were allocated, and freed claims."""

    rows: Mapping[int, InUse] = field(default_factory=dict)
    elsewhere: InUse = field(default_factory=InUse)
    claims: Mapping[str, HeldClaim] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    freed: frozenset[str] = frozenset()


_NONE_IN_USE = InUse()
_UNCHANGED = DeviceState(elsewhere=_NONE_IN_USE)


class DeviceLedger:
    """The devices of a context, and cached results of searches for them."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.index = SliceIndex(context.resource_slices, context.device_taint_rules)
        self.select = Selectors()
        self._in_use: dict[frozenset[str], InUse] = {}
        self._pools = dict[int, tuple[Node, NodePools]]()
        self._found: dict[tuple[object, ...], Found] = {}

    @staticmethod
    def of(snapshot: Snapshot) -> "DeviceLedger":
        context = snapshot.context
        held: DeviceLedger | None = context.memo.get(DeviceLedger)
        if held is None:
            held = context.memo[DeviceLedger] = DeviceLedger(context)
        return held

    def in_use(self, freed: frozenset[str] = frozenset()) -> InUse:
        """Return the devices that claims hold, except the claims of these keys."""
        held = self._in_use.get(freed)
        if held is None:
            claims = (claim for key, claim in self.context.device_claims.items() if key not in freed)
            held = self._in_use[freed] = in_use_by(claims)
        return held

    def pools(self, snapshot: Snapshot, row: int) -> NodePools:
        """Return the pools that the node of a row reaches."""
        node = snapshot.template(row)
        held = self._pools.get(id(node))
        if held is None or held[0] is not node:
            if len(self._pools) >= _MAX_KNOWN:
                self._pools.clear()
            held = self._pools[id(node)] = (node, self.index.gather(node))
        return held[1]

    def find(self, snapshot: Snapshot, pod: PodClass, row: int) -> Found:
        """Return the devices for one more pod of a class on a row, or why there are none."""
        return self._find(snapshot, self.state(snapshot), pod, row)

    def state(self, snapshot: Snapshot) -> DeviceState:
        """Return what simulated pods changed."""
        log, behind = snapshot.claim_log, list[ClaimLog]()
        while log is not None and (log.derived is None or log.derived[0] is not self):
            behind.append(log)
            log = log.parent
        state: DeviceState = log.derived[1] if log is not None else _UNCHANGED
        for entry in reversed(behind):
            state = self._after(snapshot, state, entry)
            entry.derived = (self, state)
        return state

    def are_local(self, pods: Iterable[PodClass]) -> bool:
        """Return whether pods of these classes change the devices of their own node only."""
        if self.index.crosses_nodes:
            return False
        return not any(demand_of(pod, self.context).is_shared for pod in pods)

    def _find(self, snapshot: Snapshot, state: DeviceState, pod: PodClass, row: int) -> Found:
        pools = self.pools(snapshot, row)
        layers = (self.in_use(state.freed), state.elsewhere, state.rows.get(row, _NONE_IN_USE))
        demand = demand_of(pod, self.context)
        key = (pod, pools, layers[0], layers[1], layers[2])
        if not demand.is_shared and not demand.resources:
            known = self._found.get(key)
            if known is not None:
                return known
        found = self._search(
            snapshot,
            state,
            demand,
            pod,
            row,
            AllocationContext(pools, self.context.device_classes, self.select, layers),
        )
        if not demand.is_shared and not demand.resources:
            if len(self._found) >= _MAX_KNOWN:
                self._found.clear()
            self._found[key] = found
        return found

    def _search(
        self,
        snapshot: Snapshot,
        state: DeviceState,
        demand: DeviceDemand,
        pod: PodClass,
        row: int,
        search: AllocationContext,
    ) -> Found:
        if demand.refusal is not None:
            return demand.refusal
        wanted, is_away = list[DeviceClaim](), False
        for claim in demand.claims:
            if not self.is_held(state, claim.key):
                wanted.append(claim.spec)
            elif not self._reaches(snapshot, state, claim.key, row):
                is_away = True
        served = self._served(snapshot, demand, row)
        if served:
            wanted.append(claim_for(pod.spec, served))
        found = allocate(wanted, search)
        return _ELSEWHERE if is_away and not isinstance(found, Refusal) else found

    def _served(self, snapshot: Snapshot, demand: DeviceDemand, row: int) -> dict[str, DeviceClass]:
        columns, offers = snapshot.vocabulary.resources, snapshot.allocatable[row]
        return {
            name: self.context.device_resources[name]
            for name in demand.resources
            if name not in columns or offers[columns[name]] <= 0
        }

    def is_held(self, state: DeviceState, key: str) -> bool:
        return bool(key) and (key in state.claims or (key not in state.freed and _is_allocated(self.context, key)))

    def _reaches(self, snapshot: Snapshot, state: DeviceState, key: str, row: int) -> bool:
        """Return whether an allocated claim can be used on a row."""
        held = state.claims.get(key)
        if held is None:
            allocation = self.context.device_claims[key].status.allocation
            held = HeldClaim(None, allocation.node_selector if allocation is not None else None)
        if held.row is not None:
            return held.row == row
        node = snapshot.node(row)
        return held.selector is None or matches_node(held.selector, node.metadata.labels, node.name)

    def _after(self, snapshot: Snapshot, state: DeviceState, entry: ClaimLog) -> DeviceState:
        demand = demand_of(entry.pod_class, self.context)
        if entry.leaves:
            return self._without(state, demand)
        found = self._find(snapshot, state, entry.pod_class, entry.row)
        if isinstance(found, Refusal):
            return state
        taken = [given for devices in found for given in devices if not given.is_admin]
        here = [given for given in taken if given.candidate.is_local]
        shared = [given for given in taken if not given.candidate.is_local]
        if here:
            rows = dict(state.rows)
            rows[entry.row] = _with(rows.get(entry.row, _NONE_IN_USE), here)
            state = replace(state, rows=rows)
        if shared:
            state = replace(state, elsewhere=_with(state.elsewhere, shared))
        fresh = [claim.key for claim in demand.claims if not self.is_held(state, claim.key)]
        named = {key: _held(devices, entry.row) for key, devices in zip(fresh, found, strict=False) if key}
        return replace(state, claims={**state.claims, **named}) if named else state

    def _without(self, state: DeviceState, demand: DeviceDemand) -> DeviceState:
        """Return the state after a pod that used claims has ended: a claim without users loses its devices."""
        left, freed = dict(state.left), set(state.freed)
        for claim in demand.claims:
            if claim.key and _is_allocated(self.context, claim.key):
                left[claim.key] = left.get(claim.key, 0) + 1
                if left[claim.key] >= len(self.context.device_claims[claim.key].status.reserved_for):
                    freed.add(claim.key)
        return replace(state, left=left, freed=frozenset(freed))


def in_use_by(claims: Iterable[ResourceClaim]) -> InUse:
    """Return the devices that allocated claims hold. Admin access holds nothing."""
    devices, shares = set[DeviceId](), dict[DeviceId, dict[str, int]]()
    for claim in claims:
        allocation = claim.status.allocation
        for one in allocation.devices.results if allocation is not None else ():
            if one.admin_access:
                continue
            if one.share_id:
                _add_share(shares, one)
            else:
                devices.add(one.id)
    return InUse(devices, shares)


def _add_share(shares: dict[DeviceId, dict[str, int]], one: AllocatedDevice) -> None:
    held = shares.setdefault(one.id, {})
    for name, amount in one.consumed_capacity.items():
        held[name] = held.get(name, 0) + amount.nano


def _with(held: InUse, more: Iterable[ChosenDevice]) -> InUse:
    devices, shares = set(held.devices), {device: dict(amounts) for device, amounts in held.shares.items()}
    for given in more:
        if given.consumed is None:
            devices.add(given.candidate.id)
        else:
            amounts = shares.setdefault(given.candidate.id, {})
            for name, amount in given.consumed.items():
                amounts[name] = amounts.get(name, 0) + amount
    return InUse(devices, shares)


def _held(devices: Iterable[ChosenDevice], row: int) -> HeldClaim:
    """Return where a claim with these devices can be used."""
    selectors = list[NodeSelector]()
    for given in devices:
        if given.candidate.is_local:
            return HeldClaim(row)
        if given.candidate.node_selector is not None:
            selectors.append(given.candidate.node_selector)
    if not selectors:
        return HeldClaim(None)
    terms = [one.node_selector_terms[0] for one in selectors if one.node_selector_terms]
    term = NodeSelectorTerm(
        match_expressions=tuple(dict.fromkeys(one for term in terms for one in term.match_expressions)),
        match_fields=tuple(dict.fromkeys(one for term in terms for one in term.match_fields)),
    )
    return HeldClaim(None, NodeSelector(node_selector_terms=(term,)))


def claim_for(spec: PodSpec, served: Mapping[str, DeviceClass]) -> DeviceClaim:
    """Return the claim for the resources that a node serves by devices, by resource name.

    Init containers that end before other containers start use the devices of the other containers. If an init container
    needs more, the claim requests once the most that any of them needs in addition.
    """
    containers = (*spec.init_containers, *spec.containers)
    is_short = [
        index < len(spec.init_containers) and container.restart_policy != "Always"
        for index, container in enumerate(containers)
    ]
    requests = [
        request
        for resource in sorted(served)
        for request in _requests(containers, is_short, resource, served[resource].name)
    ]
    return DeviceClaim(requests=tuple(sorted(requests, key=lambda request: request.name)))


def _requests(
    containers: Sequence[Container], is_short: Sequence[bool], resource: str, class_name: str
) -> Iterator[ClaimRequest]:
    held = [0 if short else _amount(container, resource) for container, short in zip(containers, is_short, strict=True)]
    most: tuple[int, int] | None = None
    for index, container in enumerate(containers):
        rest = _amount(container, resource) - sum(held[index:]) if is_short[index] else 0
        if rest > 0 and (most is None or rest > most[1]):
            most = (index, rest)
    for index, count in ([most] if most else []) + [(index, count) for index, count in enumerate(held) if count]:
        place = sorted(containers[index].resources.requests).index(resource)
        exactly = DeviceRequest(device_class_name=class_name, count=count)
        yield ClaimRequest(name=f"container-{index}-request-{place}", exactly=exactly)


def _amount(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource)
    return amount.value if amount is not None else 0
