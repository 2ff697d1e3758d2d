"""Launches that failed, from a group's scaling activities.

AWS names no machine: a group whose instances cannot be started has a desired capacity that nothing fills, and
activities that failed. So one failure of the contract stands for all the unfilled capacity of a group. It keeps its
id, the first failed activity's, while AWS goes on trying; a failure after a deletion is a new one.

Times are AWS's own throughout: an activity is compared with the moment that AWS gave to our last write.
"""

from collections.abc import Sequence

import msgspec

from nodewright.spec import FailedInstance
from nodewright_aws.errors import classify_launch
from nodewright_aws.shapes import Activity, Group

_FAILED = "Failed"
_MAX_MESSAGE = 500


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one group.

    ``clear_at`` is when, by AWS's clock, nothing that failed before mattered any more: we wrote its size, or it was
    full. None before the first such moment. ``settled`` are failed activities that were dealt with.
    """

    clear_at: float | None = None
    settled: frozenset[str] = frozenset()
    told: FailedInstance | None = None
    seen: frozenset[str] = frozenset()

    def cleared(self, at: float) -> "Ledger":
        """Whatever failed until now has nothing to do with what is asked for from now on."""
        return Ledger(clear_at=at, settled=self.settled | self.seen)


def judge(group: Group, activities: Sequence[Activity], ledger: Ledger, since: float) -> Ledger:
    """The ledger after a look at a group that is not full; ``since`` bounds the past where nothing is remembered."""
    start = since if ledger.clear_at is None else ledger.clear_at
    failed = [one for one in activities if _counts(one, start) and one.activity_id not in ledger.settled]
    # Only what AWS still tells needs to be settled: what has left its list does not come back.
    settled = ledger.settled & {one.activity_id for one in activities}
    told = ledger.told
    if told is None and failed:
        told = _failure(group, failed)
    if told is not None:
        told = msgspec.structs.replace(told, count=group.unfilled)
    seen = frozenset(one.activity_id for one in failed)
    return Ledger(clear_at=ledger.clear_at, settled=settled, told=told, seen=seen)


def _counts(activity: Activity, start: float) -> bool:
    """A whole second of grace: AWS's answers carry their date without fractions."""
    return activity.status_code == _FAILED and activity.start_time.timestamp() >= int(start)


def _failure(group: Group, failed: Sequence[Activity]) -> FailedInstance:
    """Named by the oldest activity, in the words of the newest."""
    said = failed[0].status_message or failed[0].description
    error_class, scope, code = classify_launch(said)
    return FailedInstance(
        failure_id=f"{group.name}/{failed[-1].activity_id}",
        count=group.unfilled,
        error_class=error_class,
        scope=scope,
        code=code,
        message=said[:_MAX_MESSAGE],
    )
