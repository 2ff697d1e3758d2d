"""Find room for the virtual pods of buffers after all other pods: on existing nodes first, then on new ones."""

from collections import Counter
from collections.abc import Iterable
from random import Random

from nodewright.model.plan import ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.planner.capacity_buffers.controller import CapacityBufferState
from nodewright.planner.growth import Growth, context_after, grow
from nodewright.planner.scale_up.pending_pods import Hints, hint_key, take_fitting
from nodewright.planner.scale_up.planned_nodes import fill_machines

_NOT_YET = "pods or requests that wait for machines come first"
_CUT = "the groups that would help may not grow by enough now"
_MOST_REASONS = 5


def fill_buffers(
    growth: Growth, buffers: CapacityBufferState, hints: Hints, random: Random
) -> tuple[Growth, CapacityBufferState]:
    """Place virtual pods in the snapshot in which removals are planned, and plan nodes for those without room.

    Pending pods and requests are in that snapshot already, so buffers take no room from them. Return the growth for
    buffers, and the buffers with their room.
    """
    nothing = Growth(context=growth.context, reports=[])
    if not buffers.injects:
        return nothing, buffers
    pods = list(buffers.pods)
    after = context_after(growth)
    fitting, left = take_fitting(growth.context.snapshot, pods, hints)
    spare, placed = None, list(fitting)
    if left and after is not None:
        fits, rest = take_fitting(after.snapshot, pods, Hints(before=hints.fresh))
        spare = grow(after, rest, random)
        # Limits may allow fewer nodes than the pods need for which groups grow.
        placed += [*fits, *(pod for report in spare.reports for pod in fill_machines(after, report)[0])]
    held, coming = Counter[str](), Counter[str]()
    for pod in {id(pod): pod for pod in placed}.values():
        (held if hint_key(pod) in hints.fresh else coming)[_owner(pod)] += 1
    missing = [name for name, one in buffers.allocations.items() if len(one.pods) > held[name] + coming[name]]
    return spare or nothing, buffers.with_room(held, coming, _reasons(missing, spare))


def _reasons(missing: Iterable[str], spare: Growth | None) -> dict[str, str]:
    """Return, by the buffer's id, why no node is added for pods that have no room."""
    reasons = dict.fromkeys(missing, _NOT_YET if spare is None else _CUT)
    for report in spare.reports if spare is not None else ():
        for pod in report.awaiting:
            reasons[_owner(pod)] = "another group was chosen in this loop"
        for unhelped in report.unhelped:
            reasons[_owner(unhelped.pod)] = _listed(unhelped.reasons.values(), report)
    return reasons


def _owner(pod: Pod) -> str:
    """Return the id of a virtual pod's buffer."""
    controller = pod.metadata.controller
    assert controller is not None
    return controller.uid


def _listed(reasons: Iterable[object], report: ScaleUpReport) -> str:
    """Return the reasons of all groups, equal ones counted together."""
    counted = sorted(Counter(map(str, reasons)).items())
    more = len(counted) - _MOST_REASONS
    shown = ", ".join(f"{count} {reason}" for reason, count in counted[:_MOST_REASONS])
    return (shown + (f", and {more} more" if more > 0 else "")) or str(report.result)
