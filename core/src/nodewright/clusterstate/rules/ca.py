"""Cluster-autoscaler's rule for one group."""

from collections.abc import Sequence
from dataclasses import replace

from nodewright.clusterstate.backoff import is_active, late_machines, refused
from nodewright.clusterstate.memory import IncorrectSize
from nodewright.clusterstate.requests import Requests, merged, without
from nodewright.clusterstate.state import Failure, GroupContext, GroupState, Readiness
from nodewright.model.group import FailedInstance
from nodewright.model.settings import LoopSettings


def evaluate_ca(context: GroupContext) -> GroupState:
    """Evaluate a group by CA's rule: one request, whose deadline starts again with each increase.

    Arrivals are found by counting nodes alone. ``timed_out`` is the whole increase of an overdue request, even if a
    part of it arrived.
    """
    requests, timed_out = in_time(context)
    failures = [*_in_group(refused(context)), *late_machines(context, timed_out)]
    counted, requests = _failed_to_start(context, requests)
    failures += [_failure(context, failure) for failure in counted]
    if context.seen.template is None and context.ref not in context.memory.samples:
        failures = []  # CA backs off no group without a template
    evaluated = GroupState(
        seen=context.seen,
        readiness=context.readiness,
        timed_out=timed_out,
        requests=requests,
        backoff=context.memory.backoffs.get(context.ref),
        new_failures=counted,
        failures=tuple(failures),
        size_gap=find_gap(context),
    )
    backed_off = bool(failures) or is_active(evaluated.backoff, context.now)
    return with_outlook(evaluated, context.target, context.loop, hidden=backed_off)


def in_time(context: GroupContext) -> tuple[Requests, int]:
    """Return the group's request, which ends when no machine is owed, and its increase if it is overdue."""
    requests = merged(context.requests, context.increases, context.patience)
    if not count_coming(context.readiness, context.target):
        return (), 0
    if requests and requests[0].deadline < context.now:
        return (), requests[0].increase
    return requests, 0


def with_outlook(group: GroupState, target: int, settings: LoopSettings, *, hidden: bool) -> GroupState:
    """Return the group with its upcoming machines and health for a target, which CA reads again within a loop.

    Without a request, or while the group is backed off (``hidden``), CA expects no machines.
    """
    increase = sum(request.increase for request in group.requests)
    upcoming = 0 if hidden or not increase else count_coming(group.readiness, target)
    return replace(group, upcoming=upcoming, healthy=is_in_range(group.readiness, target, increase, settings))


def count_coming(readiness: Readiness, target: int) -> int:
    """Return how many machines the target still owes. Nodes that are starting are among them."""
    unready = len(readiness.unready) + len(readiness.leaving)
    there = len(readiness.ready) + len(readiness.suspended) + unready + len(readiness.long_unregistered)
    return max(0, target - there)


def is_in_range(readiness: Readiness, target: int, increase: int, settings: LoopSettings) -> bool:
    """Return whether the group has about as many ready nodes as its target without the increase."""
    least = target - len(readiness.long_unregistered) - increase
    if not _count_nodes(readiness) and not readiness.unregistered and not readiness.long_unregistered:
        return target == 0 or least == 0
    missing = max(0, least - len(readiness.ready) - len(readiness.suspended))
    share = settings.max_total_unready_percentage / 100 * readiness.registered
    return not (missing > settings.ok_total_unready_count and missing > share)


def find_gap(context: GroupContext) -> IncorrectSize | None:
    """Return the difference between nodes and target; None if there is none, or no node and no instance."""
    readiness, target = context.readiness, context.target
    nodes = _count_nodes(readiness)
    unregistered = len(readiness.unregistered) + len(readiness.long_unregistered)
    if (not nodes and not unregistered) or target - unregistered <= nodes <= target:
        return None
    held = context.memory.size_gaps.get(context.ref)
    if held is not None and (held.registered, held.target) == (nodes, target):
        return held
    return IncorrectSize(registered=nodes, target=target, since=context.now)


def _count_nodes(readiness: Readiness) -> int:
    return readiness.registered + len(readiness.deleted)


def _failed_to_start(context: GroupContext, requests: Requests) -> tuple[tuple[FailedInstance, ...], Requests]:
    """Return the new failures of a group that is scaling up, kind by kind, and the requests after them."""
    kinds: dict[tuple[str, str], list[FailedInstance]] = {}
    for failure in context.new_failures:
        kinds.setdefault((failure.error_class, failure.code), []).append(failure)
    counted: list[FailedInstance] = []
    for alike in kinds.values():
        if requests:
            counted += alike
            requests = without(requests, sum(failure.count for failure in alike))
    return tuple(counted), requests


def _failure(context: GroupContext, failed: FailedInstance) -> Failure:
    return Failure(
        group=context.ref, at=context.now, error_class=failed.error_class, code=failed.code, message=failed.message
    )


def _in_group(failures: Sequence[Failure]) -> list[Failure]:
    """Limit failures to the group that failed: CA backs off no other."""
    return [
        Failure(group=f.group, at=f.at, error_class=f.error_class, code=f.code, message=f.message) for f in failures
    ]
