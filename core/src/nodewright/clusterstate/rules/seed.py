"""The two-stage rule of the first design document for one group: a timeout, then a correction after the same time again."""

from nodewright.clusterstate.backoff import failed_to_start, late_machines, refused
from nodewright.clusterstate.memory import IncorrectSize
from nodewright.clusterstate.requests import without
from nodewright.clusterstate.rules.ca import count_coming, find_gap, in_time, is_in_range
from nodewright.clusterstate.rules.prompt import with_withdrawal
from nodewright.clusterstate.state import GroupContext, GroupState


def evaluate_seed(context: GroupContext) -> GroupState:
    """Evaluate a group: an overdue request backs it off; the target stays until the difference lasted as long again.

    Until then pods wait for the machines. The difference is watched from the end of a request; without a request only
    if the group has nodes or instances.
    """
    requests, timed_out = in_time(context)
    coming = count_coming(context.readiness, context.target)
    requests = without(requests, sum(failure.count for failure in context.new_failures))
    gap = None if requests else _find_gap(context, watched=bool(timed_out))
    given_up = gap.target - gap.registered if gap is not None and gap.since + context.patience < context.now else 0
    failed = sum(failure.count for failure in context.seen.failed or ())
    increase = sum(request.increase for request in requests)
    evaluated = GroupState(
        seen=context.seen,
        readiness=context.readiness,
        upcoming=max(0, coming - failed - context.doubtful - max(0, given_up)),
        timed_out=timed_out,
        given_up=max(0, given_up),
        healthy=is_in_range(context.readiness, context.target, increase, context.loop),
        requests=requests,
        new_failures=context.new_failures,
        newly_disputed=context.newly_disputed,
        failures=(*refused(context), *failed_to_start(context), *late_machines(context, timed_out)),
        size_gap=gap,
    )
    return with_withdrawal(evaluated, context)


def _find_gap(context: GroupContext, *, watched: bool) -> IncorrectSize | None:
    """Return the difference between nodes and target; that of a group without nodes only after a failed request."""
    found = find_gap(context)
    if found is not None:
        return found
    held = context.memory.size_gaps.get(context.ref)
    missing = context.target > 0 and not context.readiness.unregistered and not context.readiness.registered
    if not missing or not (watched or held is not None):
        return None
    if held is not None and (held.registered, held.target) == (0, context.target):
        return held
    return IncorrectSize(registered=0, target=context.target, since=context.now)
