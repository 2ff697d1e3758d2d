"""A managed instance group: named machines, on their way, there or going; and how the API tells of them."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Raw = dict[str, Any]
API = "https://www.googleapis.com/compute/v1"


class Name(NamedTuple):
    """A group or an instance. The zone of a regional group is its region."""

    project: str
    zone: str
    name: str

    @property
    def is_regional(self) -> bool:
        return self.zone[-1:].isdigit()

    @property
    def place(self) -> str:
        return f"{API}/projects/{self.project}/{'regions' if self.is_regional else 'zones'}/{self.zone}"

    @property
    def group_id(self) -> str:
        return f"{self.place}/instanceGroups/{self.name}"

    @property
    def provider_id(self) -> str:
        return f"gce://{self.project}/{self.zone}/{self.name}"


@dataclass
class Slot:
    """One named unit of a group's size. ``failure`` is (code, message) of the last attempt to create its machine.

    ``is_starting``: there is a machine, and it does not run yet. ``template``: that of its version; empty: the group's.
    """

    name: str
    number: int
    is_there: bool = False
    is_starting: bool = False
    gone_at: float | None = None
    failure: tuple[str, str] | None = None
    recreating: bool = False
    template: str = ""
    status: str = "RUNNING"
    zone: str = ""

    @property
    def is_going(self) -> bool:
        return self.gone_at is not None

    @property
    def action(self) -> str:
        if self.is_going:
            return "DELETING"
        if self.recreating:
            return "RECREATING"
        return "NONE" if self.is_there else "CREATING"


@dataclass
class Mig:
    """``room``: so many machines can be had, others fail with ``complaint``, or never come. ``held``: machines come only when they are told to.

    ``requested``: the slots of each resize request, by its name.
    """

    ref: Name
    template: str
    base: str
    held: bool = False
    room: int | None = None
    complaint: tuple[str, str] | None = None
    settings: Raw = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    resize_requests: dict[str, Raw] = field(default_factory=dict)
    takes_resize_requests: bool = True
    fails_requests: tuple[str, str] | None = None
    requested: dict[str, tuple[str, ...]] = field(default_factory=dict)
    zones: tuple[str, ...] = ()
    errors: list[Raw] = field(default_factory=list)

    @property
    def living(self) -> list[Slot]:
        return [slot for slot in self.slots.values() if not slot.is_going]

    @property
    def target(self) -> int:
        return len(self.living)

    @property
    def machines(self) -> frozenset[str]:
        """Provider ids of the machines that exist and stay."""
        there = (slot for slot in self.living if slot.is_there or slot.is_starting)
        return frozenset(self.instance(slot).provider_id for slot in there)

    def instance(self, slot: Slot) -> Name:
        return self.ref._replace(name=slot.name, zone=slot.zone or self.ref.zone)

    @property
    def next_zone(self) -> str:
        """Where a regional group, whose shape is EVEN, starts its next machine; empty for a zonal one."""
        there = [slot.zone for slot in self.living]
        return min(self.zones, key=there.count, default="")

    def as_manager(self) -> Raw:
        actions = [slot.action for slot in self.slots.values()]
        counts = {name.lower(): actions.count(name) for name in ("NONE", "CREATING", "RECREATING", "DELETING")}
        place = self.ref.place
        spread = [{"zone": f"{API}/projects/{self.ref.project}/zones/{zone}"} for zone in self.zones]
        policy = {"distributionPolicy": {"zones": spread, "targetShape": "EVEN"}, "region": place}
        return {
            "kind": "compute#instanceGroupManager",
            "name": self.ref.name,
            **(policy if self.ref.is_regional else {"zone": place}),
            "selfLink": f"{place}/instanceGroupManagers/{self.ref.name}",
            "instanceGroup": f"{place}/instanceGroups/{self.ref.name}",
            "instanceTemplate": self.template,
            "versions": [{"instanceTemplate": self.template}],
            "baseInstanceName": self.base,
            "targetSize": self.target,
            "currentActions": counts,
            "status": {"isStable": set(actions) <= {"NONE"}},
            "listManagedInstancesResults": "PAGINATED",
            **self.settings,
        }

    def as_managed(self, slot: Slot) -> Raw:
        zone = f"{API}/projects/{self.ref.project}/zones/{slot.zone or self.ref.zone}"
        told: Raw = {
            "instance": f"{zone}/instances/{slot.name}",
            "name": slot.name,
            "currentAction": slot.action,
            "version": {"instanceTemplate": slot.template or self.template},
        }
        if slot.is_there:
            told |= {"id": str(slot.number), "instanceStatus": "STOPPING" if slot.is_going else slot.status}
        elif slot.is_starting:
            told |= {"id": str(slot.number), "instanceStatus": "STOPPING" if slot.is_going else "STAGING"}
        if slot.failure is not None:
            code, message = slot.failure
            told["lastAttempt"] = {"errors": {"errors": [{"code": code, "message": message}]}}
        return told

    def as_vm(self, slot: Slot, secret: str) -> Raw:
        zone = f"{API}/projects/{self.ref.project}/zones/{self.ref.zone}"
        owner = f"projects/123456/zones/{self.ref.zone}/instanceGroupManagers/{self.ref.name}"
        items = [{"key": "created-by", "value": owner}, {"key": "kube-env", "value": secret}]
        return {
            "name": slot.name,
            "id": str(slot.number),
            "selfLink": f"{zone}/instances/{slot.name}",
            "zone": zone,
            "status": "STOPPING" if slot.is_going else "RUNNING",
            "metadata": {"items": items},
        }
