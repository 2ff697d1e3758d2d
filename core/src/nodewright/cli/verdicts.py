"""What a plan means for each pending pod, and why."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from nodewright.cli.dry_run import Trial
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, SkipReason
from nodewright.model.settings import PodSettings
from nodewright.planner.pending import is_expendable, is_pending

_DAEMON = "belongs to a DaemonSet, whose pods never make groups grow"


class Fate(StrEnum):
    """What happens to a pending pod; the values are those of ``--output json``."""

    HELPED = "helped"
    FITS = "fits"
    AWAITS = "awaits"
    WAITS = "waits"
    UNHELPED = "unhelped"
    HALTED = "halted"
    IGNORED = "ignored"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's fate. ``reasons`` has every group for an unhelped pod, and is empty for any other."""

    pod: Pod
    fate: Fate
    reason: str
    reasons: Mapping[GroupRef, Rejection | SkipReason] = {}


def find_verdicts(trial: Trial) -> tuple[Verdict, ...]:
    """One for every pending pod, in arrival order."""
    judged = {verdict.pod.key: verdict for verdict in _judged(trial)}
    return tuple(judged.get(pod.key) or _left(pod, trial) for pod in trial.state.observation.pending)


def why_ignored(pod: Pod, settings: PodSettings) -> str:
    """Why planning passes a pod over whatever the groups; empty when it does not (``is_pending``)."""
    if is_pending(pod, settings):
        return ""
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if settings.allowed_scheduler_names and pod.spec.scheduler_name not in settings.allowed_scheduler_names:
        return f"its scheduler {pod.spec.scheduler_name} is not among --allowed-scheduler-names"
    if is_expendable(pod.spec.priority, settings):
        cutoff = settings.expendable_pods_priority_cutoff
        return f"its priority is below --expendable-pods-priority-cutoff={cutoff}"
    return "its scheduler has not found it unschedulable (condition PodScheduled)"


def _judged(trial: Trial) -> Iterator[Verdict]:
    plan, report = trial.plan, trial.plan.scale_up
    growing = ", ".join(str(expansion.group) for expansion in report.expansions)
    for pod in plan.fitting:
        yield Verdict(pod=pod, fate=Fate.FITS, reason="has room on a node that is there or on its way")
    for pod in plan.waiting:
        yield Verdict(pod=pod, fate=Fate.WAITS, reason="is younger than its scale-up delay")
    for pod in report.triggered:
        yield Verdict(pod=pod, fate=Fate.HELPED, reason=f"fits on new nodes of {growing}")
    for pod in report.awaiting:
        yield Verdict(pod=pod, fate=Fate.AWAITS, reason="fits another group; planned again in the next loop")
    for unhelped in report.unhelped:
        reason = "no group helps" if unhelped.reasons else "there are no node groups"
        yield Verdict(pod=unhelped.pod, fate=Fate.UNHELPED, reason=reason, reasons=unhelped.reasons)


def _left(pod: Pod, trial: Trial) -> Verdict:
    ignored = why_ignored(pod, trial.settings.pods)
    if ignored:
        return Verdict(pod=pod, fate=Fate.IGNORED, reason=ignored)
    if pod.is_daemonset_pod and not trial.plan.halted:
        return Verdict(pod=pod, fate=Fate.IGNORED, reason=_DAEMON)
    return Verdict(pod=pod, fate=Fate.HALTED, reason=trial.plan.halted)
