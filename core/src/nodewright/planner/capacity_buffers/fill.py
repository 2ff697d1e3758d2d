"""Room for the virtual pods of buffers, after everything else: where it is free, and machines for the rest."""

from collections import Counter
from collections.abc import Iterable
from random import Random

from nodewright.planner.capacity_buffers.desk import CapacityBufferState
from nodewright.planner.plan import ScaleUpReport
from nodewright.planner.scale_up.context import fill_machines
from nodewright.planner.scale_up.growth import Growth, grow, picture_after
from nodewright.planner.scale_up.pending_pods import Hints, hint_key, take_fitting

_IN_TURN = "pods or requests that wait for machines come first"
_CUT = "the groups that would help may not grow by enough now"
_MOST_REASONS = 5


def fill_buffers(growth: Growth, desk: CapacityBufferState, hints: Hints, random: Random) -> Growth:
    """Put virtual pods into the picture that removals are planned in, and plan machines for those without room.

    Real pods and requests are in that picture already, so that no buffer ever takes a place from them.
    """
    nothing = Growth(ground=growth.ground, reports=[])
    if not desk.injects:
        return nothing
    pods = list(desk.pods)
    after = picture_after(growth)
    fitting, left = take_fitting(growth.ground.snapshot, pods, hints)
    spare, placed = None, list(fitting)
    if left and after is not None:
        fits, rest = take_fitting(after.snapshot, pods, Hints(before=hints.fresh))
        spare = grow(after, rest, random)
        # Limits may leave fewer machines than the pods would need for which groups grow.
        placed += [*fits, *(pod for report in spare.reports for pod in fill_machines(after, report)[0])]
    for pod in {id(pod): pod for pod in placed}.values():
        holding = desk.owner(pod)
        if hint_key(pod) in hints.fresh:
            holding.held += 1
        else:
            holding.coming += 1
    _say_why(desk, spare)
    desk.tell_injected()
    return spare or nothing


def _say_why(desk: CapacityBufferState, spare: Growth | None) -> None:
    """Of pods that have no room yet: why none is bought for them."""
    for holding in desk.holdings.values():
        if holding.missing:
            holding.why = _IN_TURN if spare is None else _CUT
    for report in spare.reports if spare is not None else ():
        for pod in report.awaiting:
            desk.owner(pod).why = "another group was chosen in this loop"
        for unhelped in report.unhelped:
            desk.owner(unhelped.pod).why = _listed(unhelped.reasons.values(), report)


def _listed(reasons: Iterable[object], report: ScaleUpReport) -> str:
    """The reasons of all groups, the same ones counted together."""
    counted = sorted(Counter(map(str, reasons)).items())
    more = len(counted) - _MOST_REASONS
    shown = ", ".join(f"{count} {reason}" for reason, count in counted[:_MOST_REASONS])
    return (shown + (f", and {more} more" if more > 0 else "")) or str(report.result)
