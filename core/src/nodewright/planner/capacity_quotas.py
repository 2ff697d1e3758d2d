"""CapacityQuotas: what each limits, what is wrong with it, and what its status is to say (behaviour/up.md §6.3)."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from nodewright.clusterstate.accelerators import Accelerators, DeviceCounter
from nodewright.model.capacity_quota import (
    QUOTA_VALID,
    RECONCILED,
    CapacityQuota,
    CapacityQuotaStatus,
    QuotaAmounts,
)
from nodewright.model.condition import Condition, as_of
from nodewright.model.meta import LabelSelector
from nodewright.model.printable import printable
from nodewright.model.quantity import NANO, Quantity
from nodewright.model.settings import Settings
from nodewright.planner.quota import NodeQuota, is_plain, usage
from nodewright.predicates.selectors import parse_selector
from nodewright.snapshot.observation import Observation


class ReadQuota(NamedTuple):
    """A quota as it is enforced; None: it is not, for what ``problem`` says."""

    quota: CapacityQuota
    limit: NodeQuota | None
    problem: str = ""


def read_quotas(seen: Observation, settings: Settings) -> tuple[ReadQuota, ...]:
    """Every quota of the cluster, by name; none where they are switched off."""
    if not settings.limits.capacity_quotas_enabled:
        return ()
    has_types = any(not is_plain(name) for quota in seen.quotas for name in quota.spec.limits.resources)
    types = _known_types(seen) if has_types else None
    return tuple(_read(quota, types) for quota in sorted(seen.quotas, key=lambda quota: quota.name))


def with_status(read: ReadQuota, seen: Observation) -> CapacityQuota:
    """The quota with the status that it should have; the very object where it has it."""
    quota, status = read.quota, read.quota.status
    used = usage(seen.snapshot, read.limit, DeviceCounter(seen)) if read.limit is not None else None
    said = (
        (QUOTA_VALID, "Valid", "it is enforced") if read.limit else (QUOTA_VALID, "Invalid", read.problem),
        (RECONCILED, "ReconciliationSucceeded", "CapacityQuota successfully reconciled")
        if read.limit
        else (RECONCILED, "ReconciliationFailed", read.problem),
    )
    fresh = CapacityQuotaStatus(
        used=_as_written(used, status.used),
        conditions=tuple(_condition(quota, *words, holds=read.limit is not None, now=seen.now) for words in said),
        observed_generation=quota.metadata.generation,
    )
    held = replace(status, conditions=tuple(filter(None, map(quota.condition, (QUOTA_VALID, RECONCILED)))))
    return quota if fresh == held else replace(quota, status=fresh)


def _read(quota: CapacityQuota, types: frozenset[str] | None) -> ReadQuota:
    selector = parse_selector(quota.spec.selector or LabelSelector())
    if selector is None:
        return ReadQuota(quota, None, "spec.selector is no label selector that can match: see its keys and operators")
    most: dict[str, int] = {}
    for name, text in quota.spec.limits.resources.items():
        amount, problem = _read_amount(name, text)
        problem = problem or _why_unknown(name, types)
        if problem:
            return ReadQuota(quota, None, f"spec.limits.resources: {printable(name)}: {problem}")
        most[name] = amount
    if not most:
        return ReadQuota(quota, None, "spec.limits.resources is empty: it limits nothing")
    key = msgspec.json.encode(quota.spec.selector)
    return ReadQuota(quota, NodeQuota(id=quota.id, most=most, selector=selector, key=key))


def _read_amount(name: str, text: str | float) -> tuple[int, str]:
    """The limit in whole units, and what is wrong with it."""
    if not name:
        return 0, "a resource has a name"
    try:
        quantity = Quantity.of(text)
    except ValueError as error:
        return 0, str(error)
    if quantity.nano < 0 or quantity.nano % NANO:
        return 0, f"'{printable(str(text))}' is no whole number from 0 up"
    return quantity.value, ""


def _why_unknown(name: str, types: frozenset[str] | None) -> str:
    if is_plain(name) or types is None or name in types:
        return ""
    known = f", of {', '.join(sorted(types))}" if types else ", and there are none here"
    return f"is neither cpu, memory, nodes, a resource that nodes offer nor a type of accelerators{known}"


def _known_types(seen: Observation) -> frozenset[str] | None:
    """The types of accelerators on nodes and in templates; None while somebody cannot be asked, for it may be his."""
    groups = seen.groups.values()
    if any(provider.problem for provider in seen.providers.values()) or any(group.template is None for group in groups):
        return None
    accelerators = Accelerators.of(seen.providers.values())
    nodes = [*(node for _, node in seen.snapshot.nodes()), *(group.template for group in groups if group.template)]
    return frozenset(kind for kind, _ in map(accelerators.count, nodes) if kind) if accelerators.labels else frozenset()


def _as_written(used: Mapping[str, Quantity] | None, held: QuotaAmounts | None) -> QuotaAmounts | None:
    """The amounts as text; in the words in which they stand already, if they say the same."""
    if used is None:
        return None
    fresh = {name: str(amount) for name, amount in used.items()}
    if held is not None and {name: _canonical(text) for name, text in held.resources.items()} == fresh:
        return held
    return QuotaAmounts(resources=dict(fresh))


def _canonical(text: str | float) -> str:
    try:
        return str(Quantity.of(text))
    except ValueError:
        return ""


def _condition(quota: CapacityQuota, kind: str, reason: str, message: str, *, holds: bool, now: float) -> Condition:
    status, generation = "True" if holds else "False", quota.metadata.generation
    fresh = Condition(type=kind, status=status, reason=reason, message=message, observed_generation=generation)
    return as_of(now, fresh, quota.condition(kind))
