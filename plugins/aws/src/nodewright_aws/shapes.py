"""AWS's responses as frozen values: only the members that are used, with the API's names in snake case."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import field

Raw = dict[str, Any]


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Base of responses of the query APIs; members that are not listed here are ignored."""


class Tag(Shape, frozen=True, kw_only=True):
    """A tag of a group."""

    key: str
    value: str = ""
    propagate_at_launch: bool = True


class Range(Shape, frozen=True, kw_only=True):
    """A range of an instance requirement; None: no limit."""

    min: int | None = None
    max: int | None = None


class InstanceRequirements(Shape, frozen=True, kw_only=True):
    """Attributes by which AWS chooses instance types."""

    v_cpu_count: Range = Range()
    memory_mib: Range = field(default=Range(), name="MemoryMiB")
    accelerator_count: Range = Range()
    accelerator_manufacturers: tuple[str, ...] = ()
    accelerator_types: tuple[str, ...] = ()


class TemplateSpec(Shape, frozen=True, kw_only=True):
    """A version of a launch template."""

    launch_template_id: str | None = None
    launch_template_name: str | None = None
    version: str | None = None

    @property
    def named(self) -> str:
        """Name and version, for messages."""
        return f"{self.launch_template_name or self.launch_template_id} ({self.version or '$Default'})"

    def made_from(self, version: str | None) -> str:
        """Return what machines of a version are made from, in words; empty: the version is none that cannot change."""
        known = self.launch_template_id and version and version.isdecimal()
        return f"launch template {self.launch_template_id}, version {version}" if known else ""


class Override(Shape, frozen=True, kw_only=True):
    """An override of a policy. ``instance_requirements`` are kept as received: they are sent to AWS again."""

    instance_type: str | None = None
    instance_requirements: Raw | None = None
    weighted_capacity: str | None = None
    launch_template_specification: Raw | None = None


class PolicyTemplate(Shape, frozen=True, kw_only=True):
    launch_template_specification: TemplateSpec = TemplateSpec()
    overrides: tuple[Override, ...] = ()


class InstancesDistribution(Shape, frozen=True, kw_only=True):
    """How many machines of a policy are on-demand ones; the others are spot machines."""

    on_demand_base_capacity: int = 0
    on_demand_percentage_above_base_capacity: int = 100


class MixedInstancesPolicy(Shape, frozen=True, kw_only=True):
    launch_template: PolicyTemplate = PolicyTemplate()
    instances_distribution: InstancesDistribution = InstancesDistribution()


# AWS protects instances in these lifecycle states only.
_PROTECTABLE = ("InService", "EnteringStandby", "Standby")


class GroupInstance(Shape, frozen=True, kw_only=True):
    instance_id: str
    availability_zone: str = ""
    lifecycle_state: str = "InService"
    protected_from_scale_in: bool = False
    launch_configuration_name: str | None = None
    launch_template: TemplateSpec | None = None

    @property
    def made_from(self) -> str:
        """What the instance was made from, in words; empty: AWS does not tell it."""
        if self.launch_configuration_name:
            return f"launch configuration {self.launch_configuration_name}"
        template = self.launch_template
        return template.made_from(template.version) if template is not None else ""

    @property
    def provider_id(self) -> str:
        """The ``spec.providerID`` of the instance's node."""
        return f"aws:///{self.availability_zone}/{self.instance_id}"

    @property
    def is_leaving(self) -> bool:
        """Whether AWS does not count the instance towards the desired capacity any more."""
        return self.lifecycle_state.partition(":")[0] in ("Terminating", "Terminated", "Detaching", "Detached")


class SuspendedProcess(Shape, frozen=True, kw_only=True):
    process_name: str


class AvailabilityZoneDistribution(Shape, frozen=True, kw_only=True):
    """How AWS spreads the launches of a group over its zones."""

    capacity_distribution_strategy: str = ""


class Group(Shape, frozen=True, kw_only=True):
    """One Auto Scaling group."""

    auto_scaling_group_name: str
    min_size: int
    max_size: int
    desired_capacity: int
    availability_zones: tuple[str, ...] = ()
    availability_zone_distribution: AvailabilityZoneDistribution | None = None
    instances: tuple[GroupInstance, ...] = ()
    tags: tuple[Tag, ...] = ()
    launch_configuration_name: str | None = None
    launch_template: TemplateSpec | None = None
    mixed_instances_policy: MixedInstancesPolicy | None = None
    suspended_processes: tuple[SuspendedProcess, ...] = ()
    new_instances_protected_from_scale_in: bool = False
    vpc_zone_identifier: str = field(default="", name="VPCZoneIdentifier")
    status: str = ""
    desired_capacity_type: str = ""
    capacity_rebalance: bool = False
    warm_pool_configuration: Raw | None = None
    auto_scaling_group_arn: str = field(default="", name="AutoScalingGroupARN")

    @property
    def name(self) -> str:
        return self.auto_scaling_group_name

    @property
    def is_going(self) -> bool:
        """Whether AWS is deleting the group: a group has a status only then."""
        return bool(self.status)

    @property
    def living(self) -> tuple[GroupInstance, ...]:
        """The instances that count towards the desired capacity."""
        return tuple(instance for instance in self.instances if not instance.is_leaving)

    @property
    def unprotected(self) -> tuple[str, ...]:
        """The ids of instances without protection from scale-in that AWS lets us protect."""
        ours = (one for one in self.instances if one.lifecycle_state in _PROTECTABLE)
        return tuple(one.instance_id for one in ours if not one.protected_from_scale_in)

    @property
    def counts_other(self) -> str:
        """What the size counts, if it does not count machines; otherwise ""."""
        if self.desired_capacity_type not in ("", "units"):
            return self.desired_capacity_type
        policy = self.mixed_instances_policy
        weights = {one.weighted_capacity for one in policy.launch_template.overrides} if policy is not None else set()
        return "WeightedCapacity" if weights - {None, "1"} else ""

    @property
    def stays_in_zone(self) -> bool:
        """Whether AWS tries the same zone again after a failed launch, and no other zone."""
        spread = self.availability_zone_distribution
        return spread is not None and spread.capacity_distribution_strategy == "balanced-only"

    @property
    def unfilled(self) -> int:
        """The number of requested machines that have no instance."""
        return max(0, self.desired_capacity - len(self.living))


class NewGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group to create: empty, of one instance type.

    ``subnets`` is a list separated by commas; if it is empty, ``availability_zones`` are used.
    """

    name: str
    max_size: int
    launch_template: TemplateSpec
    instance_type: str
    subnets: str = ""
    availability_zones: tuple[str, ...] = ()
    tags: tuple[Tag, ...] = ()


class _ActivityDetails(msgspec.Struct, frozen=True):
    zone: str = field(default="", name="Availability Zone")


class Activity(Shape, frozen=True, kw_only=True):
    """One thing that AWS did, or tried to do, to a group."""

    activity_id: str
    status_code: str
    start_time: datetime
    status_message: str = ""
    description: str = ""
    details: str = ""

    @property
    def zone(self) -> str:
        """The zone of the launch, or "" if the details do not tell it: AWS documents no schema for them."""
        try:
            return msgspec.json.decode(self.details, type=_ActivityDetails).zone
        except msgspec.DecodeError:
            return ""


class LaunchConfiguration(Shape, frozen=True, kw_only=True):
    launch_configuration_name: str
    instance_type: str = ""
    spot_price: str | None = None


class MarketOptions(Shape, frozen=True, kw_only=True):
    market_type: str = ""


class ReservationTarget(Shape, frozen=True, kw_only=True):
    """The capacity reservation, or the group of them, in which machines are started and nowhere else."""

    capacity_reservation_id: str = ""
    capacity_reservation_resource_group_arn: str = ""


class ReservationChoice(Shape, frozen=True, kw_only=True):
    """How machines use capacity reservations: a target, or a preference ("open": any that fits, "none")."""

    capacity_reservation_preference: str = ""
    capacity_reservation_target: ReservationTarget = ReservationTarget()


class CapacityReservation(Shape, frozen=True, kw_only=True):
    """A capacity reservation. ``available_instance_count``: how many machines may still start in it."""

    capacity_reservation_id: str
    state: str = ""
    available_instance_count: int = 0
    reservation_type: str = "default"
    end_date: datetime | None = None


class LaunchTemplateData(Shape, frozen=True, kw_only=True):
    """The machines of a version of a launch template. Requirements are kept as received. ``version`` is added by us."""

    instance_type: str | None = None
    image_id: str | None = None
    instance_requirements: Raw | None = None
    instance_market_options: MarketOptions = MarketOptions()
    capacity_reservation_specification: ReservationChoice = ReservationChoice()
    version: int = 0

    @property
    def reserved_in(self) -> str:
        """The capacity reservation that the machines take up and that is paid for without them; "": none is certain."""
        choice = self.capacity_reservation_specification
        target = choice.capacity_reservation_target
        named = target.capacity_reservation_id or target.capacity_reservation_resource_group_arn
        only = choice.capacity_reservation_preference == "capacity-reservations-only"
        return named or ("capacity reservations only" if only else "")


class SpotPrice(Shape, frozen=True, kw_only=True):
    """One entry of DescribeSpotPriceHistory."""

    instance_type: str
    availability_zone: str
    spot_price: str

    @property
    def per_hour(self) -> float:
        return float(self.spot_price)


class Message(Shape, frozen=True, kw_only=True):
    """A message of SQS."""

    message_id: str
    receipt_handle: str
    body: str = ""


class ScheduledEvent(Shape, frozen=True, kw_only=True):
    """A scheduled event of one instance, of DescribeInstanceStatus."""

    instance_id: str
    code: str = ""
    description: str = ""
    instance_event_id: str = ""
    not_before: datetime | None = None


class Image(Shape, frozen=True, kw_only=True):
    architecture: str = "x86_64"
    virtualization_type: str = "hvm"


class VCpuInfo(Shape, frozen=True, kw_only=True):
    default_v_cpus: int = field(name="DefaultVCpus")


class MemoryInfo(Shape, frozen=True, kw_only=True):
    size_in_mib: int = field(name="SizeInMiB")


class ProcessorInfo(Shape, frozen=True, kw_only=True):
    supported_architectures: tuple[str, ...] = ()


class Gpu(Shape, frozen=True, kw_only=True):
    count: int = 0


class GpuInfo(Shape, frozen=True, kw_only=True):
    gpus: tuple[Gpu, ...] = ()


class NetworkCard(Shape, frozen=True, kw_only=True):
    network_card_index: int = 0
    maximum_network_interfaces: int = 0


class NetworkInfo(Shape, frozen=True, kw_only=True):
    """How many network interfaces a machine can have, and how many addresses each of them."""

    default_network_card_index: int = 0
    ipv4_addresses_per_interface: int = 0
    network_cards: tuple[NetworkCard, ...] = ()

    @property
    def interfaces(self) -> int:
        """The most interfaces on the default network card, the only one whose addresses pods get; 0: not known."""
        default = self.default_network_card_index
        cards = (one for one in self.network_cards if one.network_card_index == default)
        return next((one.maximum_network_interfaces for one in cards), 0)


class InstanceTypeInfo(Shape, frozen=True, kw_only=True):
    """One entry of DescribeInstanceTypes."""

    instance_type: str
    v_cpu_info: VCpuInfo
    memory_info: MemoryInfo
    processor_info: ProcessorInfo = ProcessorInfo()
    gpu_info: GpuInfo = GpuInfo()
    network_info: NetworkInfo = NetworkInfo()


class EksShape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of responses of EKS."""


class EksTaint(EksShape, frozen=True, kw_only=True):
    key: str | None = None
    value: str | None = None
    effect: str = ""


class EksNodegroup(EksShape, frozen=True, kw_only=True):
    """A managed node group."""

    nodegroup_name: str
    cluster_name: str
    labels: dict[str, str] = {}
    taints: tuple[EksTaint, ...] = ()
    tags: dict[str, str] = {}
    disk_size: int | None = None
    ami_type: str | None = None
    capacity_type: str | None = None
    version: str | None = None
