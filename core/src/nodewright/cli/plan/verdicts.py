"""What a plan means for each pending pod, and why."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from nodewright.cli.dry_run.trial import Trial
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, SkipReason
from nodewright.model.settings import PodSettings
from nodewright.planner.plan import Plan, ScaleUpReport
from nodewright.planner.provisioning_requests.docket import ProvisioningReport
from nodewright.planner.provisioning_requests.pods import consumed_request, is_stand_in
from nodewright.planner.scale_up.pending_pods import is_expendable, is_pending, unhelped_namespaces

_ENDING = "its namespace is being deleted: the API server binds no pod there any more"
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
    """One pod's fate. ``reasons`` has every group for an unhelped pod that is planned for, and is empty for any other."""

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


def rounds(plan: Plan) -> tuple[ScaleUpReport, ...]:
    """What was decided for pods that wait, one after the other: with --salvo-scale-up there may be several."""
    return (plan.scale_up, *(report for report in plan.salvo if not _is_of_request(report)))


def _is_of_request(report: ScaleUpReport) -> bool:
    about = (*report.triggered[:1], *report.awaiting[:1], *(unhelped.pod for unhelped in report.unhelped[:1]))
    return any(map(is_stand_in, about))


def _judged(trial: Trial) -> Iterator[Verdict]:
    """A later verdict about a pod holds."""
    plan = trial.plan
    for pod in plan.fitting:
        yield Verdict(pod=pod, fate=Fate.FITS, reason="has room on a node that is there or on its way")
    for pod in plan.waiting:
        yield Verdict(pod=pod, fate=Fate.WAITS, reason="is younger than its scale-up delay")
    for report in rounds(plan):
        yield from _of_round(report)
    yield from _consumers(plan.provisioning)


def _of_round(report: ScaleUpReport) -> Iterator[Verdict]:
    growing = ", ".join(str(expansion.group) for expansion in report.expansions)
    for pod in report.triggered:
        yield Verdict(pod=pod, fate=Fate.HELPED, reason=f"fits on new nodes of {growing}")
    for pod in report.awaiting:
        yield Verdict(pod=pod, fate=Fate.AWAITS, reason="fits another group; planned again in the next loop")
    for unhelped in report.unhelped:
        reason = "no group helps" if unhelped.reasons else "there are no node groups"
        yield Verdict(pod=unhelped.pod, fate=Fate.UNHELPED, reason=reason, reasons=unhelped.reasons)


def _consumers(report: ProvisioningReport) -> Iterator[Verdict]:
    """Pods for which their request is to provide; in what they are told it says whether it can."""
    told = {note.pod.key: note for note in report.notes if note.pod is not None}
    for pod in report.consumers:
        note = told.get(pod.key)
        if note is None:  # not so many are told in one loop
            reason = f"waits for ProvisioningRequest {pod.metadata.namespace}/{consumed_request(pod)}"
            yield Verdict(pod=pod, fate=Fate.WAITS, reason=reason)
        else:
            yield Verdict(pod=pod, fate=Fate.UNHELPED if note.is_warning else Fate.WAITS, reason=note.message)


def _left(pod: Pod, trial: Trial) -> Verdict:
    ignored = why_ignored(pod, trial.settings.pods)
    if ignored:
        return Verdict(pod=pod, fate=Fate.IGNORED, reason=ignored)
    if pod.metadata.namespace in unhelped_namespaces(trial.state.observation.snapshot, trial.settings):
        return Verdict(pod=pod, fate=Fate.IGNORED, reason=_ENDING)
    if pod.is_daemonset_pod and not trial.plan.halted:
        return Verdict(pod=pod, fate=Fate.IGNORED, reason=_DAEMON)
    return Verdict(pod=pod, fate=Fate.HALTED, reason=trial.plan.halted or trial.plan.cut_short)
