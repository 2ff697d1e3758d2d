"""The fake provider's options. They are decoded strictly: unknown or contradictory options are refused at the start."""

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml
from msgspec import Meta

from nodewright.spec import Capability, ConfigError, ErrorClass, FailureScope, Price, Quantity, decode_options
from nodewright_fake.delays import Delay, Seconds, decode_hook, fixed
from nodewright_fake.faults import Fault

Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0)]
Amount = str | int | float

FOREVER = Seconds("inf")
_MAX_FILE_BYTES = 4 * 1024 * 1024


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all options; refuses unknown keys."""


class TaintConfig(Strict, frozen=True, kw_only=True):
    """A taint of the nodes of a group."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class DevicesConfig(Strict, frozen=True, kw_only=True):
    """``count`` equal devices that a driver of dynamic resource allocation publishes for each machine.

    An attribute is a text, a number or a boolean; ``capacity`` are quantities.
    """

    driver: str
    count: Annotated[int, Meta(ge=1, le=128)] = 1
    attributes: dict[str, str | int | bool] = {}
    capacity: dict[str, Amount] = {}


class Lateness(Strict, frozen=True, kw_only=True):
    """The share of machines whose kubelet registers late, and by how much."""

    share: Share = 1.0
    by: Delay


class Behaviour(Strict, frozen=True, kw_only=True):
    """Settings of one group that differ from the core's defaults (the hook ``group_options``)."""

    max_node_provision: Seconds | None = None
    max_node_startup: Seconds | None = None
    zero_or_max: bool | None = None


class MachineShape(Strict, frozen=True, kw_only=True):
    """What one machine offers, what it costs and how long its creation takes.

    ``request_delay`` passes until the cloud lists the machine, then ``provision_delay`` until it runs,
    ``register_delay`` until its kubelet registers and ``ready_delay`` until the node is ready. ``price_source`` is the
    source of the price; ``spot`` says that it is a price of spot machines.
    """

    cpu: Amount = 4
    memory: Amount = "16Gi"
    pods: Amount = 110
    resources: dict[str, Amount] = {}
    devices: tuple[DevicesConfig, ...] = ()
    labels: dict[str, str] = {}
    taints: tuple[TaintConfig, ...] = ()
    price_per_hour: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    price_source: str = "the fake cloud's prices"
    spot: bool = False
    request_delay: Delay = fixed(0)
    provision_delay: Delay = fixed(30)
    register_delay: Delay = fixed(30)
    ready_delay: Delay = fixed(10)
    delete_delay: Delay = fixed(0)
    never_registers: Share = 0.0
    registers_late: Lateness | None = None

    @property
    def price(self) -> Price:
        return Price(per_hour=self.price_per_hour, source=self.price_source, spot=self.spot)


class GroupConfig(MachineShape, frozen=True, kw_only=True):
    """One node group. It starts with ``size`` running machines. New machines are made from ``image``.

    ``buckets`` names the quotas and pools of capacity on which its machines draw.
    """

    name: str
    min_size: Count = 0
    max_size: Count = 10
    size: Count = 0
    zone: str = ""
    instance_type: str = ""
    behaviour: Behaviour = Behaviour()
    switched_off: dict[Capability, str] = {}
    image: str = ""
    buckets: tuple[str, ...] = ()


class MachineTypeConfig(MachineShape, frozen=True, kw_only=True):
    """A machine type from which groups can be created (AUTOPROVISIONING)."""

    name: str
    zone: str = ""


class Window(Strict, frozen=True, kw_only=True):
    """The time (seconds since the cloud was built) and the groups that a rule concerns; by default all."""

    zone: str = "*"
    instance_type: str = "*"
    group: str = "*"
    start: Seconds = Seconds(0)
    end: Seconds = FOREVER


class StockOut(Window, frozen=True, kw_only=True):
    """The cloud can create only ``remaining`` more machines."""

    remaining: Count = 0
    code: str = "STOCKOUT"
    message: str = ""


class Failure(Window, frozen=True, kw_only=True):
    """A ``share`` of the creations fail, at most ``count`` of them, each after ``delay``."""

    share: Share = 1.0
    count: Count | None = None
    delay: Delay = fixed(0)
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    code: str = "CREATION_FAILED"
    message: str = ""


class DeadBoot(Window, frozen=True, kw_only=True):
    """Machines that start to run in this time never become nodes."""


class SlowBoot(Window, frozen=True, kw_only=True):
    """Machines that start to run in this time register and become ready later, each by a delay."""

    registers: Delay = fixed(0)
    ready: Delay = fixed(0)


class SmallMachine(Window, frozen=True, kw_only=True):
    """Machines that start to run in this time offer ``offers`` in place of what the group's template says."""

    offers: dict[str, Amount]


class FalseFailure(Window, frozen=True, kw_only=True):
    """The cloud reports running machines as failed creations, the oldest ``machines`` of each group; nodes stay Ready.

    With ``flaps_every`` the report comes and goes: it is there in the first half of each such period.
    With ``also_listed`` the hook ``instances`` still lists the machines.
    """

    machines: Count | None = None
    flaps_every: Seconds | None = None
    also_listed: bool = False
    error_class: ErrorClass = ErrorClass.OTHER
    scope: FailureScope = FailureScope.GROUP
    code: str = "PROVISIONING_STATE_FAILED"


class Interference(Strict, frozen=True, kw_only=True, tag_field="do"):
    """What another writer does to a group, ``start`` after the cloud was built."""

    group: str
    start: Seconds


class Resize(Interference, frozen=True, kw_only=True, tag="resize"):
    """The target becomes ``size``; the cloud deletes machines that are too many."""

    size: Count


class TakeBack(Interference, frozen=True, kw_only=True, tag="take_back"):
    """The oldest ``machines`` running machines disappear; the group requests others."""

    machines: Count = 1


class Recreate(Interference, frozen=True, kw_only=True, tag="recreate"):
    """The group disappears with its machines. It is created again, empty, ``gone_for`` later."""

    gone_for: Seconds = Seconds(0)


class Change(Interference, frozen=True, kw_only=True, tag="change"):
    """The limits or the template of the group change; None: no change.

    The target and existing machines stay as they are, even outside of the new limits.
    """

    min_size: Count | None = None
    max_size: Count | None = None
    cpu: Amount | None = None
    zone: str | None = None
    labels: dict[str, str] | None = None


class Interrupt(Interference, frozen=True, kw_only=True, tag="interrupt"):
    """The cloud gives notice of the oldest ``machines`` running machines, and takes them ``notice`` later.

    The group requests others. Machines with a notice of kind ``rebalance`` or ``unhealthy`` run on; such a notice has no
    deadline. ``undelivered``: the cloud takes the machines without a notice. ``duplicated``: each notice comes twice, with two
    ids. ``false_alarm``: the cloud takes no machine, and takes the notice back at the deadline. ``scope`` is part of the
    notice; "": none.
    """

    kind: Annotated[str, Meta(pattern="^(reclaim|rebalance|maintenance|unhealthy)$")] = "reclaim"
    machines: Count = 1
    notice: Seconds = Seconds(120)
    undelivered: bool = False
    duplicated: bool = False
    false_alarm: bool = False
    scope: Annotated[str, Meta(pattern="^(group|zone|instance_type|account)?$")] = "group"


class Vanish(Change, frozen=True, kw_only=True, tag="vanish"):
    """The group is not listed for ``gone_for``, while its machines run on.

    It comes back with the changes of ``Change``.
    """

    gone_for: Seconds


Event = Resize | TakeBack | Recreate | Change | Vanish | Interrupt


class Interloper(Window, frozen=True, kw_only=True):
    """Another writer writes to a group at the moment of nodewright's write, at most ``times``.

    It writes ``before`` the cloud checks our write, or ``after`` our write took effect and before the call returns.
    ``resize``: the target changes by ``by``. ``delete``: the oldest ``machines`` running machines are deleted, and the
    target falls. ``take_back``: they disappear, and the group requests others.
    """

    when: Annotated[str, Meta(pattern="^(before|after)$")] = "before"
    does: Annotated[str, Meta(pattern="^(resize|delete|take_back)$")]
    by: int = 0
    machines: Count = 1
    times: Count = 1


class OldRead(Window, frozen=True, kw_only=True):
    """Reads of a group show for ``flaps_every`` the state ``lag`` before, then for as long the present one, and so on.

    ``of`` says which reads: of the ``size``, the ``instances`` or ``both``. Our own write shows in the next read.
    """

    lag: Seconds
    flaps_every: Seconds = FOREVER
    of: Annotated[str, Meta(pattern="^(size|instances|both)$")] = "both"


class Quota(Strict, frozen=True, kw_only=True):
    """Account-wide limits. ``enforced``: at the ``call`` (refusal) or at the ``creation`` (failed instance).

    With ``bucket`` only groups count that draw on it, and only they are limited.
    """

    bucket: str = ""
    machines: Count | None = None
    cpus: Annotated[float, Meta(ge=0)] | None = None
    enforced: Annotated[str, Meta(pattern="^(call|creation)$")] = "creation"


class Gpu(Strict, frozen=True, kw_only=True):
    """What the GPU hooks return."""

    label: str = "fake.nodewright/gpu"
    types: tuple[str, ...] = ("fake-gpu",)
    resources: tuple[str, ...] = ("nvidia.com/gpu",)


class Similarity(Strict, frozen=True, kw_only=True):
    """What the hooks for similar groups return."""

    ignored_labels: tuple[str, ...] = ()
    same_group_labels: tuple[str, ...] = ()


class ServedClass(Strict, frozen=True, kw_only=True):
    """A class of ProvisioningRequests that the cloud serves, up to ``max_pods`` pods per request.

    Each pod gets a machine of ``group`` of its own. Without a group the cloud accepts the request and creates nothing.
    """

    name: str
    description: str = ""
    max_pods: Count = 1000
    group: str = ""


class CloudOptions(Strict, frozen=True, kw_only=True):
    """All options of the cloud. ``file`` names a YAML file with the same keys and must be the only key."""

    file: str | None = None
    groups: tuple[GroupConfig, ...] = ()
    machine_types: tuple[MachineTypeConfig, ...] = ()
    switched_off: tuple[Capability, ...] = ()
    placeholder_failures: bool = False
    retry_delay: Delay = fixed(60)
    refresh_interval: Seconds = Seconds(0)
    parallel_calls: bool = False
    ignores_id_case: bool = False
    settles_after: Seconds = Seconds(0)
    quota: Quota = Quota()
    stock_outs: tuple[StockOut, ...] = ()
    failures: tuple[Failure, ...] = ()
    dead_boots: tuple[DeadBoot, ...] = ()
    slow_boots: tuple[SlowBoot, ...] = ()
    small_machines: tuple[SmallMachine, ...] = ()
    false_failures: tuple[FalseFailure, ...] = ()
    interference: tuple[Event, ...] = ()
    interlopers: tuple[Interloper, ...] = ()
    old_reads: tuple[OldRead, ...] = ()
    faults: tuple[Fault, ...] = ()
    gpu: Gpu = Gpu()
    similarity: Similarity = Similarity()
    provisioning_classes: tuple[ServedClass, ...] = ()


def load_options(raw: Mapping[str, Any], node_group_specs: Sequence[str] = ()) -> CloudOptions:
    """Return the checked options.

    If ``node_group_specs`` (``min:max:name``) is not empty, keep only the groups that it names, with these limits.
    Raise ConfigError naming the key, group or file.
    """
    source = "options of provider fake"
    options = decode_options(raw, CloudOptions, source, decode_hook)
    if options.file is not None:
        if len(raw) > 1:
            others = ", ".join(sorted(set(raw) - {"file"}))
            raise ConfigError(f"{source}: file must be the only key: move {others} into {options.file}")
        source, path = options.file, Path(options.file)
        options = decode_options(_read_yaml(path), CloudOptions, source, decode_hook)
    check_groups(options.groups, source)
    _check_interference(options, source)
    for key, rules in (("false_failures", options.false_failures), ("old_reads", options.old_reads)):
        if any(rule.flaps_every is not None and rule.flaps_every <= 0 for rule in rules):
            raise ConfigError(f"{source}: {key}: flaps_every must be more than 0s")
    if not node_group_specs:
        return options
    return msgspec.structs.replace(options, groups=_select(options.groups, node_group_specs))


def check_groups(groups: Sequence[GroupConfig], source: str) -> None:
    """Raise ConfigError for a group whose name, limits or resources are not valid."""
    seen: set[str] = set()
    for group in groups:
        where = f"{source}: group {group.name}"
        if not group.name or "/" in group.name or group.name in seen:
            raise ConfigError(f"{where}: a name must be unique, not empty and without a slash")
        if group.min_size > group.max_size:
            raise ConfigError(f"{where}: min_size {group.min_size} is above max_size {group.max_size}")
        if group.size > group.max_size:
            raise ConfigError(f"{where}: size {group.size} is above max_size {group.max_size}")
        check_shape(group, where)
        seen.add(group.name)


def _check_interference(options: CloudOptions, source: str) -> None:
    sizes = {group.name: group.max_size for group in options.groups}
    groups = {group.name: group for group in options.groups}
    for event in sorted(options.interference, key=lambda event: event.start):
        if event.group not in groups:
            raise ConfigError(f"{source}: interference: there is no group {event.group}")
        if isinstance(event, Resize) and event.size > sizes[event.group]:
            raise ConfigError(f"{source}: interference: size {event.size} is above max_size of {event.group}")
        if isinstance(event, Change):
            groups[event.group] = msgspec.structs.replace(changed(groups[event.group], event), size=0)
    check_groups(list(groups.values()), f"{source}: interference")


def changed(config: GroupConfig, event: Change) -> GroupConfig:
    """Return the group's options with the changes of the event."""
    keys = ("min_size", "max_size", "cpu", "zone", "labels")
    changes = {key: getattr(event, key) for key in keys if getattr(event, key) is not None}
    return msgspec.structs.replace(config, **changes)


def check_shape(shape: MachineShape, where: str) -> None:
    """Raise ConfigError for a resource or a capacity that is not a quantity."""
    offered = [("cpu", shape.cpu), ("memory", shape.memory), ("pods", shape.pods), *shape.resources.items()]
    offered += [(f"devices: {name}", amount) for devices in shape.devices for name, amount in devices.capacity.items()]
    for resource, amount in offered:
        try:
            Quantity.of(amount)
        except ValueError as error:
            raise ConfigError(f"{where}: {resource}: {error}") from error


def _select(groups: Sequence[GroupConfig], specs: Sequence[str]) -> tuple[GroupConfig, ...]:
    known = {group.name: group for group in groups}
    chosen = []
    for spec in specs:
        low, high, name = _split_spec(spec)
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f", did you mean {near[0]}?" if near else ""
            raise ConfigError(f"--nodes {spec}: the options of the fake provider describe no group {name}{hint}")
        chosen.append(msgspec.structs.replace(known[name], min_size=low, max_size=high))
    check_groups(chosen, "--nodes")
    return tuple(chosen)


def _split_spec(spec: str) -> tuple[int, int, str]:
    low, _, rest = spec.partition(":")
    high, _, name = rest.partition(":")  # the name may contain colons
    if not (low.isdecimal() and high.isdecimal() and name and len(low + high) < 20):
        raise ConfigError(f"--nodes {spec[:80]}: not of the form min:max:name")
    return int(low), int(high), name


def _read_yaml(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        if len(text) > _MAX_FILE_BYTES:
            raise ConfigError(f"{path}: larger than {_MAX_FILE_BYTES} bytes")
        content = _PlainLoader(text).get_single_data()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: must hold a mapping of options")
    return content


class _PlainLoader(yaml.SafeLoader):
    """Safe loading without aliases, which can grow a small file to any size."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)
