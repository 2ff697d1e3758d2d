"""The options of provider aws. Unknown keys are refused."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from nodewright.spec import ConfigError, ProviderContext, decode_options
from nodewright.spec.options import Seconds, decode_seconds

Positive = Annotated[int, Meta(ge=1)]
PerHour = Annotated[float, Meta(ge=0, le=1e6)]
Name = Annotated[str, Meta(min_length=1)]
Role = Annotated[str, Meta(pattern=r"^([\w+=,.@-]+/)*[\w+=,.@-]+$|^$", max_length=576)]
# Characters that AWS allows in a group name. With instance type and digest the name has at most AWS's 255 characters.
Prefix = Annotated[str, Meta(max_length=200, pattern="^[^:\\x00-\\x1f]*$")]
SERVICES = ("autoscaling", "ec2", "eks", "iam", "pricing", "sqs", "sts")


class StaticType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table ``instance_types``."""

    cpu: Positive
    memory_mib: Positive
    gpu: Annotated[int, Meta(ge=0)] = 0
    architecture: str = "x86_64"


class EksNodes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``eks_nodes``: what nodes of Amazon EKS have of their machines.

    ``apply``: to which groups; "auto": managed node groups of EKS. ``max_pods``: the kubelet's setting, if users set it; 0:
    it follows from the network interfaces. ``custom_networking``: pods get no address of the first interface.
    ``vm_memory_overhead``: the part of the memory that hypervisor and kernel take.
    """

    apply: Literal["auto", "always", "never"] = "auto"
    max_pods: Annotated[int, Meta(ge=0, le=1000)] = 0
    prefix_delegation: bool = False
    custom_networking: bool = False
    vm_memory_overhead: Annotated[float, Meta(ge=0, lt=1)] = 0.075


class Making(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``autoprovisioning``: how groups are created.

    They are like the group ``like``, of these instance types, with names that begin with ``prefix``.
    ``labels_from_tags``: the nodes of such a group take labels and taints from its tags. ``node_role``: the role of IAM
    in the launch template, with its path, and ``launch_template`` the id of that template, both for the policy.
    """

    like: Name
    instance_types: Annotated[tuple[Name, ...], Meta(min_length=1)]
    prefix: Prefix = ""
    labels_from_tags: bool = False
    node_role: Role = ""
    launch_template: Annotated[str, Meta(pattern="^(lt-[0-9a-z]+)?$")] = ""


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``providers.aws.options``; the README explains each of them."""

    region: str = ""
    profile: str | None = None
    endpoints: dict[str, str] = {}
    connect_timeout: Seconds = Seconds(5)
    read_timeout: Seconds = Seconds(20)
    parallel_calls: Annotated[int, Meta(ge=1, le=64)] = 8
    api_calls_per_minute: Positive = 1200
    refresh_interval: Seconds = Seconds(60)
    template_interval: Seconds = Seconds(1200)
    nodegroup_interval: Seconds = Seconds(360)
    failure_memory: Seconds = Seconds(900)
    detect_failures: bool = True
    instance_types: dict[str, StaticType] = {}
    use_static_instance_list: bool = False
    dra_gpus: bool = False
    eks_nodes: EksNodes = EksNodes()
    prices_per_hour: dict[str, PerHour] = {}
    refresh_prices: bool = True
    price_list_interval: Seconds = Seconds(86400)
    spot_price_interval: Seconds = Seconds(600)
    cluster: str = ""
    autoprovisioning: Making | None = None
    interruption_queue: str = ""


def load_options(context: ProviderContext) -> Options:
    """Return the checked options; raise ConfigError that names the key."""
    source = "options of provider aws"
    options = decode_options(context.options, Options, source, decode_seconds)
    unknown = sorted(set(options.endpoints) - set(SERVICES))
    if unknown:
        raise ConfigError(f"{source}: endpoints: there is no service {unknown[0]}; there are {', '.join(SERVICES)}")
    if options.autoprovisioning is not None:
        _check_making(options.autoprovisioning, options.cluster, source)
    return options


def _check_making(making: Making, cluster: str, source: str) -> None:
    if not cluster:
        raise ConfigError(f"{source}: autoprovisioning needs cluster: created groups are marked with it")
    names = making.instance_types
    twice = next((name for number, name in enumerate(names) if name in names[:number]), None)
    if twice is not None:
        raise ConfigError(f"{source}: autoprovisioning.instance_types names {twice} twice")
