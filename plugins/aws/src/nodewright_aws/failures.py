"""Launches that failed, from a group's scaling activities.

AWS names no machine for a failed launch: the group has a desired capacity above its number of instances, and failed
activities. So one failure of the contract stands for all the unfilled capacity of a group. Its id is that of the
first failed activity, and stays while AWS keeps trying. A failure after a deletion gets a new id.

AWS launches in another zone of the group when a zone has no capacity. So a lack of capacity is a failure of the group
only when it was found in every zone.

All times are of AWS's clock: the start of an activity is compared with the time that AWS returned for our last write.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from nodewright.spec import ErrorClass, FailedInstance
from nodewright_aws.errors import classify_launch
from nodewright_aws.shapes import Activity, Group

_FAILED = "Failed"
_MAX_MESSAGE = 500
# As long as a group backs off after a first failure.
_SHORT_SECONDS = 300.0


class Ledger(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one group.

    ``clear_at``: when, by AWS's clock, the group last had no failures: we wrote its size, or it was full. None: never.
    ``settled``: ids of failed activities that are not reported again. ``reported``: the present failure, if there is
    one. ``seen``: ids of the activities behind it. ``short``: when a launch failed last in a zone for lack of capacity.
    """

    clear_at: float | None = None
    settled: frozenset[str] = frozenset()
    reported: FailedInstance | None = None
    seen: frozenset[str] = frozenset()
    short: Mapping[str, float] = {}

    def zones_without_capacity(self, now: float) -> frozenset[str]:
        """Return the zones in which AWS lately found no capacity for the group."""
        return frozenset(zone for zone, at in self.short.items() if now < at + _SHORT_SECONDS)

    def cleared(self, at: float) -> "Ledger":
        """Return the ledger after a write or of a full group: earlier failures do not count any more."""
        return Ledger(clear_at=at, settled=self.settled | self.seen, short=self.short)


def update_ledger(group: Group, activities: Sequence[Activity], ledger: Ledger, since: float) -> Ledger:
    """Return the ledger after the activities of a group that is not full were read.

    ``since`` (AWS's clock) bounds the past for a group of which nothing is remembered.
    """
    start = since if ledger.clear_at is None else ledger.clear_at
    failed = [one for one in activities if _counts(one, start) and one.activity_id not in ledger.settled]
    failed.sort(key=lambda one: one.start_time, reverse=True)  # AWS promises no order
    # An activity that AWS does not list any more does not come back: it need not be remembered.
    settled = ledger.settled & {one.activity_id for one in activities}
    reported = ledger.reported
    if reported is None and _gives_up(group, failed):
        reported = _failure(group, failed)
    if reported is not None:
        reported = msgspec.structs.replace(reported, count=group.unfilled)
    seen = frozenset(one.activity_id for one in failed)
    short = {**ledger.short, **{zone: at for zone, at in _short_zones(failed) if at > ledger.short.get(zone, 0.0)}}
    return Ledger(clear_at=ledger.clear_at, settled=settled, reported=reported, seen=seen, short=short)


def _counts(activity: Activity, start: float) -> bool:
    """Return whether the activity failed after ``start``, in whole seconds: AWS sends its date without fractions."""
    return activity.status_code == _FAILED and activity.start_time.timestamp() >= int(start)


def _short_zones(failed: Sequence[Activity]) -> Iterator[tuple[str, float]]:
    """Yield zones without capacity with the time of the activity, the newest last."""
    for one in reversed(failed):
        if one.zone and classify_launch(_text_of(one))[0] is ErrorClass.OUT_OF_RESOURCES:
            yield one.zone, one.start_time.timestamp()


def _gives_up(group: Group, failed: Sequence[Activity]) -> bool:
    """Return whether no zone of the group is left where AWS may still launch what is missing."""
    if group.stays_in_zone:
        return bool(failed)
    short = set()
    for one in failed:
        error_class, _, _ = classify_launch(_text_of(one))
        if error_class != ErrorClass.OUT_OF_RESOURCES or not one.zone:
            return True
        short.add(one.zone)
    return bool(short) and short >= set(group.availability_zones)


def _failure(group: Group, failed: Sequence[Activity]) -> FailedInstance:
    """Return the failure: its id from the oldest activity, its text from the newest."""
    said = _text_of(failed[0])
    error_class, scope, code = classify_launch(said)
    return FailedInstance(
        failure_id=f"{group.name}/{failed[-1].activity_id}",
        count=group.unfilled,
        error_class=error_class,
        scope=scope,
        code=code,
        message=said[:_MAX_MESSAGE],
    )


def _text_of(activity: Activity) -> str:
    return activity.status_message or activity.description
