"""The plugin object: serves the provider contract from Auto Scaling groups."""

from collections.abc import Iterator, Sequence

from nodewright import spec
from nodewright.spec import Capability, hookimpl
from nodewright.spec.cache import attempt
from nodewright.spec.meter import EXAMINED_WITHIN
from nodewright_aws.api import Api
from nodewright_aws.buckets import buckets_of, with_reach
from nodewright_aws.catalogue import Catalogue, Launch
from nodewright_aws.discovery import select
from nodewright_aws.doctor import Doctor
from nodewright_aws.fleet import Fleet
from nodewright_aws.interruptions import Notices
from nodewright_aws.making import Maker
from nodewright_aws.options import load_options
from nodewright_aws.own_writes import SETTLING_SECONDS
from nodewright_aws.policy import minimal_policy
from nodewright_aws.prices import Prices
from nodewright_aws.reservations import Reservations
from nodewright_aws.sdk import Sdk
from nodewright_aws.shapes import Group, GroupInstance
from nodewright_aws.tags import options_of
from nodewright_aws.template import GPU_LABEL, GPU_RESOURCE, GPU_TYPES
from nodewright_aws.writes import Writer

IGNORED_LABELS = (
    "alpha.eksctl.io/instance-id",
    "alpha.eksctl.io/nodegroup-name",
    "eks.amazonaws.com/nodegroup",
    "k8s.amazonaws.com/eniConfig",
    "lifecycle",
    "topology.ebs.csi.aws.com/zone",
    "topology.k8s.aws/zone-id",
)
_FAST, _PRICING = Capability.FAST_FAILURE_DETECTION, Capability.PRICING
_ALWAYS = frozenset(
    (
        Capability.DIAGNOSIS,
        Capability.GPU,
        Capability.GROUP_OPTIONS,
        Capability.PRICING,
        Capability.SIMILARITY,
    )
)
_STARTING = ("Pending", "Warmed")


class AwsProvider:
    """Serves reads from what the last ``refresh``, or our own last write, read. ``api`` replaces the SDK in tests."""

    def __init__(self, context: spec.ProviderContext, api: Api | None = None) -> None:
        self._options = load_options(context)
        self._selection = select(context.node_group_specs, context.auto_discovery_specs)
        self._api: Api = api or Sdk(self._options, context.clock, context.exchanges)
        self._fleet = Fleet(self._api, self._selection, self._options, context.clock)
        self._catalogue = Catalogue(self._api, self._options, context.clock, context.random)
        self._writer = Writer(self._api, self._fleet)
        self._prices = Prices(self._api, self._options, context.clock)
        self._reservations = Reservations(self._api, self._options, context.clock)
        self._notices = Notices(self._api, self._options, context.clock, reads_queue=not context.dry_run)
        self._notices_error: spec.ProviderError | None = None
        self._maker = Maker(self._api, self._fleet, self._catalogue, self._prices, self._options, self._selection)

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        optional = {
            _FAST: self._options.detect_failures,
            Capability.INTERRUPTION: bool(self._options.interruption_queue),
            Capability.AUTOPROVISIONING: self._options.autoprovisioning is not None,
        }
        capabilities = _ALWAYS | {capability for capability, holds in optional.items() if holds}
        return spec.ProviderInfo(
            name="aws",
            spec_version=(1, 0),
            capabilities=capabilities,
            settles_after=SETTLING_SECONDS,
            remembers_writes=True,
        )

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self._fleet.refresh(wanted)
        groups = list(self._fleet.groups.values())
        self._catalogue.load_missing(groups)
        making = self._options.autoprovisioning
        if making is not None:
            self._catalogue.load_model(making.like, making.instance_types)
        self._reservations.refresh(self._launched())
        self._prices.load_missing(self._launched(), making.instance_types if making is not None else ())
        if self._options.interruption_queue:
            # Without notices the groups are still read and written.
            self._notices_error = attempt(lambda: self._notices.refresh(self._machines()))
        return True

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return tuple(self._listed(name) for name in self._fleet.names())

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._fleet.group(group_id).desired_capacity

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return tuple(_instance(one) for one in self._fleet.group(group_id).instances)

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        group = self._fleet.group(group_id)
        if group.min_size > group.max_size:
            raise spec.ProviderError(f"{group_id}: MinSize is above MaxSize", code="badSizes")
        return self._catalogue.template(group, self._fleet.next_zone(group))

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._fleet.group(group_id)
        return self._writer.increase(self._listed(group_id), expected_target, target)

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        return self._writer.decrease(group_id, expected_target, target)

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        self._fleet.group(group_id)
        return self._writer.delete(self._listed(group_id), instance_ids, expected_target)

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        self._fleet.group(group_id)
        reported = self._fleet.ledger(group_id).reported
        if reported is None:
            return ()
        launch = attempt(lambda: self._catalogue.launch(group_id))
        if isinstance(launch, spec.ProviderError):
            return (reported,)
        return (with_reach(reported, self._fleet.group(group_id), launch),)

    @hookimpl
    def group_options(self, group_id: str, defaults: spec.GroupOptions) -> spec.GroupOptions:
        return options_of(self._fleet.group(group_id).tags, defaults)

    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return self._prices.of_group(self._fleet.group(group_id), self._catalogue.launch(group_id))

    @hookimpl
    def machine_types(self) -> Sequence[spec.MachineType]:
        return self._maker.machine_types()

    @hookimpl
    def create_node_group(self, spec: spec.NewNodeGroup) -> spec.NodeGroup:
        self._maker.create(spec)
        self._catalogue.load_missing(list(self._fleet.groups.values()))
        return self._listed(spec.group_id)

    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        return self._maker.delete(group_id)

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
        if self._notices_error is not None:
            raise self._notices_error
        return self._notices.told(self._machines())

    @hookimpl
    def await_interruption(self, timeout: float) -> bool:
        return self._notices.wait(timeout)

    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        doctor = Doctor(self._api, self._options, self._selection)
        with self._api.within(EXAMINED_WITHIN):
            return (
                *doctor.examine(self._fleet),
                *self._maker.problems(),
                *self._prices.problems(),
                *self._templateless(),
            )

    @hookimpl
    def minimal_policy(self) -> str:
        return minimal_policy(self._options)

    @hookimpl
    def api_calls(self) -> Sequence[spec.ApiCalls]:
        return self._api.made()

    def _machines(self) -> dict[str, str]:
        """Return the provider ids of the instances that stay, by instance id."""
        instances = (one for group in self._fleet.groups.values() for one in group.instances)
        return {one.instance_id: one.provider_id for one in instances if not one.is_leaving}

    def _templateless(self) -> Iterator[spec.Finding]:
        """Yield a finding for each group whose template cannot be made."""
        for name in self._fleet.groups:
            found = attempt(lambda name=name: self.template_node(name))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if isinstance(found, spec.ProviderError):
                level, remedy = spec.FindingLevel.PROBLEM, "correct the group, or describe its type in instance_types"
                yield spec.Finding(level=level, subject="template", message=str(found), remedy=remedy, group_id=name)

    def _listed(self, name: str) -> spec.NodeGroup:
        group = self._fleet.groups.get(name)
        if group is None:
            return self._fleet.listed(name, {})
        price = attempt(lambda: self.node_price(name))
        off = {_PRICING: str(price)} if isinstance(price, spec.ProviderError) else {}
        launch = attempt(lambda: self._catalogue.launch(name))
        buckets = buckets_of(group, launch) if isinstance(launch, Launch) else frozenset()
        most = self._reservations.most(group)
        return self._fleet.listed(name, off, most, made_from=self._catalogue.made_from(group), buckets=buckets)

    def _launched(self) -> Iterator[tuple[Group, Launch]]:
        """Yield the groups of which it is known what they start."""
        for name, group in self._fleet.groups.items():
            launch = attempt(lambda name=name: self._catalogue.launch(name))  # type: ignore[misc]  # mypy cannot type a lambda with a default
            if isinstance(launch, Launch):
                yield group, launch


def _instance(one: GroupInstance) -> spec.Instance:
    stage = one.lifecycle_state.partition(":")[0]
    state = spec.InstanceState.RUNNING
    if one.is_leaving:
        state = spec.InstanceState.DELETING
    elif stage in _STARTING:
        state = spec.InstanceState.CREATING
    return spec.Instance(id=one.provider_id, state=state, made_from=one.made_from)
