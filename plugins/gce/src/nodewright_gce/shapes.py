"""What Compute Engine answers, as frozen values: only the members that are used, under the API's own names."""

from typing import Any, TypeVar

import msgspec
from msgspec import field

from nodewright.spec import ProviderUnavailable

Raw = dict[str, Any]
T = TypeVar("T")


class Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of what the API answers; members that are not listed here are passed over."""


class Version(Shape, frozen=True, kw_only=True):
    """Which template some of a group's instances have."""

    instance_template: str = ""


class ActionCounts(Shape, frozen=True, kw_only=True):
    """How many instances of a group the manager does what with."""

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


class ManagerStatus(Shape, frozen=True, kw_only=True):
    autoscaler: str = ""


class Manager(Shape, frozen=True, kw_only=True):
    """An instance group manager: the size and the settings of a group."""

    name: str
    zone: str = ""
    base_instance_name: str = ""
    target_size: int = 0
    target_suspended_size: int = 0
    instance_template: str = ""
    versions: tuple[Version, ...] = ()
    current_actions: ActionCounts = ActionCounts()
    status: ManagerStatus = ManagerStatus()
    update_policy: UpdatePolicy = UpdatePolicy()

    @property
    def target(self) -> int:
        """Machines that are asked for; those that wait suspended are among them."""
        return self.target_size + self.target_suspended_size

    @property
    def template_url(self) -> str:
        """The template of the next instance."""
        newest = self.versions[-1].instance_template if self.versions else ""
        return self.instance_template or newest


class ErrorItem(Shape, frozen=True, kw_only=True):
    code: str = ""
    message: str = ""


class Errors(Shape, frozen=True, kw_only=True):
    errors: tuple[ErrorItem, ...] = ()


class LastAttempt(Shape, frozen=True, kw_only=True):
    errors: Errors = Errors()


class Managed(Shape, frozen=True, kw_only=True):
    """An instance as its manager sees it; without ``instance_status`` there is no machine yet."""

    instance: str = ""
    current_action: str = "NONE"
    instance_status: str = ""
    last_attempt: LastAttempt = LastAttempt()
    version: Version = Version()


class Vm(Shape, frozen=True, kw_only=True):
    """An instance as Compute Engine itself sees it. Its metadata, which hold secrets, are not kept."""

    name: str = ""
    self_link: str = ""
    status: str = ""
    created_by: str = ""


class Accelerator(Shape, frozen=True, kw_only=True):
    """``kind`` as templates name it."""

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
    """All machines of an increase or none."""

    name: str = ""
    resize_by: int = 0
    state: str = ""
    status: Raw = {}

    @property
    def complaints(self) -> tuple[ErrorItem, ...]:
        """Why it failed, or could not be granted so far."""
        last = self.status.get("error") or self.status.get("lastAttempt", {}).get("error") or {}
        return convert(last, Errors).errors


class Operation(Shape, frozen=True, kw_only=True):
    """Something that Compute Engine does by and by."""

    name: str = ""
    status: str = ""
    error: Errors = Errors()

    @property
    def is_done(self) -> bool:
        return self.status == "DONE"


class Autoscaler(Shape, frozen=True, kw_only=True):
    name: str = ""
    target: str = ""


def convert(answer: Any, kind: type[T]) -> T:
    """``answer`` in the API's JSON, where 64-bit numbers are texts."""
    try:
        return msgspec.convert(answer, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ProviderUnavailable(f"Compute Engine answered something unexpected: {error}") from None


def read_vm(answer: Raw) -> Vm:
    """Of the metadata the one item that says who made the instance."""
    items = answer.get("metadata", {}).get("items", ())
    created_by = next((item.get("value", "") for item in items if item.get("key") == "created-by"), "")
    whole = {name: answer[name] for name in ("name", "selfLink", "status") if name in answer}
    return convert({**whole, "createdBy": created_by}, Vm)
