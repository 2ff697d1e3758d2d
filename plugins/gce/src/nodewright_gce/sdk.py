"""Implements the calls of ``api.py`` with google-cloud-compute.

The SDK does not retry (``retry=None``): the core repeats reads and settles writes, and retries at two levels would
multiply. Every call has a time limit. Operations are awaited with our own client: the SDK's own waiting ignores the
configured endpoint and the errors with which an operation ended.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from nodewright.spec import ApiCalls, Clock, NodeGroupNotFound, ProviderError
from nodewright.spec.exchanges import Exchanges
from nodewright.spec.meter import Meter
from nodewright_gce.clients import Clients
from nodewright_gce.errors import NOT_FOUND, TOO_SLOW, failed_operation
from nodewright_gce.kube_env import Template, read_template
from nodewright_gce.options import Options
from nodewright_gce.refs import Place, Ref, TemplateRef
from nodewright_gce.shapes import (
    Autoscaler,
    GroupError,
    MachineType,
    Managed,
    Manager,
    Operation,
    Preemption,
    Raw,
    ResizeRequest,
    Vm,
    convert,
    read_vm,
)

T = TypeVar("T")

_PAGE = 500
_PREEMPTED = 'operationType="compute.instances.preempted"'
_WAIT_SECONDS = 1.0
# Metadata contain each machine's whole kube-env. A server without field masks sends them; they are dropped then.
_VM_MASK = (("x-goog-fieldmask", "items(name,selfLink,status),nextPageToken"),)


class Sdk:
    """Compute Engine through google-cloud-compute. Thread-safe."""

    def __init__(self, options: Options, clock: Clock, exchanges: Exchanges | None = None) -> None:
        self._meter = Meter(clock, options.api_calls_per_minute)
        self._options = options
        self._clock = clock
        self._clients = Clients(options, exchanges)
        self._zones: tuple[str, ...] = options.zones

    def __repr__(self) -> str:
        return f"Sdk(project={self._options.project!r})"

    def made(self) -> Sequence[ApiCalls]:
        return self._meter.made()

    def within(self, seconds: float) -> AbstractContextManager[None]:
        return self._meter.within(seconds)

    def places(self) -> Sequence[Place]:
        project = self._clients.project()
        if not self._zones:
            region = self._options.region
            self._zones = self._zones_of(project, region) if region else (self._clients.own_zone(),)
        return [Place(project, zone) for zone in self._zones]

    # Groups and machines: reads

    def managers(self, place: Place) -> Sequence[Manager]:
        if place.is_regional:
            return self.regional_managers(place.project, place.zone)
        pages = self._pages("instanceGroupManagers.list", place._asdict())
        return [convert(item, Manager) for page in pages for item in page.get("items", ())]

    def manager(self, ref: Ref, *, urgent: bool = False) -> Manager:
        answer = self._of_group(ref, _of_managers(ref, "get"), _named(ref), urgent=urgent)
        return convert(answer, Manager)

    def managed(self, ref: Ref, *, urgent: bool = False) -> Sequence[Managed]:
        operation, asked = _of_managers(ref, "listManagedInstances"), _named(ref)
        try:
            pages = list(self._pages(operation, asked, urgent=urgent))
        except ProviderError as error:
            raise _as_of_group(ref, error) from error
        return [convert(item, Managed) for page in pages for item in page.get("managedInstances", ())]

    def vms(self, place: Place) -> Sequence[Vm]:
        pages = self._pages("instances.list", place._asdict(), metadata=_VM_MASK)
        return [read_vm(item) for page in pages for item in page.get("items", ())]

    # Writes

    def create(self, ref: Ref, names: Sequence[str], request_id: str) -> None:
        body = {"instances": [{"name": name} for name in names]}
        asked = {
            **_named(ref),
            f"{_prefix(ref, 'region_')}instance_group_managers_create_instances_request_resource": body,
            "request_id": request_id,
        }
        self._write(ref, _of_managers(ref, "createInstances"), asked)

    def delete(self, ref: Ref, instances: Sequence[Ref], request_id: str) -> None:
        body = {
            "instances": [one.instance_path for one in instances],
            "skip_instances_on_validation_error": True,
        }
        asked = {
            **_named(ref),
            f"{_prefix(ref, 'region_')}instance_group_managers_delete_instances_request_resource": body,
            "request_id": request_id,
        }
        self._write(ref, _of_managers(ref, "deleteInstances"), asked)

    def request_resize(self, ref: Ref, name: str, count: int, request_id: str) -> None:
        body: Raw = {"name": name, "resize_by": count}
        if self._options.atomic_run_duration > 0:
            body["requested_run_duration"] = {"seconds": int(self._options.atomic_run_duration)}
        asked = {
            **_named(ref),
            "instance_group_manager_resize_request_resource": body,
            "request_id": request_id,
        }
        self._write(ref, "instanceGroupManagerResizeRequests.insert", asked)

    def resize_request(self, ref: Ref, name: str) -> ResizeRequest | None:
        asked = {**_named(ref), "resize_request": name}
        try:
            return convert(self._ask("instanceGroupManagerResizeRequests.get", asked, urgent=True), ResizeRequest)
        except ProviderError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def resize_requests(self, ref: Ref) -> Sequence[ResizeRequest]:
        pages = self._pages("instanceGroupManagerResizeRequests.list", _named(ref))
        return [convert(item, ResizeRequest) for page in pages for item in page.get("items", ())]

    def cancel_resize(self, ref: Ref, name: str) -> None:
        asked = {**_named(ref), "resize_request": name}
        self._write(ref, "instanceGroupManagerResizeRequests.cancel", asked)

    # Machine data

    def template(self, ref: TemplateRef) -> Template:
        asked = {"project": ref.project, "instance_template": ref.name}
        if ref.region:
            return read_template(self._ask("regionInstanceTemplates.get", {**asked, "region": ref.region}))
        return read_template(self._ask("instanceTemplates.get", asked))

    def machine_type(self, place: Place, name: str) -> MachineType:
        try:
            return convert(self._ask("machineTypes.get", {**place._asdict(), "machine_type": name}), MachineType)
        except ProviderError as error:
            if error.code == NOT_FOUND:
                raise ProviderError(f"{place.zone} has no machine type {name}", code="unknownType") from error
            raise

    # Interruptions

    def preemptions(self, place: Place) -> Sequence[Preemption]:
        asked = {**place._asdict(), "filter": _PREEMPTED, "order_by": "creationTimestamp desc", "max_results": _PAGE}
        return [convert(item, Preemption) for item in self._ask("zoneOperations.list", asked).get("items", ())]

    # Permissions and other writers

    def granted(self, project: str, permissions: Sequence[str]) -> Collection[str]:
        def ask() -> Collection[str]:
            return self._clients.granted(project, permissions)

        return self._meter.call("projects.testIamPermissions", ask)

    def autoscalers(self, place: Place) -> Sequence[Autoscaler]:
        pages = self._pages("autoscalers.list", place._asdict())
        return [convert(item, Autoscaler) for page in pages for item in page.get("items", ())]

    def group_errors(self, ref: Ref) -> Sequence[GroupError]:
        answer = self._ask(_of_managers(ref, "listErrors"), {**_named(ref), "max_results": _PAGE})
        found = [convert(item, GroupError) for item in answer.get("items", ())]
        return sorted(found, key=lambda one: one.timestamp, reverse=True)

    def regional_managers(self, project: str, region: str) -> Sequence[Manager]:
        pages = self._pages("regionInstanceGroupManagers.list", {"project": project, "region": region})
        return [convert(item, Manager) for page in pages for item in page.get("items", ())]

    # Helpers

    def _zones_of(self, project: str, region: str) -> tuple[str, ...]:
        try:
            answer = self._ask("regions.get", {"project": project, "region": region})
        except ProviderError as error:
            if error.code == NOT_FOUND:
                message = f"options of provider gce: region: {project} has no region {region}"
                raise ProviderError(message, code="unknownRegion") from error
            raise
        return tuple(sorted(url.rpartition("/")[2] for url in answer.get("zones", ())))

    def _pages(self, operation: str, asked: Mapping[str, Any], *, urgent: bool = False, **how: Any) -> Iterator[Raw]:
        token = ""
        while True:
            answer = self._ask(
                operation, _non_empty({**asked, "max_results": _PAGE, "page_token": token}), urgent, **how
            )
            yield answer
            token = answer.get("nextPageToken", "")
            if not token:
                return

    def _of_group(self, ref: Ref, operation: str, asked: Mapping[str, Any], *, urgent: bool) -> Raw:
        try:
            return self._ask(operation, asked, urgent)
        except ProviderError as error:
            raise _as_of_group(ref, error) from error

    def _write(self, ref: Ref, operation: str, asked: Mapping[str, Any]) -> None:
        done = convert(self._of_group(ref, operation, asked, urgent=True), Operation)
        ends = self._clock.now() + self._options.operation_timeout
        while not done.is_done:
            if self._clock.now() >= ends:
                raise ProviderError(f"{operation} of {ref.name} is not done yet: {done.name}", code=TOO_SLOW)
            where = {**_where(ref), "operation": done.name}
            waiting = f"{_prefix(ref, 'region', 'zone')}Operations.wait"
            done = convert(self._ask(waiting, where, urgent=True), Operation)
            if not done.is_done:
                self._clock.sleep(_WAIT_SECONDS)
        if done.error.errors:
            raise failed_operation(operation, done.error.errors)

    def _ask(self, operation: str, asked: Mapping[str, Any], urgent: bool = False, **how: Any) -> Raw:
        call: Callable[[], Raw] = lambda: self._clients.call(operation, asked, **how)  # noqa: E731 - one expression
        return self._meter.call(operation, call, urgent=urgent)


def _prefix(ref: Ref, regional: str, zonal: str = "") -> str:
    """Return the part of a name in the API that tells regional groups from zonal ones."""
    return regional if ref.place.is_regional else zonal


def _of_managers(ref: Ref, operation: str) -> str:
    """Return the API's name of an operation on the group."""
    return f"{_prefix(ref, 'regionI', 'i')}nstanceGroupManagers.{operation}"


def _where(ref: Ref) -> dict[str, Any]:
    return {"project": ref.project, _prefix(ref, "region", "zone"): ref.zone}


def _named(ref: Ref) -> dict[str, Any]:
    return {**_where(ref), "instance_group_manager": ref.name}


def _non_empty(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty."""
    return {name: value for name, value in asked.items() if value != ""}


def _as_of_group(ref: Ref, error: ProviderError) -> ProviderError:
    """Return NodeGroupNotFound if the call found nothing: the group does not exist; otherwise the error."""
    if error.code != NOT_FOUND:
        return error
    return NodeGroupNotFound(f"there is no instance group manager {ref.name} in {ref.project}, {ref.zone} ({error})")
