"""Scale sets and their machines, as functions of time: what is asked for, what comes of it, and what Azure says."""

import itertools
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import Any, NamedTuple
from uuid import uuid4

_PROFILE: dict[str, Any] = {
    "priority": "Regular",
    "osProfile": {"computerNamePrefix": "node", "linuxConfiguration": {"disablePasswordAuthentication": True}},
    "storageProfile": {
        "osDisk": {
            "createOption": "FromImage",
            "diskSizeGB": 128,
            "osType": "Linux",
            "managedDisk": {"storageAccountType": "Premium_LRS"},
        }
    },
}


class Trouble(NamedTuple):
    """Why Azure could not do something, in its words."""

    code: str
    message: str


STOCK_OUT = Trouble(
    "AllocationFailed",
    "Allocation failed. We do not have sufficient capacity for the requested VM size in this region.",
)
BOOTSTRAP_FAILED = "VMExtensionProvisioningFailed"


@dataclass
class Vm:
    """One machine. ``born``, ``ready_at`` and ``gone_at`` are epoch seconds.

    ``trouble`` is why it could not be created, ``mishap`` why its last operation failed although it was.
    """

    number: str
    born: float
    ready_at: float
    trouble: Trouble | None = None
    mishap: Trouble | None = None
    power: str = "running"
    state: str = ""
    deleted_at: float = inf
    gone_at: float = inf
    vm_id: str = field(default_factory=lambda: str(uuid4()))
    image: dict[str, Any] | None = None
    zone: str = ""

    def exists(self, at: float) -> bool:
        return self.born <= at < self.gone_at

    def counts(self, at: float) -> bool:
        """Does it fill the capacity?"""
        return self.born <= at < self.deleted_at

    def provisioning(self, at: float) -> str:
        if at >= self.deleted_at:
            return "Deleting"
        if self.trouble is not None or self.mishap is not None:
            return "Failed"
        return self.state or ("Succeeded" if at >= self.ready_at else "Creating")

    def statuses(self, at: float) -> list[dict[str, Any]]:
        """The instance view's words."""
        said, bad = self.provisioning(at), self.trouble or self.mishap
        code = f"ProvisioningState/{said.lower()}" + (f"/{bad.code}" if bad is not None else "")
        first = {"code": code, "level": "Error" if bad is not None else "Info", "displayStatus": said}
        if bad is not None:
            first["message"] = bad.message
        power = "deallocated" if self.trouble is not None else "starting" if said == "Creating" else self.power
        return [first, {"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"}]

    def extensions(self) -> list[dict[str, Any]]:
        """The instance view's words about extensions, of which only the bootstrap's failure is told."""
        if self.mishap is None or self.mishap.code != BOOTSTRAP_FAILED:
            return []
        failed = {"code": "ProvisioningState/failed/1", "level": "Error", "message": self.mishap.message}
        return [{"name": "vmssCSE", "statuses": [failed]}]


class ScaleSet:
    """``held``: machines that are asked for come only when they are told to. ``room``: for so many there are machines."""

    def __init__(self, body: dict[str, Any], now: Callable[[], float]) -> None:
        self._now = now
        self._numbers = itertools.count()
        self._etag = itertools.count(1)
        self.vms: list[Vm] = []
        self.held = False
        self.room = inf
        self.shortage = STOCK_OUT
        self.leaves = "failed"  # what a machine that cannot be had leaves: failed, missing, or nothing (rolled back)
        self.boot_seconds = 0.0
        self.delete_seconds = 30.0
        self.trouble: Trouble | None = None
        self._busy_until = -inf
        self._body = body
        self.history: list[tuple[float, dict[str, Any]]] = []
        self._revise()

    # What is there

    @property
    def id(self) -> str:
        found: str = self._body["id"]
        return found

    @property
    def capacity(self) -> int:
        found: int = self._body["sku"]["capacity"]
        return found

    @property
    def etag(self) -> str:
        found: str = self._body["etag"]
        return found

    @property
    def is_flexible(self) -> bool:
        return bool(self._body["properties"]["orchestrationMode"] == "Flexible")

    @property
    def image(self) -> dict[str, Any] | None:
        """The image of new machines."""
        profile = self._body["properties"].get("virtualMachineProfile", {})
        found: dict[str, Any] | None = profile.get("storageProfile", {}).get("imageReference")
        return found

    def use_image(self, **reference: str) -> None:
        """An operator or AKS changes the image of new machines."""
        profile = deepcopy(self._body["properties"]["virtualMachineProfile"])
        profile["storageProfile"]["imageReference"] = reference
        self.touch(virtualMachineProfile=profile)

    def storage(self, vm: Vm) -> dict[str, Any]:
        """What Azure tells of a machine's disks."""
        return {"storageProfile": {"imageReference": vm.image}} if vm.image is not None else {}

    def missing(self) -> int:
        return self.capacity - sum(vm.counts(self._now()) for vm in self.vms)

    def existing(self, at: float) -> Iterator[Vm]:
        return (vm for vm in self.vms if vm.exists(at))

    def body(self, at: float) -> dict[str, Any]:
        """As Azure would have told it then."""
        self.settle()
        before = [body for moment, body in self.history if moment <= at]
        return before[-1] if before else self.history[0][1]

    def vm_id(self, vm: Vm) -> str:
        """A machine's id in Azure."""
        head, _, name = self.id.rpartition("/virtualMachineScaleSets/")
        return (
            f"{head}/virtualMachines/{name}_{vm.number}"
            if self.is_flexible
            else f"{self.id}/virtualMachines/{vm.number}"
        )

    # What happens

    def resize(self, capacity: int) -> None:
        """An operator writes the capacity. Azure picks who goes when it falls below what is there."""
        self.trouble = None
        now = self._now()
        there = [vm for vm in self.vms if vm.counts(now)]
        for vm in there[capacity:]:
            self._leave(vm)
        self._body["sku"]["capacity"] = capacity
        while not self.held and self.missing() > 0 and len([vm for vm in self.vms if vm.counts(now)]) < self.room:
            self._start()
        self._revise(busy=True)
        if not self.held and self.missing() > 0:
            self._fall_short()

    def arrive(self) -> Vm:
        """One machine that was asked for is there."""
        vm = self._start()
        self._revise()
        return vm

    def fail(self, trouble: Trouble | None = None) -> None:
        """One machine that was asked for cannot be had."""
        now = self._now()
        self.trouble = trouble or self.shortage
        if self.leaves == "failed":
            self.vms.append(Vm(str(next(self._numbers)), now, now, trouble=self.trouble))
        elif self.leaves == "nothing":
            self._body["sku"]["capacity"] -= 1
        self._revise()

    def delete(self, numbers: list[str]) -> list[str]:
        """All of them, or those that are not there."""
        now = self._now()
        there = {(self.vm_id(vm).rpartition("/")[2]): vm for vm in self.vms if vm.counts(now)}
        gone = [number for number in numbers if number not in there]
        if not gone:
            for number in numbers:
                self._leave(there[number])
            self._body["sku"]["capacity"] -= len(numbers)
            self.trouble = None
            self._revise()
        return gone

    def vanish(self, vm: Vm) -> None:
        """Azure takes a machine back (a spot eviction): it and its place are gone at once."""
        vm.deleted_at = vm.gone_at = self._now()
        self._body["sku"]["capacity"] -= 1
        self._revise()

    def touch(self, **properties: Any) -> None:
        """An operator changes something else than the capacity."""
        self._body["properties"] |= properties
        self._revise()

    def settle(self) -> None:
        """What came to its end by itself."""
        if self._body["properties"]["provisioningState"] != self._state():
            self._revise()

    def _start(self) -> Vm:
        now = self._now()
        vm = Vm(str(next(self._numbers)), now, now + self.boot_seconds, image=self.image, zone=self._next_zone())
        self.vms.append(vm)
        self._busy_until = max(self._busy_until, vm.ready_at)
        return vm

    def _next_zone(self) -> str:
        """Azure adds machines to the zones that need more for the set to be balanced."""
        now = self._now()
        zones: list[str] = self._body.get("zones") or [""]
        return min(zones, key=lambda zone: sum(vm.zone == zone for vm in self.vms if vm.counts(now)))

    def _leave(self, vm: Vm) -> None:
        vm.deleted_at = self._now()
        vm.gone_at = vm.deleted_at + self.delete_seconds

    def _fall_short(self) -> None:
        for _ in range(self.missing()):
            self.fail()

    def _state(self) -> str:
        if (self.held and self.missing() > 0) or self._now() < self._busy_until:
            return "Updating"
        return "Failed" if self.trouble is not None else "Succeeded"

    def _revise(self, *, busy: bool = False) -> None:
        """A new etag for everything that changed."""
        self._body["etag"] = f'"{next(self._etag)}"'
        self._body["properties"]["provisioningState"] = "Updating" if busy else self._state()
        self.history.append((self._now(), deepcopy(self._body)))


def make_set(place: str, name: str, now: Callable[[], float], settings: dict[str, Any]) -> ScaleSet:
    """``place`` is the resource group's id; ``settings`` replace what a set of that kind usually says."""
    body = {
        "id": f"{place}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}",
        "name": name,
        "type": "Microsoft.Compute/virtualMachineScaleSets",
        "location": "eastus",
        "zones": ["1"],
        **{key: value for key, value in settings.items() if key not in ("size", "properties")},
        "sku": {"name": settings.get("size", "Standard_D2s_v3"), "tier": "Standard", "capacity": 0},
        "properties": {
            "orchestrationMode": "Uniform",
            "provisioningState": "Succeeded",
            "overprovision": False,
            "singlePlacementGroup": False,
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": deepcopy(_PROFILE),
            **settings.get("properties", {}),
        },
    }
    return ScaleSet(body, now)
