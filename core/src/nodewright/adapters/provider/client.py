"""ProviderClient: the typed client of one provider. Only it and its parts call hooks.

The file is long because it has a method for each hook of the contract.
"""

import threading
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec

from nodewright.adapters.provider import checks
from nodewright.adapters.provider.calls import CallSettings, Check, HookCaller, HookStats, is_unclear
from nodewright.model.capability import Capability
from nodewright.model.errors import (
    InvariantError,
    OutcomeUnknown,
    ProviderError,
    ProviderUnavailable,
    TargetChanged,
)
from nodewright.model.group import (
    FailedInstance,
    GroupOptions,
    Instance,
    InstanceState,
    MachineType,
    NewNodeGroup,
    NodeGroup,
    NodeTemplate,
    Price,
    ProviderInfo,
)
from nodewright.model.interruption import Interruption
from nodewright.model.limits import NodeGroupFlag, parse_node_group_flag
from nodewright.spec.diagnosis import ApiCalls, Finding
from nodewright.spec.hooks import CloudProvisioningClass, CloudProvisioningRequest, ProvisioningVerdict
from nodewright.spec.simulation import NodeStart

T = TypeVar("T")

_NODE_STARTS = checks.several(NodeStart)


class WithheldWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A write that a dry run kept from the cloud."""

    hook: str
    group_id: str
    arguments: Mapping[str, object]


class ProviderClient:
    """A method per hook, with exact types; every failure is a ProviderError that names provider and group.

    Reads of a capability that the provider does not declare, or that is switched off for the group, return None, which
    differs from an empty answer. Writes of such a capability raise ProviderError with the code
    ``notSupported``. In a dry run no write is sent: writes return that nothing was accepted and are kept for
    ``take_withheld``.
    """

    def __init__(
        self, info: ProviderInfo, calls: HookCaller, settings: CallSettings, waits: HookCaller | None = None
    ) -> None:
        self.info = info
        self.name = info.name
        self.dry_run = settings.dry_run
        self.deadline_seconds = settings.deadline_seconds
        self._calls = calls
        self._waits = waits
        self._writes = _Writes(
            calls,
            repeats=settings.write_repeats,
            ignores_id_case=info.ignores_id_case,
            tells_failures=lambda group_id: self.supports(Capability.FAST_FAILURE_DETECTION, group_id),
        )
        self._check_instances = checks.instances(ignores_case=info.ignores_id_case)
        self._switched_off: Mapping[str, frozenset[Capability]] = {}
        self._limits: Mapping[str, NodeGroupFlag] = {}
        # Each name in --nodes with the ids of the last listing that it stands for, and the names without such an id.
        self.named: Mapping[str, tuple[str, ...]] = {}
        self.unlisted: tuple[str, ...] = ()
        self._withheld: list[WithheldWrite] = []

    def __repr__(self) -> str:
        return f"ProviderClient({self.name!r})"

    # Capabilities, statistics and withheld writes

    def capabilities(self, group: NodeGroup) -> frozenset[Capability]:
        """Return what the provider can do for this group."""
        return self.info.capabilities - group.switched_off.keys()

    def supports(self, capability: Capability, group_id: str = "") -> bool:
        """Return whether the capability holds; if a group is given, for it, as of the last ``node_groups``."""
        return capability in self.info.capabilities and capability not in self._switched_off.get(group_id, ())

    def demand_limits(self, node_groups: Iterable[str]) -> None:
        """Refuse from now on a listing whose limits of a group differ from those of its ``--nodes`` flag (``min:max:name``)."""
        self._limits = {flag.name: flag for flag in map(parse_node_group_flag, node_groups)}
        self.named = dict.fromkeys(self._limits, ())

    def note_last_write(self, at: float) -> None:
        """Note when a former process may last have written (epoch seconds; -inf: never, or nothing is decided by what is read)."""
        self._calls.note_last_write(at)

    def stats(self) -> Mapping[str, HookStats]:
        """Return calls, errors and seconds per hook since the start."""
        return self._calls.stats()

    def take_withheld(self) -> tuple[WithheldWrite, ...]:
        """Return the writes that a dry run withheld since the last call."""
        taken, self._withheld = tuple(self._withheld), []
        return taken

    # Required reads

    def refresh(self, wanted: frozenset[str] = frozenset()) -> None:
        """Let the plugin read the cloud again; for groups in ``wanted`` without any cache."""
        self._calls.read("refresh", checks.done, wanted=wanted)

    def node_groups(self) -> tuple[NodeGroup, ...]:
        groups = self._calls.read("node_groups", checks.node_groups(self._limits))
        self._switched_off = {group.id: frozenset(group.switched_off) for group in groups if group.switched_off}
        self.named = self._find_named(groups)
        self.unlisted = self._find_unlisted(groups)
        return groups

    def names_of(self, known: Container[str]) -> frozenset[str]:
        """Return the names in --nodes for which the last listing has a group that is ``known`` (ids), or another with its limits."""
        near = {name for name, ids in self.named.items() if any(one in known for one in ids)}
        return frozenset(near | {name for name, ids in self.named.items() if not ids and name not in self.unlisted})

    def target_size(self, group_id: str) -> int:
        return self._calls.read("target_size", checks.size, group_id=group_id)

    def instances(self, group_id: str) -> tuple[Instance, ...]:
        return self._calls.read("instances", self._check_instances, group_id=group_id)

    def template_node(self, group_id: str) -> NodeTemplate:
        return self._calls.read("template_node", checks.template, group_id=group_id)

    # Writes

    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Return how many machines were accepted.

        Raise TargetChanged if another writer changed the target, OutcomeUnknown if the effect is not known.
        """
        _demand(0 <= expected_target < target, f"increase of {group_id} from {expected_target} to {target}")
        return self._resize("increase_size", group_id, expected_target, target)

    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Do as ``increase_size`` does, all or nothing."""
        _demand(0 <= expected_target < target, f"increase of {group_id} from {expected_target} to {target}")
        self._require(Capability.ATOMIC_RESIZE, group_id)
        return self._resize("atomic_increase_size", group_id, expected_target, target)

    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        """Withdraw capacity that has no machine; return how much was withdrawn.

        A target below zero, which CA's rules may ask for, is refused without asking the cloud.
        """
        _demand(target < expected_target, f"decrease of {group_id} from {expected_target} to {target}")
        if target < 0:
            message = f"there is no size {target}"
            raise ProviderError(message, provider=self.name, group_id=group_id, code="sizeBelowZero")
        return self._resize("decrease_target_size", group_id, expected_target, target)

    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        """Delete machines; return the ids that were accepted, without those of machines that are already gone."""
        return self._delete("delete_instances", group_id, instance_ids, expected_target)

    def force_delete_instances(
        self, group_id: str, instance_ids: Sequence[str], expected_target: int
    ) -> tuple[str, ...]:
        """Do as ``delete_instances`` does, without the minimum-size check and without waiting."""
        self._require(Capability.FORCE_DELETE, group_id)
        return self._delete("force_delete_instances", group_id, instance_ids, expected_target)

    # Optional reads: None where the capability does not hold

    def failed_instances(self, group_id: str) -> tuple[FailedInstance, ...] | None:
        """Return failures that are not yet deleted; None: the cloud does not report failures, so there may be some."""
        return self._optional(Capability.FAST_FAILURE_DETECTION, "failed_instances", checks.failures, group_id=group_id)

    def group_options(self, group_id: str, defaults: GroupOptions) -> GroupOptions:
        """Return the options of this group; the defaults if the provider has no others."""
        check = checks.group_options
        found = self._optional(Capability.GROUP_OPTIONS, "group_options", check, group_id=group_id, defaults=defaults)
        return found if found is not None else defaults

    def node_price(self, group_id: str) -> Price | None:
        """Return the price of the group's next machine."""
        return self._optional(Capability.PRICING, "node_price", checks.price, group_id=group_id)

    def gpu_label(self) -> str | None:
        return self._optional(Capability.GPU, "gpu_label", checks.name)

    def gpu_types(self) -> tuple[str, ...] | None:
        return self._optional(Capability.GPU, "gpu_types", checks.names)

    def gpu_resources(self) -> tuple[str, ...] | None:
        return self._optional(Capability.GPU, "gpu_resources", checks.names)

    def ignored_labels(self) -> tuple[str, ...] | None:
        return self._optional(Capability.SIMILARITY, "ignored_labels", checks.names)

    def same_group_labels(self) -> tuple[str, ...] | None:
        return self._optional(Capability.SIMILARITY, "same_group_labels", checks.names)

    def machine_types(self) -> tuple[MachineType, ...] | None:
        return self._optional(Capability.AUTOPROVISIONING, "machine_types", checks.machine_types)

    def provisioning_classes(self) -> tuple[CloudProvisioningClass, ...] | None:
        return self._optional(
            Capability.PROVISIONING_CLASSES, "provisioning_classes", checks.several(CloudProvisioningClass)
        )

    def interruptions(self) -> tuple[Interruption, ...] | None:
        """Return the notices about machines that still exist."""
        return self._optional(Capability.INTERRUPTION, "interruptions", checks.interruptions)

    def await_interruption(self, timeout: float) -> bool | None:
        """Wait at most ``timeout`` seconds for a new notice; return whether one came.

        Return None at once if the provider cannot wait. Call it in a thread of its own: other calls may overlap.
        """
        if self._waits is None or not self.supports(Capability.INTERRUPTION):
            return None
        return self._waits.once("await_interruption", checks.a(bool), timeout=timeout)

    # For operators

    def diagnose(self) -> tuple[Finding, ...] | None:
        """Return what the provider finds when it examines its permissions and other writers."""
        return self._optional(Capability.DIAGNOSIS, "diagnose", checks.several(Finding))

    def minimal_policy(self) -> str | None:
        """Return the permissions that this configuration needs, in the cloud's own form."""
        return self._optional(Capability.DIAGNOSIS, "minimal_policy", checks.a(str))

    def api_calls(self) -> tuple[ApiCalls, ...] | None:
        """Return the calls to the cloud's API since the start."""
        return self._optional(Capability.DIAGNOSIS, "api_calls", checks.several(ApiCalls))

    # Optional writes

    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup | None:
        """Create a group; return it empty, or None in a dry run.

        The call is never repeated after a timeout: the next listing shows whether the group was created.
        """
        self._require(Capability.AUTOPROVISIONING)
        if self._withholds("create_node_group", spec.group_id, {"spec": spec}):
            return None
        return self._calls.write("create_node_group", checks.made_group(spec), spec=spec)

    def delete_node_group(self, group_id: str) -> bool:
        """Delete an empty, autoprovisioned group; return whether it is gone."""
        self._require(Capability.AUTOPROVISIONING, group_id)
        if self._withholds("delete_node_group", group_id, {}):
            return False
        return self._calls.write("delete_node_group", checks.a(bool), group_id=group_id)

    def provision(self, request: CloudProvisioningRequest) -> ProvisioningVerdict | None:
        """Pass a request to the cloud; return its verdict, or None in a dry run."""
        self._require(Capability.PROVISIONING_CLASSES)
        if self._withholds("provision", "", {"request": request}):
            return None
        return self._calls.once("provision", checks.verdict, request=request)

    # For the simulated cluster only

    def running_machines(self) -> tuple[NodeStart, ...]:
        """Return how every running machine of all groups becomes a node."""
        self._require(Capability.SIMULATION)
        return self._calls.once("running_machines", _NODE_STARTS)

    def next_change(self) -> float:
        """Return when the cloud next changes by itself, at the earliest (epoch seconds)."""
        self._require(Capability.SIMULATION)
        return self._calls.once("next_change", checks.instant)

    def _find_named(self, groups: Sequence[NodeGroup]) -> dict[str, tuple[str, ...]]:
        """Return the listed ids that each name in --nodes stands for: equal ids, and ids of which one ends with the other.

        A cloud may have its own ids for the groups, such as URLs, or several groups for one name.
        """
        ids: dict[str, list[tuple[str, str]]] = {}
        for group in groups:
            lowered = group.id.lower()
            ids.setdefault(_last_part(lowered), []).append((lowered, group.id))
        named = {}
        for name in self._limits:
            wanted = name.lower()
            near = ids.get(_last_part(wanted), ())
            named[name] = tuple(id_ for lowered, id_ in near if ends_alike(lowered, wanted))
        return named

    def _find_unlisted(self, groups: Sequence[NodeGroup]) -> tuple[str, ...]:
        """Return the names in --nodes for which the listing has no group, and no other group with the same limits."""
        taken = {id_ for ids in self.named.values() for id_ in ids}
        others = [(group.min_size, group.max_size) for group in groups if group.id not in taken]
        unlisted = []
        for name, ids in self.named.items():
            limits = (self._limits[name].min_size, self._limits[name].max_size)
            if ids:
                continue
            if limits in others:
                others.remove(limits)
            else:
                unlisted.append(name)
        return tuple(unlisted)

    def _resize(self, hook: str, group_id: str, expected_target: int, target: int) -> int:
        if self._withholds(hook, group_id, {"expected_target": expected_target, "target": target}):
            return 0
        return self._writes.resize(hook, group_id, expected_target, target)

    def _delete(self, hook: str, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        asked = tuple(dict.fromkeys(instance_ids))
        arguments = {"instance_ids": asked, "expected_target": expected_target}
        if not asked or self._withholds(hook, group_id, arguments):
            return ()
        return self._writes.delete(hook, group_id, asked, expected_target)

    def _optional(self, capability: Capability, hook: str, check: Check[T], **arguments: object) -> T | None:
        if not self.supports(capability, str(arguments.get("group_id", ""))):
            return None
        return self._calls.read(hook, check, **arguments)

    def _require(self, capability: Capability, group_id: str = "") -> None:
        if not self.supports(capability, group_id):
            where = f"group {group_id} of provider {self.name}" if group_id else f"provider {self.name}"
            message = f"{where} does not support {capability.value}"
            raise ProviderError(message, provider=self.name, group_id=group_id, code="notSupported")

    def _withholds(self, hook: str, group_id: str, arguments: Mapping[str, object]) -> bool:
        if self.dry_run:
            self._withheld.append(WithheldWrite(hook=hook, group_id=group_id, arguments=arguments))
        return self.dry_run


def _last_part(group_id: str) -> str:
    return group_id.replace(":", "/").rpartition("/")[2]


def ends_alike(one: str, other: str) -> bool:
    """Return whether one of two ids ends with the whole parts of the other."""
    short, long = sorted((one, other), key=len)
    return long.endswith(short) and (long == short or long[-len(short) - 1] in "/:")


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantError(f"{what} makes no sense")


# Seconds for which one call waits for a notice, and seconds of pause after a failed call.
_WAIT_SECONDS = 20.0
_PAUSE_SECONDS = 30.0


class WaitsForNotices(Protocol):
    """The part of ProviderClient that is used here."""

    @property
    def name(self) -> str: ...
    def await_interruption(self, timeout: float) -> bool | None: ...


class NoticeWatch:
    """Calls ``ring`` when a provider has a new notice, from a thread of its own."""

    def __init__(
        self, providers: Iterable[WaitsForNotices], ring: Callable[[], None], say: Callable[[str, str], object]
    ) -> None:
        """Call ``say`` with the name of a provider, and with its problem (empty: it has none)."""
        self._providers = tuple(providers)
        self._ring = ring
        self._say = say
        self._stopped = threading.Event()

    def start(self) -> None:
        for provider in self._providers:
            name = f"notices-{provider.name}"
            threading.Thread(target=self._watch, args=(provider,), name=name, daemon=True).start()

    def stop(self) -> None:
        """Let each thread end after its present call."""
        self._stopped.set()

    def _watch(self, provider: WaitsForNotices) -> None:
        while not self._stopped.is_set():
            try:
                came = provider.await_interruption(_WAIT_SECONDS)
            except ProviderError as error:
                self._say(provider.name, f"{error.code}: {error}")
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            if came is None:
                return
            self._say(provider.name, "")
            if came:
                self._ring()


class _Writes:
    """Sends the writes of one provider. If the effect of a call is unknown, it reads the cloud again.

    A resize is repeated only if the re-read shows that it had no effect, and is done if the re-read shows its target. Any
    other target means that another writer changed it, and the caller plans again.
    """

    def __init__(
        self, calls: HookCaller, *, repeats: int, ignores_id_case: bool, tells_failures: Callable[[str], bool]
    ) -> None:
        self._calls = calls
        self._repeats = repeats
        self._ignores_id_case = ignores_id_case
        self._tells_failures = tells_failures

    def resize(self, hook: str, group_id: str, expected_target: int, target: int) -> int:
        """Return how many machines were accepted; raise TargetChanged or OutcomeUnknown if a call's effect is not known."""
        asked = abs(target - expected_target)
        for attempt in range(self._repeats + 1):
            try:
                return self._calls.write(
                    hook,
                    checks.size_up_to(asked),
                    group_id=group_id,
                    expected_target=expected_target,
                    target=target,
                )
            except ProviderError as error:
                if not is_unclear(error):
                    raise
                actual = self._reread_target(group_id, error)
                if actual == target:
                    return asked
                if actual != expected_target:
                    raise TargetChanged(actual=actual, provider=error.provider, group_id=group_id) from error
                if attempt == self._repeats or not isinstance(error, ProviderUnavailable):
                    raise
        raise InvariantError(f"{hook} of {group_id} was neither answered nor given up")

    def delete(self, hook: str, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        """Delete machines; return the ids accepted, in the order asked for."""
        left, accepted, expected = list(instance_ids), set[str](), expected_target
        for attempt in range(self._repeats + 1):
            try:
                accepted.update(self._delete_once(hook, group_id, left, expected))
                break
            except ProviderError as error:
                if not is_unclear(error):
                    raise
                present = self._reread_ids(group_id, error)
                gone = {asked for asked in left if self._folded(asked) not in present}
                accepted |= gone
                left = [asked for asked in left if asked not in gone]
                if not left:
                    break
                if attempt == self._repeats or not isinstance(error, ProviderUnavailable):
                    raise
                expected = self._reread_target(group_id, error)
        return tuple(asked for asked in instance_ids if asked in accepted)

    def _delete_once(self, hook: str, group_id: str, instance_ids: Sequence[str], expected: int) -> tuple[str, ...]:
        return self._calls.write(
            hook,
            checks.ids_among(instance_ids),
            group_id=group_id,
            instance_ids=tuple(instance_ids),
            expected_target=expected,
        )

    def _reread_target(self, group_id: str, doubt: ProviderError) -> int:
        self._refresh(group_id, doubt)
        return self._reread(doubt, group_id, lambda: self._calls.read("target_size", checks.size, group_id=group_id))

    def _reread_ids(self, group_id: str, doubt: ProviderError) -> set[str]:
        """Return the ids of everything in the group that is not being deleted, failures included."""
        self._refresh(group_id, doubt)
        check = checks.instances(ignores_case=self._ignores_id_case)
        found = self._reread(doubt, group_id, lambda: self._calls.read("instances", check, group_id=group_id))
        ids = {instance.id for instance in found if instance.state != InstanceState.DELETING}
        if self._tells_failures(group_id):
            failed = self._reread(
                doubt, group_id, lambda: self._calls.read("failed_instances", checks.failures, group_id=group_id)
            )
            ids |= {failure.instance_id or failure.failure_id for failure in failed}
        return {self._folded(instance_id) for instance_id in ids}

    def _refresh(self, group_id: str, doubt: ProviderError) -> None:
        wanted = frozenset({group_id})
        self._reread(doubt, group_id, lambda: self._calls.read("refresh", checks.done, wanted=wanted))

    def _reread(self, doubt: ProviderError, group_id: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except ProviderError as error:
            message = f"{doubt}; reading the result from the cloud failed too: {error}"
            raise OutcomeUnknown(message, provider=doubt.provider, group_id=group_id) from error

    def _folded(self, instance_id: str) -> str:
        return instance_id.lower() if self._ignores_id_case else instance_id
