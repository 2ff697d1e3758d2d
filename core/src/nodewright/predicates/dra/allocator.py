"""The search for the devices of some claims on one node, exactly as kube-scheduler's structured allocator searches.

The first solution of a depth-first search wins: requests in their order, devices in the order of their pools. Two things
differ, and neither changes a result: a device is not tried if an equal one has just failed, and the search ends after it
has examined ``MAX_STEPS`` devices. The result is then undecided: a solution may or may not exist.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

import msgspec

from nodewright.model.devices import (
    ClaimRequest,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
)
from nodewright.predicates.dra import capacity
from nodewright.predicates.dra.pools import Candidate, DeviceId, NodePools, Pool, PoolId


def attribute_of(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return an attribute by its qualified name. An attribute without a domain has the driver's."""
    found = device.attributes.get(name)
    if found is None:
        domain, slash, bare = name.partition("/")
        if slash and domain == driver:
            found = device.attributes.get(bare)
    return found


class AttributeConstraint:
    """One constraint of a claim, with the values of the devices chosen so far."""

    def __init__(self, spec: DeviceConstraint) -> None:
        self.attribute = spec.match_attribute or spec.distinct_attribute
        self._is_distinct = not spec.match_attribute
        self._requests = frozenset(spec.requests)
        self._values: list[DeviceAttribute] = []

    def concerns(self, request: str, alternative: str) -> bool:
        """Return whether devices of a request, or of one of its alternatives, must obey the constraint."""
        names = self._requests
        return not names or request in names or (bool(alternative) and f"{request}/{alternative}" in names)

    def add(self, value: DeviceAttribute | None) -> bool:
        """Count one more device if it may have this value. Return whether it may."""
        if value is None or (self._values and (value in self._values) == self._is_distinct):
            return False
        self._values.append(value)
        return True

    def remove(self) -> None:
        """Undo ``add``."""
        self._values.pop()


MAX_STEPS = 5_000
MAX_DEVICES_PER_CLAIM = 32
# Devices of all claims of a pod together: each is one level of the recursion.
_MAX_DEPTH = 256
_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")
Select = Callable[[Candidate, str], bool]
"""Return whether a CEL expression holds for a device. Raise SearchError if it cannot be evaluated."""


class RefusalCode(StrEnum):
    """The reason for which devices cannot be allocated."""

    CANNOT_ALLOCATE = "cannot-allocate"
    CLAIM_ELSEWHERE = "claim-on-other-node"
    CLAIM_MISSING = "claim-missing"
    CLAIM_FOREIGN = "claim-not-owned"
    CLAIM_DELETED = "claim-deleted"
    CLASS_MISSING = "class-missing"
    POOL_INCOMPLETE = "pool-incomplete"
    POOL_INVALID = "pool-invalid"
    TOO_MANY = "too-many-devices"
    ALL_AGAINST_CONSTRAINT = "all-against-constraint"
    CEL_ERROR = "cel-runtime-error"
    NO_CEL = "no-cel"
    UNDECIDED = "undecided"


class Refusal(NamedTuple):
    """The reason why devices cannot be allocated. ``is_error``: kube-scheduler gives up the whole attempt, even if other nodes fit."""

    code: RefusalCode
    text: str
    is_error: bool = False


class SearchError(Exception):
    """The search cannot go on."""

    def __init__(self, code: RefusalCode, text: str, *, is_error: bool = True) -> None:
        super().__init__(text)
        self.refusal = Refusal(code, text, is_error)


class ChosenDevice(NamedTuple):
    """A device that the search chose; ``consumed`` is None for a device that no other claim may share."""

    request: str
    candidate: Candidate
    is_admin: bool
    consumed: Mapping[str, int] | None


@dataclass(frozen=True, eq=False)
class InUse:
    """Devices that claims hold: whole ones, and shares of others by device."""

    devices: AbstractSet[DeviceId] = frozenset()
    shares: Mapping[DeviceId, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class AllocationContext:
    """The input of a search besides the claims. ``in_use`` has one layer for the cluster and one for the node."""

    pools: NodePools
    classes: Mapping[str, DeviceClass]
    select: Select
    in_use: tuple[InUse, ...] = ()
    max_steps: int = MAX_STEPS


def allocate(claims: Sequence[DeviceClaim], context: AllocationContext) -> list[list[ChosenDevice]] | Refusal:
    """Return the devices of each claim, or why there are none."""
    search = _DeviceSearch(claims, context)
    try:
        is_done = search.run()
    except SearchError as error:
        return error.refusal
    if is_done:
        return search.given
    if any(pool.is_invalid for pool in context.pools.pools):
        return Refusal(RefusalCode.CANNOT_ALLOCATE, "invalid resource pools were encountered")
    return Refusal(RefusalCode.CANNOT_ALLOCATE, "cannot allocate all claims")


class _Ask:
    """One request, or one alternative of a request, with facts that the search computes once."""

    def __init__(self, parent: str, name: str, request: DeviceRequest, device_class: DeviceClass) -> None:
        # The names that constraints and results use.
        self.parent, self.name = parent, name
        self.request = request
        selectors = (*device_class.spec.selectors, *request.selectors)
        self.expressions = tuple(selector.cel.expression for selector in selectors if selector.cel is not None)
        self.is_admin = request.admin_access and not parent
        self.takes_all = request.allocation_mode == "All"
        self.all: list[Candidate] = []
        self.count = request.count
        self.base = parent or name
        self.alternative = name if parent else ""
        self.full_name = f"{parent}/{name}" if parent else name


class _TooMany(Exception):
    """A claim would have more devices than its result holds."""


class _DeviceSearch:
    def __init__(self, claims: Sequence[DeviceClaim], context: AllocationContext) -> None:
        self._claims = claims
        self._context = context
        self._candidates = context.pools.candidates
        self._in_use = context.in_use
        self._steps = 0
        self._asks: list[list[list[_Ask]]] = []
        self._constraints = [[AttributeConstraint(spec) for spec in claim.constraints] for claim in claims]
        self.given: list[list[ChosenDevice]] = [[] for _ in claims]
        # The devices that this search has taken: device → indices of claims; device → shares, each with its amounts.
        self._taken: dict[DeviceId, set[int]] = {}
        self._shares: dict[DeviceId, list[Mapping[str, int]]] = {}
        self._used: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._available: dict[PoolId, dict[tuple[str, str], int]] = {}
        self._kinds: dict[int, object] = {}
        self._takes_all = False
        self._attributes = sorted({one.attribute for held in self._constraints for one in held})

    def run(self) -> bool:
        total = 0
        for claim in self._claims:
            asks = [self._read(request) for request in claim.requests]
            least = sum(min(ask.count for ask in alternatives) for alternatives in asks)
            if least > MAX_DEVICES_PER_CLAIM:
                text = f"number of requested devices {least} exceeds the claim limit of {MAX_DEVICES_PER_CLAIM}"
                raise SearchError(RefusalCode.TOO_MANY, text)
            total += least
            self._asks.append(asks)
        if total > _MAX_DEPTH:
            raise _undecided()
        try:
            return self._next_request(0, 0)
        except _TooMany:
            return False

    def _read(self, request: ClaimRequest) -> list[_Ask]:
        if request.exactly is not None:
            pairs = [("", request.name, request.exactly)]
        else:
            pairs = [(request.name, one.name, one) for one in request.first_available]
        asks = []
        for parent, name, one in pairs:
            device_class = self._context.classes.get(one.device_class_name)
            if device_class is None:
                text = f"request {name}: device class {one.device_class_name} does not exist"
                raise SearchError(RefusalCode.CLASS_MISSING, text, is_error=False)
            ask = _Ask(parent, name, one, device_class)
            if ask.takes_all:
                self._takes_all = True
                ask.all = list(self._all(ask))
                ask.count = len(ask.all)
            asks.append(ask)
        return asks

    def _all(self, ask: _Ask) -> Iterator[Candidate]:
        for pool in self._context.pools.pools:
            if not pool.is_usable:
                code = RefusalCode.POOL_INCOMPLETE if pool.is_incomplete else RefusalCode.POOL_INVALID
                state = "being updated" if pool.is_incomplete else "invalid"
                text = f"request {ask.full_name}: asks for all devices, but resource pool {'/'.join(pool.id)} is currently {state}"
                raise SearchError(code, text)
            yield from (one for one in pool.candidates if self._matches(ask, one) and self._has_room(ask, one))

    def _next_request(self, claim: int, request: int) -> bool:
        """Go on with a request, or with the claim after it. Return whether everything was allocated."""
        if claim >= len(self._asks):
            return True
        if request >= len(self._asks[claim]):
            try:
                return self._next_request(claim + 1, 0)
            except _TooMany:  # another alternative in this claim may leave room for fewer devices there
                return False
        alternatives = self._asks[claim][request]
        if not alternatives[0].parent:
            return self._devices(claim, request, alternatives[0], 0, 0)
        are_all_too_many = True
        for ask in alternatives:
            try:
                if self._devices(claim, request, ask, 0, 0):
                    return True
            except _TooMany:
                continue
            are_all_too_many = False
        if are_all_too_many:
            raise _TooMany
        return False

    def _devices(self, claim: int, request: int, ask: _Ask, done: int, start: int) -> bool:
        """Choose the devices of a request from number ``done`` on, among the candidates from ``start`` on."""
        if ask.takes_all and not ask.all:
            return False
        if done >= ask.count:
            return self._next_request(claim, request + 1)
        if len(self.given[claim]) + ask.count - done > MAX_DEVICES_PER_CLAIM:
            raise _TooMany
        if ask.takes_all:
            return self._try(claim, request, ask, done, ask.all[done], start) is True
        return self._search(claim, request, ask, done, start)

    def _search(self, claim: int, request: int, ask: _Ask, done: int, start: int) -> bool:
        """Try one candidate after the other. Return whether everything was allocated."""
        failed = set[object]()
        for index in range(start, len(self._candidates)):
            self._steps += 1
            if self._steps > self._context.max_steps:
                raise _undecided()
            candidate = self._candidates[index]
            if not self._is_open(claim, ask, candidate) or (failed and self._kind(candidate) in failed):
                continue
            if not self._matches(ask, candidate) or not self._has_room(ask, candidate):
                continue
            outcome = self._try(claim, request, ask, done, candidate, index + 1)
            if outcome:
                return True
            if outcome is not None:
                failed.add(self._kind(candidate))
        return False

    def _try(self, claim: int, request: int, ask: _Ask, done: int, candidate: Candidate, after: int) -> bool | None:
        """Take a device and go on. Return whether everything was allocated; None: the device cannot be taken."""
        undo = self._take(claim, ask, candidate)
        if undo is None:
            return None
        try:
            is_done = self._devices(claim, request, ask, done + 1, after)
        except BaseException:
            undo()
            raise
        if not is_done:
            undo()
        return is_done

    def _is_open(self, claim: int, ask: _Ask, candidate: Candidate) -> bool:
        held = self._taken.get(candidate.id)
        if ask.is_admin:
            return not held or claim not in held
        return not held and not any(candidate.id in layer.devices for layer in self._in_use)

    def _matches(self, ask: _Ask, candidate: Candidate) -> bool:
        select = self._context.select
        return all(select(candidate, expression) for expression in ask.expressions) and candidate.reaches

    def _has_room(self, ask: _Ask, candidate: Candidate) -> bool:
        offered = candidate.device.capacity
        requests = ask.request.capacity.requests
        if not offered:
            return not requests
        held = (layer.shares.get(candidate.id) for layer in self._in_use)
        return capacity.fits(requests, offered, *held, *self._shares.get(candidate.id, ()))

    def _take(self, claim: int, ask: _Ask, candidate: Candidate) -> Callable[[], None] | None:
        """Take a device. Return a function that gives it back; None if it cannot be taken."""
        undone = list[Callable[[], None]]()

        def undo() -> None:
            for step in reversed(undone):
                step()

        if not self._is_open(claim, ask, candidate):
            return None
        may_share = candidate.device.allow_multiple_allocations
        if candidate.device.consumes_counters and not (may_share and self._is_shared(candidate.id)):
            if not self._use_counters(candidate):
                return None
            undone.append(lambda: self._count(candidate, -1))
        if not _is_tolerated(ask, candidate) or not self._obeys(claim, ask, candidate, undone):
            undo()
            return None
        if not self._has_room(ask, candidate):
            undo()
            return None
        amounts: dict[str, int] | None = None
        if may_share:
            amounts = capacity.consumed(ask.request.capacity.requests, candidate.device.capacity)
            self._shares.setdefault(candidate.id, []).append(amounts)
            undone.append(lambda: self._unshare(candidate.id))
        else:
            holders = self._taken.setdefault(candidate.id, set())
            holders.add(claim)
            undone.append(lambda: holders.discard(claim))
        given = self.given[claim]
        given.append(ChosenDevice(ask.full_name, candidate, ask.is_admin, amounts))
        undone.append(lambda: given.__delitem__(-1))
        return undo

    def _obeys(self, claim: int, ask: _Ask, candidate: Candidate, undone: list[Callable[[], None]]) -> bool:
        """Return whether the constraints of a claim admit a device. If so, they count it."""
        for constraint in self._constraints[claim]:
            if not constraint.concerns(ask.base, ask.alternative):
                continue
            if not constraint.add(attribute_of(candidate.device, candidate.id[0], constraint.attribute)):
                if ask.takes_all:
                    device = "/".join(candidate.id)
                    text = f"request {ask.name}: cannot add device {device} because a claim constraint would not be satisfied"
                    raise SearchError(RefusalCode.ALL_AGAINST_CONSTRAINT, text)
                return False
            undone.append(constraint.remove)
        return True

    def _is_shared(self, device: DeviceId) -> bool:
        return device in self._shares or any(device in layer.shares for layer in self._in_use)

    def _unshare(self, device: DeviceId) -> None:
        shares = self._shares[device]
        shares.pop()
        if not shares:
            del self._shares[device]

    def _use_counters(self, candidate: Candidate) -> bool:
        """Count what a device uses of its pool's counters. Return False, and count nothing, if some are too low."""
        pool = candidate.pool
        available = self._available.get(pool.id)
        if available is None:
            available = self._available[pool.id] = self._left(pool)
        self._count(candidate, 1)
        used = self._used[pool.id]
        if any(amount < used.get(key, 0) for key, amount in available.items()):
            self._count(candidate, -1)
            return False
        return True

    def _count(self, candidate: Candidate, sign: int) -> None:
        used = self._used.setdefault(candidate.pool.id, {})
        for use in candidate.device.consumes_counters:
            for name, counter in use.counters.items():
                key = (use.counter_set, name)
                used[key] = used.get(key, 0) + sign * counter.value.nano

    def _left(self, pool: Pool) -> dict[tuple[str, str], int]:
        """Return what devices in use leave of a pool's counters; negative if they use more."""
        left = {(group, name): amount for group, held in pool.counters.items() for name, amount in held.items()}
        devices = (*((one.id, one.device) for one in pool.candidates), *pool.others)
        for device_id, device in devices:
            if not any(device_id in layer.devices or device_id in layer.shares for layer in self._in_use):
                continue
            for use in device.consumes_counters:
                for name, counter in use.counters.items():
                    if (use.counter_set, name) in left:
                        left[use.counter_set, name] -= counter.value.nano
        return left

    def _kind(self, candidate: Candidate) -> object:
        """Return a key: the search cannot tell devices with the same key apart."""
        known = self._kinds.get(id(candidate))
        if known is None:
            known = self._kinds[id(candidate)] = self._compute_kind(candidate)
        return (known, candidate.id) if candidate.id in self._shares else known

    def _compute_kind(self, candidate: Candidate) -> object:
        device = candidate.device
        if self._takes_all:  # takes devices in a fixed order, so that equal ones may end it differently
            return candidate.id
        if self._is_shared(candidate.id) or any(candidate.id in layer.devices for layer in self._in_use):
            return candidate.id
        try:
            selected = tuple(
                all(self._context.select(candidate, expression) for expression in ask.expressions)
                for asks in self._asks
                for alternatives in asks
                for ask in alternatives
            )
        except SearchError:
            return candidate.id
        values = tuple(attribute_of(device, candidate.id[0], name) for name in self._attributes)
        rest = (device.capacity, device.consumes_counters, device.taints, device.allow_multiple_allocations)
        return candidate.pool.id, candidate.reaches, selected, values, msgspec.json.encode(rest, enc_hook=repr)


def _is_tolerated(ask: _Ask, candidate: Candidate) -> bool:
    """Return whether a request tolerates the taints of a device that keep claims away."""
    return all(
        taint.effect not in _BLOCKING_EFFECTS or any(one.tolerates(taint) for one in ask.request.tolerations)
        for taint in candidate.device.taints
    )


def _undecided() -> SearchError:
    text = "undecided: the search for devices was ended after its limit of steps"
    return SearchError(RefusalCode.UNDECIDED, text, is_error=False)
