"""Compute Engine as the cases tell it: every answer is given beforehand."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from nodewright.spec import ApiCalls, NodeGroupNotFound, ProviderContext, ProviderError
from nodewright.testkit import FakeClock
from nodewright_gce.api import Api
from nodewright_gce.kube_env import Template, read_template
from nodewright_gce.provider import GceProvider
from nodewright_gce.refs import HOST, Place, Ref, TemplateRef
from nodewright_gce.shapes import (
    Autoscaler,
    GroupError,
    MachineType,
    Managed,
    Manager,
    Preemption,
    ResizeRequest,
    Vm,
    convert,
)

_TEMPLATE = "the-template"


class AnsweredApi(Api):
    """Answers from the input of one case, which may hold one group."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        mig = given.get("mig", {"project": "proj", "zone": "us-east1-b", "name": "mig"})
        self.ref = Ref(mig["project"], mig["zone"], mig["name"])

    def places(self) -> Sequence[Place]:
        return [self.ref.place]

    def preemptions(self, place: Place) -> Sequence[Preemption]:
        raise NotImplementedError(place)

    def managers(self, place: Place) -> Sequence[Manager]:
        return [self.manager(self.ref)] if place == self.ref.place else []

    def manager(self, ref: Ref, *, urgent: bool = False) -> Manager:
        del urgent
        if ref != self.ref:
            raise NodeGroupNotFound(f"the cases tell of no group {ref.name}")
        size = len(self._given.get("managedInstances", ()))
        url = f"{HOST}/projects/{ref.project}/global/instanceTemplates/{_TEMPLATE}"
        return Manager(name=ref.name, base_instance_name=ref.name, target_size=size, instance_template=url)

    def managed(self, ref: Ref, *, urgent: bool = False) -> Sequence[Managed]:
        del ref, urgent
        return convert(self._given.get("managedInstances", []), list[Managed])

    def vms(self, place: Place) -> Sequence[Vm]:
        raise _untold("vms", place.zone)

    def template(self, ref: TemplateRef) -> Template:
        if ref.name != _TEMPLATE or "instanceTemplate" not in self._given:
            raise _untold("template", ref.name)
        return read_template(self._given["instanceTemplate"])

    def machine_type(self, place: Place, name: str) -> MachineType:
        if "machineType" not in self._given:
            raise ProviderError(f"{place.zone} has no machine type {name}")
        return convert(self._given["machineType"], MachineType)

    # What no case asks for

    def made(self) -> Sequence[ApiCalls]:
        raise _untold("made")

    def within(self, seconds: float) -> AbstractContextManager[None]:
        raise _untold(f"within {seconds}")

    def create(self, ref: Ref, names: Sequence[str], request_id: str) -> None:
        raise _untold("create", ref.name, *names, request_id)

    def delete(self, ref: Ref, instances: Sequence[Ref], request_id: str) -> None:
        raise _untold("delete", ref.name, *(one.name for one in instances), request_id)

    def request_resize(self, ref: Ref, name: str, count: int, request_id: str) -> None:
        raise _untold("request_resize", ref.name, name, str(count), request_id)

    def resize_request(self, ref: Ref, name: str) -> ResizeRequest | None:
        raise _untold("resize_request", ref.name, name)

    def resize_requests(self, ref: Ref) -> Sequence[ResizeRequest]:
        raise _untold("resize_requests", ref.name)

    def cancel_resize(self, ref: Ref, name: str) -> None:
        raise _untold("cancel_resize", ref.name, name)

    def granted(self, project: str, permissions: Sequence[str]) -> Sequence[str]:
        raise _untold("granted", project, *permissions)

    def autoscalers(self, place: Place) -> Sequence[Autoscaler]:
        raise _untold("autoscalers", place.zone)

    def regional_managers(self, project: str, region: str) -> Sequence[Manager]:
        raise _untold("regional_managers", project, region)

    def group_errors(self, ref: Ref) -> Sequence[GroupError]:
        raise _untold("group_errors", ref.name)


def _untold(*call: str) -> ProviderError:
    return ProviderError(f"the cases do not tell what {' '.join(call)} would answer")


def make_provider(api: AnsweredApi, *nodes: str, discoveries: Sequence[str] = ()) -> GceProvider:
    """The plugin as it is, before a cloud that answers from the case."""
    context = ProviderContext(
        clock=FakeClock(),
        random=Random(0),
        options={"refresh_interval": 0},
        node_group_specs=nodes,
        auto_discovery_specs=tuple(discoveries),
    )
    return GceProvider(context, api)
