"""What a case lets happen before a loop."""

from collections.abc import Callable, Mapping
from typing import Any

from runonce.world import Machine, World, set_ready

Event = Mapping[str, Any]


def apply_event(world: World, event: Event, now: float) -> None:
    """Raises KeyError for an event of an unknown type."""
    _EVENTS[event["type"]](world, event, now)


def _apply(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    world.apply(event["object"])


def _delete(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    world.remove(event["kind"], event.get("namespace", ""), event["name"])


def _bind(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    namespace, _, name = event["pod"].partition("/")
    pod = world.find("Pod", namespace, name)
    if pod is not None:
        world.apply(
            {
                **pod,
                "spec": {**pod["spec"], "nodeName": event["node"]},
                "status": {**_without_conditions(pod), "phase": "Running"},
            }
        )


def _without_conditions(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in pod.get("status", {}).items() if key != "conditions"}


def _set_ready(world: World, event: Event, now: float) -> None:
    node = world.find("Node", "", event["node"])
    if node is not None:
        set_ready(node, event["status"], now)


def _set_provisioning(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    world.groups[event["group"]].provisioning = event["provisioning"]


def _set_target_size(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    world.groups[event["group"]].target = event["size"]


def _set_limits(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    group = world.groups[event["group"]]
    group.min_size, group.max_size = event["minSize"], event["maxSize"]


def _set_instance(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    wanted = event["instance"]
    machine = world.groups[event["group"]].machines.setdefault(wanted["id"], Machine(wanted["id"]))
    machine.state, machine.error = wanted["state"], wanted.get("error")


def _remove_instance(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    world.groups[event["group"]].machines.pop(event["name"], None)


def _set_status_writes(world: World, event: Event, now: float) -> None:  # noqa: ARG001 - one signature for all events
    world.refused_writes = event["writes"]


_EVENTS: Mapping[str, Callable[[World, Event, float], None]] = {
    "apply": _apply,
    "delete": _delete,
    "bind": _bind,
    "setReady": _set_ready,
    "setProvisioning": _set_provisioning,
    "setTargetSize": _set_target_size,
    "setLimits": _set_limits,
    "setInstance": _set_instance,
    "removeInstance": _remove_instance,
    "setStatusWrites": _set_status_writes,
}
