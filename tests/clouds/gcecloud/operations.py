"""How each operation of the API is answered from the state of the cloud. What happens when is ours, after Google's documentation."""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gcecloud.group import API, Mig, Name, Raw, Slot
from gcecloud.server import Answer, refuse

STOCK_OUT = (
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
    "The zone 'projects/proj/zones/us-east1-b' does not have enough resources available to fulfill the request.",
)
# cpus and MiB of some machine types
MACHINES: Mapping[str, tuple[int, int]] = {
    "c2-standard-16": (16, 65536),
    "e2-medium": (2, 4096),
    "e2-standard-2": (2, 8192),
    "n1-standard-1": (1, 3840),
    "n1-standard-4": (4, 15360),
    "n2-highmem-4": (4, 32768),
    "n2-standard-8": (8, 32768),
}
_NAMES = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_PAGE = 500


@dataclass
class Operation:
    """Something that is done by and by. ``effect`` takes place when it is over."""

    name: str
    kind: str
    done_at: float
    effect: Callable[[], None]
    error: tuple[str, str] | None = None
    is_over: bool = False


@dataclass
class State:
    """All that there is."""

    now: Callable[[], float]
    migs: dict[Name, Mig] = field(default_factory=dict)
    templates: dict[str, Raw] = field(default_factory=dict)
    zones: dict[str, list[str]] = field(default_factory=dict)
    regional: list[Raw] = field(default_factory=list)
    autoscalers: list[Raw] = field(default_factory=list)
    preemptions: list[Raw] = field(default_factory=list)
    operations: dict[str, Operation] = field(default_factory=dict)
    requests: dict[str, Operation] = field(default_factory=dict)
    # A group's size grows when a resize request is made; False: when it is granted. Google's description allows both.
    grows_at_request: bool = True
    operation_seconds: float = 0.0
    deletion_seconds: float = 60.0
    honours_masks: bool = True
    operation_error: tuple[str, str] | None = None
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1000))

    def settle(self) -> None:
        """What is due by now takes place."""
        for operation in self.operations.values():
            if not operation.is_over and operation.done_at <= self.now():
                operation.is_over = True
                if operation.error is None:
                    operation.effect()
        for mig in self.migs.values():
            for request in mig.resize_requests.values():
                self._grant(mig, request)
            mig.slots = {
                name: slot for name, slot in mig.slots.items() if slot.gone_at is None or slot.gone_at > self.now()
            }

    def _grant(self, mig: Mig, request: Raw) -> None:
        """A request that was accepted waits until there is room for all of its machines."""
        there = sum(slot.is_there for slot in mig.slots.values())
        name, count = request["name"], request["resizeBy"]
        if request["state"] == "ACCEPTED" and (mig.room is None or there + count <= mig.room):
            request["state"] = "SUCCEEDED"
            for slot in self._requested(mig, name, count):
                slot.is_there = not mig.held
        elif request["state"] == "ACCEPTED" and mig.fails_requests is not None:
            code, message = mig.fails_requests
            error = {"errors": [{"code": code, "message": message}]}
            request |= {"state": "FAILED", "status": {"error": error}}
        elif request["state"] == "ACCEPTED" and self.grows_at_request:
            self._requested(mig, name, count)
        if request["state"] in ("FAILED", "CANCELLED"):
            for one in mig.requested.pop(name, ()):
                mig.slots.pop(one, None)

    def _requested(self, mig: Mig, request: str, count: int) -> list[Slot]:
        """The slots of a request that are still in the group; they are made if there are none yet."""
        if request not in mig.requested:
            names = tuple(f"{mig.base}-r{next(self.numbers)}" for _ in range(count))
            mig.slots |= {name: Slot(name=name, number=next(self.numbers), zone=mig.next_zone) for name in names}
            mig.requested[request] = names
        return [mig.slots[name] for name in mig.requested[request] if name in mig.slots]

    def add_slot(self, mig: Mig, name: str) -> None:
        """A unit more; its machine is there at once unless it is held back or there is no room."""
        slot = Slot(name=name, number=next(self.numbers), zone=mig.next_zone)
        mig.slots[name] = slot
        there = sum(one.is_there for one in mig.slots.values())
        if not mig.held and (mig.room is None or there < mig.room):
            slot.is_there = True
        elif not mig.held:
            slot.failure = mig.complaint

    def remove_slot(self, mig: Mig, name: str) -> None:
        """A machine takes its time to go; what never came goes at once."""
        slot = mig.slots[name]
        slot.gone_at = self.now() + (self.deletion_seconds if slot.is_there else 0.0)


class Operations:
    """Answers calls; ``asked`` holds all parameters and the body under the API's names."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._plays: Mapping[str, Callable[[Raw], Answer]] = {
            "autoscalers.list": lambda asked: _page(asked, self._in_zone(asked, state.autoscalers)),
            "instanceGroupManagers.list": self._list_managers,
            "instanceGroupManagers.get": lambda asked: Answer(200, self._mig(asked).as_manager()),
            "instanceGroupManagers.listManagedInstances": self._list_managed,
            "instanceGroupManagers.listErrors": lambda asked: _page(asked, self._mig(asked).errors),
            "instanceGroupManagers.createInstances": self._create,
            "instanceGroupManagers.deleteInstances": self._delete,
            "instanceGroupManagerResizeRequests.insert": self._request_resize,
            "instanceGroupManagerResizeRequests.get": self._get_request,
            "instanceGroupManagerResizeRequests.list": lambda asked: _page(
                asked, list(self._mig(asked).resize_requests.values())
            ),
            "instanceGroupManagerResizeRequests.cancel": self._cancel_request,
            "instances.list": self._list_vms,
            "instanceTemplates.get": lambda asked: self._template(f"global/{asked['instanceTemplate']}"),
            "machineTypes.get": self._machine_type,
            "regionInstanceGroupManagers.list": lambda asked: _page(asked, self._in_region(asked)),
            "regionInstanceGroupManagers.get": lambda asked: Answer(200, self._mig(asked).as_manager()),
            "regionInstanceGroupManagers.listManagedInstances": self._list_managed,
            "regionInstanceGroupManagers.listErrors": lambda asked: _page(asked, self._mig(asked).errors),
            "regionInstanceGroupManagers.createInstances": self._create,
            "regionInstanceGroupManagers.deleteInstances": self._delete,
            "regionOperations.wait": self._wait,
            "regionInstanceTemplates.get": lambda asked: self._template(
                f"{asked['region']}/{asked['instanceTemplate']}"
            ),
            "regions.get": self._region,
            "zoneOperations.list": lambda asked: _page(asked, self._in_zone(asked, state.preemptions)),
            "zoneOperations.wait": self._wait,
        }

    def play(self, operation: str, asked: Raw) -> Answer:
        self._state.settle()
        if operation not in self._plays:
            return refuse(501, "notImplemented", f"this cloud does not play {operation}")
        try:
            return self._plays[operation](asked)
        except KeyError as error:
            return refuse(404, "notFound", f"The resource {error} was not found")

    # Groups

    def _mig(self, asked: Raw) -> Mig:
        return self._state.migs[Name(asked["project"], _place_in(asked), asked["instanceGroupManager"])]

    def _in_region(self, asked: Raw) -> list[Raw]:
        place = (asked["project"], asked["region"])
        migs = [mig for ref, mig in sorted(self._state.migs.items()) if (ref.project, ref.zone) == place]
        return [*(mig.as_manager() for mig in migs), *self._state.regional]

    def _in_zone(self, asked: Raw, items: Any) -> list[Any]:
        """Raises KeyError for a zone that does not exist."""
        zone = asked["zone"]
        if zone not in {one for zones in self._state.zones.values() for one in zones}:
            raise KeyError(f"projects/{asked['project']}/zones/{zone}")
        return list(items)

    def _here(self, asked: Raw) -> list[Mig]:
        place = (asked["project"], asked["zone"])
        return [mig for ref, mig in sorted(self._state.migs.items()) if (ref.project, ref.zone) == place]

    def _list_managers(self, asked: Raw) -> Answer:
        return _page(asked, self._in_zone(asked, [mig.as_manager() for mig in self._here(asked)]))

    def _list_managed(self, asked: Raw) -> Answer:
        mig = self._mig(asked)
        return _page(asked, [mig.as_managed(slot) for slot in mig.slots.values()], "managedInstances")

    def _list_vms(self, asked: Raw) -> Answer:
        vms = [mig.as_vm(slot, "TOKEN: x") for mig in self._here(asked) for slot in mig.slots.values() if slot.is_there]
        if self._state.honours_masks:
            vms = [{name: vm[name] for name in ("name", "selfLink", "status")} for vm in vms]
        return _page(asked, self._in_zone(asked, vms))

    # Writes

    def _create(self, asked: Raw) -> Answer:
        mig = self._mig(asked)
        names = [one["name"] for one in _body_of(asked, "CreateInstancesRequestResource")["instances"]]
        wrong = next((name for name in names if not _NAMES.fullmatch(name)), None)
        if wrong is not None or len(names) > 1000:
            return refuse(400, "invalid", f"Invalid value for field 'resource.instances': '{wrong or len(names)}'")
        used = next((name for name in names if name in mig.slots), None)
        if used is not None and asked.get("requestId") not in self._state.requests:
            return refuse(409, "alreadyExists", f"The instance '{used}' already exists")

        def effect() -> None:
            for name in names:
                self._state.add_slot(mig, name)

        return self._start(asked, "createInstances", effect)

    def _delete(self, asked: Raw) -> Answer:
        mig, body = self._mig(asked), _body_of(asked, "DeleteInstancesRequestResource")
        names = [url.rpartition("/")[2] for url in body["instances"]]
        absent = [name for name in names if name not in mig.slots or mig.slots[name].is_going]
        if absent and not body.get("skipInstancesOnValidationError"):
            return refuse(400, "invalid", f"The instance '{absent[0]}' is not a member of the group")

        def effect() -> None:
            for name in names:
                if name in mig.slots and not mig.slots[name].is_going:
                    self._state.remove_slot(mig, name)
            self._state.settle()

        return self._start(asked, "deleteInstances", effect)

    def _start(self, asked: Raw, kind: str, effect: Callable[[], None]) -> Answer:
        """The same request id is answered with the operation that it has begun."""
        request_id = asked.get("requestId", "")
        known = self._state.requests.get(request_id) if request_id else None
        if known is not None:
            return Answer(200, self._told(asked, known))
        error, self._state.operation_error = self._state.operation_error, None
        started = Operation(
            name=f"operation-{next(self._state.numbers)}",
            kind=f"compute.instanceGroupManagers.{kind}",
            done_at=self._state.now() + self._state.operation_seconds,
            effect=effect,
            error=error,
        )
        self._state.operations[started.name] = started
        if request_id:
            self._state.requests[request_id] = started
        self._state.settle()
        return Answer(200, self._told(asked, started))

    def _wait(self, asked: Raw) -> Answer:
        return Answer(200, self._told(asked, self._state.operations[asked["operation"]]))

    def _told(self, asked: Raw, operation: Operation) -> Raw:
        place = Name(asked["project"], _place_in(asked), "").place
        told: Raw = {
            "kind": "compute#operation",
            "name": operation.name,
            "operationType": operation.kind,
            "status": "DONE" if operation.is_over else "RUNNING",
            "progress": 100 if operation.is_over else 0,
            "region" if "region" in asked else "zone": place,
            "selfLink": f"{place}/operations/{operation.name}",
        }
        if operation.is_over and operation.error is not None:
            code, message = operation.error
            told |= {"error": {"errors": [{"code": code, "message": message}]}, "httpErrorStatusCode": 409}
        return told

    # Resize requests: all or nothing

    def _request_resize(self, asked: Raw) -> Answer:
        mig, body = self._mig(asked), asked["instanceGroupManagerResizeRequestResource"]
        if not mig.takes_resize_requests:
            return refuse(400, "invalid", "Resize requests are not supported for this managed instance group")
        template = mig.template.partition("/projects/")[2].partition("/")[2].replace("instanceTemplates/", "")
        scheduling = self._state.templates.get(template, {}).get("properties", {}).get("scheduling", {})
        if not body.get("requestedRunDuration") and not scheduling.get("maxRunDuration"):
            return refuse(
                400, "invalid", "Invalid value for field 'resource.requestedRunDuration': a duration is required"
            )

        def effect() -> None:
            mig.resize_requests[body["name"]] = {**body, "state": "ACCEPTED"}
            self._state.settle()

        return self._start(asked, "resizeRequests", effect)

    def _get_request(self, asked: Raw) -> Answer:
        return Answer(200, self._mig(asked).resize_requests[asked["resizeRequest"]])

    def _cancel_request(self, asked: Raw) -> Answer:
        request = self._mig(asked).resize_requests[asked["resizeRequest"]]
        if request["state"] != "ACCEPTED":
            return refuse(400, "conditionNotMet", f"The resize request is {request['state']}")

        def effect() -> None:
            request["state"] = "CANCELLED"
            self._state.settle()

        return self._start(asked, "cancel", effect)

    # What machines are like

    def _template(self, key: str) -> Answer:
        return Answer(200, self._state.templates[key])

    def _machine_type(self, asked: Raw) -> Answer:
        cpus, memory = MACHINES[asked["machineType"]]
        return Answer(200, {"name": asked["machineType"], "guestCpus": cpus, "memoryMb": memory, "zone": asked["zone"]})

    def _region(self, asked: Raw) -> Answer:
        zones = self._state.zones[asked["region"]]
        urls = [f"{API}/projects/{asked['project']}/zones/{zone}" for zone in zones]
        return Answer(200, {"name": asked["region"], "zones": urls})


def _place_in(asked: Raw) -> str:
    """The zone or the region that is asked about."""
    return str(asked.get("zone") or asked["region"])


def _body_of(asked: Raw, kind: str) -> Raw:
    """The body of a request about a zonal or a regional group."""
    [body] = [value for name, value in asked.items() if name.endswith(kind)]
    return dict(body)


def _page(asked: Raw, items: list[Raw], member: str = "items") -> Answer:
    start, size = int(asked.get("pageToken") or 0), int(asked.get("maxResults") or _PAGE)
    content: Raw = {member: items[start : start + size]}
    if start + size < len(items):
        content["nextPageToken"] = str(start + size)
    return Answer(200, content)
