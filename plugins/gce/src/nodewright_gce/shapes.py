"""Compute Engine's responses as frozen values: only the members that are used, under the API's names."""

from typing import Any, TypeVar

import msgspec
from msgspec import field

from nodewright.spec import ProviderUnavailable
from nodewright_gce.refs import template_name

Raw = dict[str, Any]
T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of responses of the API; members that are not listed here are ignored."""


class Version(Shape, frozen=True, kw_only=True):
    """The template of some of a group's instances."""

    instance_template: str = ""


class ActionCounts(Shape, frozen=True, kw_only=True):
    """The number of instances for each action of the manager."""

    none: int = 0
    creating: int = 0
    creating_without_retries: int = 0
    recreating: int = 0
    deleting: int = 0
    abandoning: int = 0
    restarting: int = 0
    refreshing: int = 0
    verifying: int = 0
    stopping: int = 0
    suspending: int = 0
    starting: int = 0
    resuming: int = 0

    @property
    def total(self) -> int:
        return sum(getattr(self, name) for name in self.__struct_fields__)


class UpdatePolicy(Shape, frozen=True, kw_only=True):
    kind: str = field(default="", name="type")
    instance_redistribution_type: str = ""


class SpreadZone(Shape, frozen=True, kw_only=True):
    """A zone of a regional group, by its URL."""

    zone: str = ""


class DistributionPolicy(Shape, frozen=True, kw_only=True):
    """The zones of a regional group. ``target_shape`` says how its machines are spread over them."""

    zones: tuple[SpreadZone, ...] = ()
    target_shape: str = ""


class ManagerStatus(Shape, frozen=True, kw_only=True):
    autoscaler: str = ""


class Manager(Shape, frozen=True, kw_only=True):
    """An instance group manager: the size and the settings of a group."""

    name: str
    zone: str = ""
    base_instance_name: str = ""
    target_size: int = 0
    target_suspended_size: int = 0
    target_stopped_size: int = 0
    instance_template: str = ""
    versions: tuple[Version, ...] = ()
    current_actions: ActionCounts = ActionCounts()
    status: ManagerStatus = ManagerStatus()
    update_policy: UpdatePolicy = UpdatePolicy()
    distribution_policy: DistributionPolicy = DistributionPolicy()

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones of a regional group, by name; none for a zonal one."""
        return tuple(one.zone.rpartition("/")[2] for one in self.distribution_policy.zones)

    @property
    def target(self) -> int:
        """The number of requested machines, including suspended and stopped ones."""
        return self.target_size + self.target_suspended_size + self.target_stopped_size

    @property
    def template_url(self) -> str:
        """The template of the next instance."""
        newest = self.versions[-1].instance_template if self.versions else ""
        return self.instance_template or newest

    @property
    def only_template(self) -> str:
        """The name of the template of all new instances; empty: it is not known, or there are several versions."""
        return template_name(self.template_url) if len(self.versions) <= 1 else ""


class ErrorItem(Shape, frozen=True, kw_only=True):
    code: str = ""
    message: str = ""


class GroupError(Shape, frozen=True, kw_only=True):
    """An error that a manager met lately; ``timestamp`` in RFC 3339."""

    error: ErrorItem = ErrorItem()
    timestamp: str = ""


class Errors(Shape, frozen=True, kw_only=True):
    errors: tuple[ErrorItem, ...] = ()


class LastAttempt(Shape, frozen=True, kw_only=True):
    errors: Errors = Errors()


class Managed(Shape, frozen=True, kw_only=True):
    """An instance as its manager reports it. Without ``instance_status`` the machine does not exist yet."""

    instance: str = ""
    current_action: str = "NONE"
    instance_status: str = ""
    last_attempt: LastAttempt = LastAttempt()
    version: Version = Version()


class Vm(Shape, frozen=True, kw_only=True):
    """An instance as Compute Engine reports it. Its metadata contain secrets and are not kept."""

    name: str = ""
    self_link: str = ""
    status: str = ""
    created_by: str = ""


class Accelerator(Shape, frozen=True, kw_only=True):
    """Accelerators of a template."""

    kind: str = field(default="", name="acceleratorType")
    count: int = field(default=0, name="acceleratorCount")


class MachineType(Shape, frozen=True, kw_only=True):
    name: str = ""
    guest_cpus: int = 0
    memory_mb: int = 0


class DiskParameters(Shape, frozen=True, kw_only=True):
    disk_size_gb: int = 0
    disk_type: str = ""


class Disk(Shape, frozen=True, kw_only=True):
    kind: str = field(default="", name="type")
    boot: bool = False
    initialize_params: DiskParameters | None = None

    @property
    def is_local_ssd(self) -> bool:
        parameters = self.initialize_params
        return self.kind == "SCRATCH" and parameters is not None and parameters.disk_type == "local-ssd"


class ResizeRequest(Shape, frozen=True, kw_only=True):
    """A request for machines, all or none."""

    name: str = ""
    resize_by: int = 0
    state: str = ""
    status: Raw = {}

    @property
    def complaints(self) -> tuple[ErrorItem, ...]:
        """The errors with which it failed, or which prevent it from being granted so far."""
        last = self.status.get("error") or self.status.get("lastAttempt", {}).get("error") or {}
        return convert(last, Errors).errors


class Operation(Shape, frozen=True, kw_only=True):
    """An operation that Compute Engine carries out in the background."""

    name: str = ""
    status: str = ""
    error: Errors = Errors()

    @property
    def is_done(self) -> bool:
        return self.status == "DONE"


class Preemption(Shape, frozen=True, kw_only=True):
    """An operation of the type ``compute.instances.preempted``."""

    name: str
    target_link: str = ""
    insert_time: str = ""


class Autoscaler(Shape, frozen=True, kw_only=True):
    name: str = ""
    target: str = ""


def convert(answer: Any, kind: type[T]) -> T:
    """Decode the API's JSON, in which 64-bit numbers are strings; raise ProviderUnavailable if it has another form."""
    try:
        return msgspec.convert(answer, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProviderUnavailable(f"unexpected response from Compute Engine: {error}") from None


def read_vm(answer: Raw) -> Vm:
    """Return the instance; of its metadata only the item that names its creator is read."""
    items = answer.get("metadata", {}).get("items", ())
    created_by = next((item.get("value", "") for item in items if item.get("key") == "created-by"), "")
    whole = {name: answer[name] for name in ("name", "selfLink", "status") if name in answer}
    return convert({**whole, "createdBy": created_by}, Vm)
