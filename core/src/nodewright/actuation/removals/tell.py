"""The events of removals (behaviour/down.md A18)."""

from nodewright.actuation.ports import NORMAL, STATUS_KIND, STATUS_NAME, WARNING, Event
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalResult


def started(removal: NodeRemoval) -> tuple[Event, ...]:
    """On the status object what is going to happen, on the node that it is marked."""
    if removal.drains:
        told = f"Scale-down: removing node {removal.node}, utilization: {removal.utilization:.4g}, "
        event = _of_status("ScaleDown", f"{told}pods to reschedule: {', '.join(removal.pods)}")
    else:
        event = _of_status("ScaleDownEmpty", f"Scale-down: removing empty node {removal.node}")
    return event, _of_node(removal.node, "ScaleDown", "marked the node as toBeDeleted/unschedulable")


def ended(over: RemovalEnded) -> Event:
    node, message = over.removal.node, over.message
    match over.result:
        case RemovalResult.OK:
            return _of_node(node, "ScaleDown", "node removed by cluster autoscaler")
        case RemovalResult.FAILED_TO_MARK:
            said = f"failed to mark the node as toBeDeleted/unschedulable: {message}"
        case RemovalResult.FAILED_TO_EVICT:
            said = f"failed to drain the node: {message}"
        case _:
            said = f"failed to delete the node: {message}"
    return _of_node(node, "ScaleDownFailed", said, WARNING)


def evicting(pod: str) -> Event:
    return Event(kind="Pod", name=pod, reason="ScaleDown", message="deleting pod for node scale down")


def not_evicted(pod: str) -> Event:
    message = "failed to delete pod for ScaleDown"
    return Event(kind="Pod", name=pod, reason="ScaleDownFailed", message=message, type=WARNING)


def still_held(node: str) -> Event:
    return _of_node(node, "ScaleDown", "somebody still wants its deletion delayed; it goes on all the same", WARNING)


def cleaned(node: str, key: str) -> Event:
    return _of_node(node, "ClusterAutoscalerCleanup", f"removed {key} taint from node {node}")


def _of_node(name: str, reason: str, message: str, kind: str = NORMAL) -> Event:
    return Event(kind="Node", name=name, reason=reason, message=message, type=kind)


def _of_status(reason: str, message: str) -> Event:
    return Event(kind=STATUS_KIND, name=STATUS_NAME, reason=reason, message=message)
