"""One loop in the words of a case's expectation: why pods wait, and how each group is."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.state import GroupState
from nodewright.engine.report import LoopReport
from nodewright.model.action import Done, IncreaseSize
from nodewright.model.plan import ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, ScaleUpResult, SkipCode, SkipReason
from nodewright.model.settings import Settings
from nodewright.planner.make_plan import NO_READY_NODES
from runonce.record import Record, is_refused, status, statuses
from runonce.world import World

# CA says these in fewer words.
_SKIPPED = {
    SkipCode.BACKOFF: "in backoff after failed scale-up",
    SkipCode.UNHEALTHY: "not ready for scale-up",
    SkipCode.NO_TEMPLATE: "not ready for scale-up",
    SkipCode.UNKNOWN: "not ready for scale-up",
}
_NOT_CONSIDERED = (SkipCode.NOT_CHOSEN, SkipCode.NO_ROOM)


def make_details(report: LoopReport, world: World, settings: Settings) -> Record:
    """What a record says besides its core, as far as growth is concerned."""
    assert report.plan is not None
    if report.plan.halted == NO_READY_NODES:
        return {}  # CA has not looked at its groups
    attempts = statuses(report.plan)
    details: Record = {"groups": _groups(report, world, settings)}
    if len(attempts) > 1 and attempts[0] is report.plan.scale_up:
        details["minSizeScaleUp"] = status(report, attempts[1])
    return details | _pods(report, attempts[0])


def _pods(report: LoopReport, attempt: ScaleUpReport) -> Record:
    """After a refused call CA tells of each pod whether another group would have done; plans do not keep that."""
    if is_refused(report, attempt):
        assert report.plan is not None
        triggered = () if report.plan.provisioning.examined else attempt.triggered
        return {"podsTriggered": _names(triggered), "podsAwaiting": []}
    remain = {} if attempt.result == ScaleUpResult.IN_COOLDOWN else _remaining(attempt)
    found: Record = {
        "podsTriggered": _names(attempt.triggered),
        "podsAwaiting": _names(attempt.awaiting),
        "podsRemain": sorted(remain),
    }
    return found | ({"whyNot": remain} if remain else {})


def _remaining(attempt: ScaleUpReport) -> dict[str, Any]:
    """Pods that no group takes, with the reasons of each."""
    limited = attempt.result == ScaleUpResult.NODE_LIMIT
    found: dict[str, Any] = {}
    for unhelped in attempt.unhelped:
        reasons = unhelped.reasons
        if limited:
            found[unhelped.pod.key] = {}
        elif not any(isinstance(r, SkipReason) and r.code in _NOT_CONSIDERED for r in reasons.values()):
            found[unhelped.pod.key] = _why(reasons)
    return found


def _why(reasons: Mapping[Any, Rejection | SkipReason]) -> dict[str, Any]:
    rejected = {ref.group_id: sorted(r.reasons) for ref, r in reasons.items() if isinstance(r, Rejection)}
    skipped = {
        ref.group_id: [_SKIPPED.get(r.code, r.message)] for ref, r in reasons.items() if isinstance(r, SkipReason)
    }
    return ({"rejected": rejected} if rejected else {}) | ({"skipped": skipped} if skipped else {})


def _names(pods: Iterable[Pod]) -> list[str]:
    return sorted(pod.key for pod in pods)


def _groups(report: LoopReport, world: World, settings: Settings) -> dict[str, Any]:
    """Each group as it is right after the loop: calls are folded in, target sizes read again if CA does."""
    assert report.state is not None
    seen = report.state.observation
    if _reads_sizes_again(report):
        groups = {ref: replace(group, target=world.groups[ref.group_id].target) for ref, group in seen.groups.items()}
        seen = replace(seen, groups=groups)
    after = fold(report.state.memory, seen, report.outcomes, settings)
    return {ref.group_id: _group(state, seen.now) for ref, state in after.groups.items()}


def _reads_sizes_again(report: LoopReport) -> bool:
    """After growth that succeeded, and after the removal of what failed to start."""
    assert report.plan is not None
    cleaned = any(getattr(outcome.action, "failure_ids", ()) for outcome in report.outcomes)
    grown = any(isinstance(o, Done) and isinstance(o.action, IncreaseSize) for o in report.outcomes)
    return cleaned or (grown and not any(is_refused(report, attempt) for attempt in statuses(report.plan)))


def _group(state: GroupState, now: float) -> dict[str, Any]:
    readiness, backoff = state.readiness, state.backoff
    active = is_active(backoff, now)
    activity = _activity(state, active=active)
    described = {
        "health": "Healthy" if state.healthy else "Unhealthy",
        "scaleUp": activity,
        "ready": len(readiness.ready),
        "registered": readiness.registered + len(readiness.deleted),
        "unready": len(readiness.unready),
        "notStarted": len(readiness.not_started),
        "beingDeleted": len(readiness.deleted),
        "unregistered": len(readiness.unregistered),
        "longUnregistered": len(readiness.long_unregistered),
    }
    return described | ({"backoffErrorCode": backoff.code} if backoff is not None and activity == "Backoff" else {})


def _activity(state: GroupState, *, active: bool) -> str:
    if state.requests:
        return "InProgress"
    if not state.healthy:
        return "Unhealthy"
    return "Backoff" if active else "NoActivity"
