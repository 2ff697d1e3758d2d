"""Kind ``gce-errors``: states and errors of instances, as a group's manager lists them or a whole zone.

CA counts a used-up quota to the class OutOfResources; it has a class of its own here.
"""

from collections.abc import Mapping
from typing import Any

from nodewright.spec import ErrorClass
from nodewright_gce.bulk import owner_of
from nodewright_gce.shapes import Managed, convert, read_vm
from nodewright_gce.states import Machine, read_managed, read_vm_state

_CLASSES = {
    ErrorClass.OUT_OF_RESOURCES: "OutOfResources",
    ErrorClass.QUOTA: "OutOfResources",
    ErrorClass.OTHER: "Other",
}


def check(case: Mapping[str, Any]) -> list[str]:
    given, expected = case["input"], case["expected"]["instances"]
    found = _bulk(given["instances"]) if "instances" in given else _managed(given["managedInstances"])
    return [] if found == expected else [f"expected {expected}, got {found}"]


def _managed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    machines = read_managed(convert(items, list[Managed]))
    return [{**_told(one), "instanceTemplateName": one.template_name} for one in machines]


def _bulk(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    vms = [read_vm(item) for item in items]
    found = [(read_vm_state(vm), owner_of(vm)) for vm in vms]
    return [
        {**_told(one), "instanceGroupManager": owner._asdict() if owner is not None else None}
        for one, owner in found
        if one is not None
    ]


def _told(one: Machine) -> dict[str, Any]:
    error = None
    if one.failure is not None:
        failure = one.failure
        error = {"class": _CLASSES[failure.error_class], "code": failure.reason, "message": failure.message}
    return {"providerId": one.ref.provider_id, "status": {"state": one.state.value, "error": error}}
