"""Writes what buffers stand for into their status, and tells what becomes of their pods (behaviour/up.md §6.1)."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from nodewright.actuation.actor import Ended
from nodewright.actuation.ports import ClusterWrites, Event, status_not_written
from nodewright.model.action import grown_groups, has_refused_growth
from nodewright.model.capacity_buffer import KIND, CapacityBuffer
from nodewright.model.errors import KubeApiError
from nodewright.model.pod import Pod
from nodewright.planner.plan import Plan


def write_buffers(cluster: ClusterWrites, buffers: Iterable[CapacityBuffer]) -> list[Event]:
    """What is not written is written by the next loop; answers which writes failed."""
    events: list[Event] = []
    for buffer in buffers:
        try:
            cluster.write_buffer_status(buffer)
        except KubeApiError as error:
            events.append(status_not_written(KIND, buffer.key, error))
    return events


def buffer_events(plan: Plan, outcomes: Sequence[Ended]) -> Iterator[Event]:
    """In CA's words: for which buffers groups grow, and for which nothing helps."""
    grown = grown_groups(outcomes)
    for report in plan.spare:
        done = " ".join(str(one) for one in report.expansions if one.group in grown)
        for name, count in Counter(map(_owner, report.triggered)).items() if done else ():
            message = f"capacity buffer {count} fake pods triggered scale-up: [{{{done}}}]"
            yield Event(kind=KIND, name=name, reason="TriggeredScaleUp", message=message)
    if grown or has_refused_growth(outcomes):
        return
    unhelped = Counter(_owner(one.pod) for report in plan.spare for one in report.unhelped)
    reasons = {holding.buffer.key: holding.why for holding in plan.buffers.holdings}
    for name, count in unhelped.items():
        message = f"capacity buffer {count} fake pods didn't trigger scale-up: {reasons.get(name, '')}"
        yield Event(kind=KIND, name=name, reason="NotTriggerScaleUp", message=message)


def _owner(pod: Pod) -> str:
    """``namespace/name`` of the buffer of a virtual pod."""
    controller = pod.metadata.controller
    return f"{pod.metadata.namespace}/{controller.name if controller is not None else ''}"
