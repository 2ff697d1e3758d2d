"""The plugin object: serves the provider contract from managed instance groups."""

from collections.abc import Iterator, Sequence

from nodewright import spec
from nodewright.spec import Capability, InstanceState, hookimpl
from nodewright.spec.cache import attempt
from nodewright.spec.group_options import overlay_options
from nodewright.spec.meter import EXAMINED_WITHIN
from nodewright_gce.api import Api
from nodewright_gce.atomic import REGIONAL, UNLIMITED, AtomicWriter
from nodewright_gce.catalogue import Catalogue
from nodewright_gce.discovery import select
from nodewright_gce.doctor import Doctor, minimal_policy
from nodewright_gce.failures import Failures
from nodewright_gce.fleet import Fleet
from nodewright_gce.kube_env import loose_pairs
from nodewright_gce.options import load_options
from nodewright_gce.preemptions import Preemptions
from nodewright_gce.prices import LIST_PRICES, is_spot, node_price, why_unpriced
from nodewright_gce.quotas import quotas_of
from nodewright_gce.resize_queue import ResizeQueue
from nodewright_gce.sdk import Sdk
from nodewright_gce.states import Machine
from nodewright_gce.template import GPU_LABEL, GPU_RESOURCE, GPU_TYPES
from nodewright_gce.writes import Writer

IGNORED_LABELS = ("topology.gke.io/zone",)
_FAST, _ATOMIC, _PRICING = Capability.FAST_FAILURE_DETECTION, Capability.ATOMIC_RESIZE, Capability.PRICING
_ALWAYS = frozenset(
    (
        Capability.DIAGNOSIS,
        Capability.FORCE_DELETE,
        Capability.GPU,
        Capability.GROUP_OPTIONS,
        Capability.PRICING,
        Capability.SIMILARITY,
    )
)
# The group options that CA reads for Compute Engine.
_OPTION_NAMES = frozenset(
    (
        "maxnodeprovisiontime",
        "scaledowngpuutilizationthreshold",
        "scaledownunneededtime",
        "scaledownunreadytime",
        "scaledownutilizationthreshold",
    )
)


class GceProvider:
    """Serves reads from what the last ``refresh``, or our own last write, read. ``api`` replaces the SDK in tests."""

    def __init__(self, context: spec.ProviderContext, api: Api | None = None) -> None:
        self._options = load_options(context)
        self._selection = select(context.node_group_specs, context.auto_discovery_specs)
        self._api: Api = api or Sdk(self._options, context.clock, context.exchanges)
        self._fleet = Fleet(self._api, self._selection, self._options, context.clock)
        self._catalogue = Catalogue(self._api, self._options, context.clock, context.random)
        self._failures = Failures()
        self._queue = ResizeQueue(self._api, self._fleet, context.clock, self._options.parallel_calls)
        self._writer = Writer(self._api, self._fleet, self._queue, self._failures, context.clock, context.random)
        self._atomic = AtomicWriter(self._api, self._queue, self._writer)
        self._preemptions = Preemptions(self._api, self._options, context.clock)
        self._prices = LIST_PRICES.with_own(self._options.prices_per_hour)

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        optional = {
            _FAST: self._options.detect_failures,
            _ATOMIC: self._is_atomic,
            Capability.INTERRUPTION: self._options.preemption_interval > 0,
        }
        capabilities = _ALWAYS | {capability for capability, holds in optional.items() if holds}
        return spec.ProviderInfo(name="gce", spec_version=(1, 0), capabilities=capabilities)

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self._fleet.refresh(wanted)
        groups = self._fleet.groups.values()
        self._catalogue.load_missing({group.ref: group.manager for group in groups})
        if self._is_atomic:
            self._queue.refresh([group_id for group_id in self._fleet.groups if not self._why_not_atomic(group_id)])
        self._writer.settle_moved()
        if self._options.preemption_interval > 0:
            self._preemptions.refresh({place for group in groups for place in group.places})
        return True

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return tuple(self._listed(group_id) for group_id in self._fleet.names())

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._fleet.group(group_id).target

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return tuple(_instance(one) for one in self._fleet.group(group_id).machines if not self._is_failed(one))

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return (*self._failures.report(self._fleet.group(group_id)), *self._queue.failures(group_id))

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        group = self._fleet.group(group_id)
        return self._catalogue.template(group.ref, group.manager, self._fleet.next_zone(group))

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._writer.increase(self._listed(group_id), expected_target, target)

    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._atomic.increase(self._listed(group_id), expected_target, target)

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._writer.decrease(group_id, expected_target, target)

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        return self._writer.delete(self._listed(group_id), instance_ids, expected_target, force=False)

    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        return self._writer.delete(self._listed(group_id), instance_ids, expected_target, force=True)

    @hookimpl
    def group_options(self, group_id: str, defaults: spec.GroupOptions) -> spec.GroupOptions:
        group = self._fleet.group(group_id)
        found = attempt(lambda: self._catalogue.raw_template(group.ref, group.manager))
        if isinstance(found, spec.ProviderError):
            return defaults
        said = loose_pairs(found.env.get("autoscaling_options"))
        return overlay_options(defaults, {name: said[name] for name in said if name in _OPTION_NAMES})

    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return node_price(self._prices, self.template_node(group_id))

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
        return ()

    @hookimpl
    def interruptions(self) -> Sequence[spec.Interruption]:
        machines = (one for group in self._fleet.groups.values() for one in group.machines)
        return self._preemptions.told({one.ref.provider_id for one in machines if one.is_there})

    @hookimpl
    def await_interruption(self, timeout: float) -> bool:
        return self._preemptions.wait(timeout)

    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        doctor = Doctor(self._api, self._options, self._selection)
        with self._api.within(EXAMINED_WITHIN):
            return (*doctor.examine(self._fleet), *self._templateless())

    @hookimpl
    def minimal_policy(self) -> str:
        return minimal_policy(self._options, self._selection)

    @hookimpl
    def api_calls(self) -> Sequence[spec.ApiCalls]:
        return self._api.made()

    @property
    def _is_atomic(self) -> bool:
        return self._options.atomic_resize or self._options.atomic_run_duration > 0

    def _templateless(self) -> Iterator[spec.Finding]:
        """Yield a finding for each group whose template cannot be made."""
        for group_id in self._fleet.groups:
            found = attempt(lambda group_id=group_id: self.template_node(group_id))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if isinstance(found, spec.ProviderError):
                level, remedy = spec.FindingLevel.PROBLEM, "correct the template, or describe its type in machine_types"
                yield spec.Finding(
                    level=level, subject="template", message=str(found), remedy=remedy, group_id=group_id
                )

    def _listed(self, group_id: str) -> spec.NodeGroup:
        smallest, largest = self._fleet.limits(group_id)
        reasons = {_ATOMIC: self._why_not_atomic(group_id), _PRICING: self._why_unpriced(group_id)}
        off = {capability: reason for capability, reason in reasons.items() if reason}
        group = self._fleet.groups.get(group_id)
        made_from = _template(group.manager.only_template) if group is not None else ""
        return spec.NodeGroup(
            id=group_id,
            min_size=smallest,
            max_size=largest,
            switched_off=off,
            made_from=made_from,
            buckets=self._quotas_of(group_id),
        )

    def _quotas_of(self, group_id: str) -> frozenset[str]:
        """Return the quotas on which the group's machines draw; none for spot machines, whose quota depends on the project."""
        group = self._fleet.groups.get(group_id)
        node = attempt(lambda: self.template_node(group_id))
        if group is None or isinstance(node, spec.ProviderError) or is_spot(node):
            return frozenset()
        kind = self._catalogue.raw_template(group.ref, group.manager).machine_type
        return quotas_of(kind, group.ref.place.region)

    def _why_not_atomic(self, group_id: str) -> str:
        """Return why Compute Engine grants the group no resize requests; "": it does, or it is not known."""
        group = self._fleet.groups.get(group_id)
        if group is not None and group.ref.place.is_regional:
            return REGIONAL
        is_asked = self._options.atomic_resize and self._options.atomic_run_duration <= 0
        if group_id in self._atomic.unfit or group is None or not is_asked:
            return self._atomic.unfit.get(group_id, "")
        raw = attempt(lambda: self._catalogue.raw_template(group.ref, group.manager))
        return "" if isinstance(raw, spec.ProviderError) or raw.is_limited else UNLIMITED

    def _why_unpriced(self, group_id: str) -> str:
        group = self._fleet.groups.get(group_id)
        if group is None:
            return ""
        raw = attempt(lambda: self._catalogue.raw_template(group.ref, group.manager))
        if isinstance(raw, spec.ProviderError) or not raw.accelerators:
            return ""
        node = attempt(lambda: self.template_node(group_id))
        return "" if isinstance(node, spec.ProviderError) else why_unpriced(self._prices, node)

    def _is_failed(self, machine: Machine) -> bool:
        return self._options.detect_failures and machine.failure is not None


def _instance(one: Machine) -> spec.Instance:
    return spec.Instance(id=one.ref.provider_id, state=InstanceState(one.state), made_from=_template(one.template_name))


def _template(name: str) -> str:
    """Return what machines are made from, in words; empty: it is not known."""
    return f"instance template {name}" if name else ""
