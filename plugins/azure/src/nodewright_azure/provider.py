"""The plugin object: serves the provider contract from scale sets and VM pools of AKS."""

import os
from collections.abc import Iterator, Sequence

from nodewright import spec
from nodewright.spec import Capability, hookimpl
from nodewright.spec.cache import attempt
from nodewright.spec.meter import EXAMINED_WITHIN
from nodewright_azure.account import load_account, recalled_account
from nodewright_azure.api import Api
from nodewright_azure.catalogue import Catalogue
from nodewright_azure.discovery import select
from nodewright_azure.doctor import Doctor
from nodewright_azure.fleet import REFRESH_SECONDS, Fleet
from nodewright_azure.machines import Unit
from nodewright_azure.options import load_options
from nodewright_azure.policy import minimal_policy
from nodewright_azure.prices import Prices
from nodewright_azure.sdk import Sdk
from nodewright_azure.shapes import ScaleSet
from nodewright_azure.tags import options_of, tags_of
from nodewright_azure.template import GPU_LABEL, GPU_RESOURCE, GPU_TYPES
from nodewright_azure.writes import Writer

POOL_LABELS = ("agentpool", "kubernetes.azure.com/agentpool")
IGNORED_LABELS = (
    *POOL_LABELS,
    "aksEngineVersion",
    "creationSource",
    "kubernetes.azure.com/consolidated-additional-properties",
    "kubernetes.azure.com/node-image-version",
    "poolName",
    "resourceNameSuffix",
    "topology.disk.csi.azure.com/zone",
)
_FAST, _FORCE, _PRICING = Capability.FAST_FAILURE_DETECTION, Capability.FORCE_DELETE, Capability.PRICING
_ALWAYS = frozenset(
    (
        Capability.DIAGNOSIS,
        _FORCE,
        Capability.GPU,
        Capability.GROUP_OPTIONS,
        _PRICING,
        Capability.SIMILARITY,
    )
)
_UNFORCED = "AKS has no forced deletion for machines of a VM pool"


class AzureProvider:
    """Serves reads from what the last ``refresh``, or our own last write, read. ``api`` replaces the SDK in tests."""

    def __init__(self, context: spec.ProviderContext, api: Api | None = None) -> None:
        self._clock = context.clock
        self._options = load_options(context)
        self._account = recalled_account(context.exchanges, lambda: load_account(self._options, os.environ))
        self._selection = select(context.node_group_specs, context.auto_discovery_specs)
        self._api: Api = api or Sdk(self._account, self._options, context.clock, context.exchanges)
        self._fleet = Fleet(self._api, self._selection, self._options, context.clock, context.random)
        self._catalogue = Catalogue(self._api, self._options, context.clock, context.random)
        self._prices = Prices(self._api, self._options, context.clock)
        self._writer = Writer(self._api, self._fleet, context.clock, force=self._options.force_delete)

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        capabilities = _ALWAYS | ({_FAST} if self._options.watches_failures else set())
        return spec.ProviderInfo(name="azure", spec_version=(1, 0), capabilities=capabilities, ignores_id_case=True)

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        ends_at = self._clock.now() + REFRESH_SECONDS
        self._fleet.refresh(wanted)
        with self._api.within(max(0.0, ends_at - self._clock.now())):
            self._catalogue.load_missing(self._fleet.sets.values())
            if self._clock.now() < ends_at:  # prices that are not asked for would rest as after an error
                self._prices.load_missing(self._fleet.sets.values())
        return True

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return tuple(self._listed(name) for name in self._fleet.names())

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._fleet.held(group_id).scale_set.capacity

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return tuple(_instance(unit) for unit in self._fleet.told_units(group_id) if unit.failure is None)

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        return self._catalogue.template(self._fleet.held(group_id).scale_set, self._fleet.next_zone(group_id))

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._fleet.held(group_id)
        return self._writer.increase(self._listed(group_id), expected_target, target)

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._writer.decrease(group_id, expected_target, target)

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        self._fleet.held(group_id)
        return self._writer.delete(self._listed(group_id), instance_ids, expected_target)

    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        self._fleet.held(group_id)
        return self._writer.delete(self._listed(group_id), instance_ids, expected_target, courteous=False)

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        self._fleet.units(group_id)
        return self._fleet.held(group_id).ledger.reported

    @hookimpl
    def group_options(self, group_id: str, defaults: spec.GroupOptions) -> spec.GroupOptions:
        return options_of(tags_of(self._fleet.held(group_id).scale_set.tags), defaults)

    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return self._prices.of_set(self._fleet.held(group_id).scale_set)

    @hookimpl
    def gpu_label(self) -> str:
        return GPU_LABEL

    @hookimpl
    def gpu_types(self) -> Sequence[str]:
        return GPU_TYPES

    @hookimpl
    def gpu_resources(self) -> Sequence[str]:
        return (GPU_RESOURCE,)

    @hookimpl
    def ignored_labels(self) -> Sequence[str]:
        return IGNORED_LABELS

    @hookimpl
    def same_group_labels(self) -> Sequence[str]:
        """Return the labels of AKS pools: sets of one pool are alike, sets of different pools may be."""
        return POOL_LABELS

    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        doctor = Doctor(self._api, self._options, self._account)
        with self._api.within(EXAMINED_WITHIN):
            return (*doctor.examine(self._fleet), *self._prices.problems(), *self._templateless())

    @hookimpl
    def minimal_policy(self) -> str:
        return minimal_policy(self._options, self._account, [one.is_loose for one in self._fleet.sets.values()])

    @hookimpl
    def api_calls(self) -> Sequence[spec.ApiCalls]:
        return self._api.made()

    def _templateless(self) -> Iterator[spec.Finding]:
        """Yield a finding for each set whose template cannot be made, or whose size is restricted."""
        for name, one in self._fleet.sets.items():
            found, denied = attempt(lambda one=one: self._catalogue.template(one)), self._catalogue.restriction(one)  # type: ignore[misc]  # mypy cannot type a lambda with a default
            level = spec.FindingLevel.PROBLEM
            if isinstance(found, spec.ProviderError):
                remedy = "correct the scale set, or describe its size in instance_types"
                yield spec.Finding(level=level, subject="template", message=str(found), remedy=remedy, group_id=name)
            if denied:
                said = f"the subscription may not use {_size(one)} in {one.location}: {denied}"
                remedy = "request access to the size from Azure, or use another size"
                yield spec.Finding(level=level, subject="size", message=said, remedy=remedy, group_id=name)

    def _listed(self, name: str) -> spec.NodeGroup:
        limits, one = self._fleet.limits(name), self._fleet.find(name)
        off = self._unpriced(name)
        if one is not None and one.pool is not None:
            off[_FORCE] = _UNFORCED
        if one is not None and one.is_loose and self._fleet.no_views is not None:
            off[_FAST] = self._fleet.no_views
        made_from = one.made_from if one is not None else ""
        return spec.NodeGroup(
            id=name,
            min_size=limits.min_size,
            max_size=limits.max_size,
            switched_off=off,
            made_from=made_from,
            buckets=self._catalogue.buckets(one) if one is not None else frozenset(),
        )

    def _unpriced(self, name: str) -> dict[Capability, str]:
        """Return why the group has no price; empty if it has one, or is not there."""
        one = self._fleet.find(name)
        price = attempt(lambda: self._prices.of_set(one)) if one is not None else None
        return {_PRICING: str(price)} if isinstance(price, spec.ProviderError) else {}


def _size(one: ScaleSet) -> str:
    return one.sku.name if one.sku is not None else "size"


def _instance(unit: Unit) -> spec.Instance:
    state = unit.state or spec.InstanceState.RUNNING
    return spec.Instance(id=unit.machine.provider_id, state=state, made_from=unit.machine.made_from)
