"""The effect of a plan on each pending pod and each group, with the reasons."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

import msgspec

from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.screen import count, name_some
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ProvisioningReport, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, SkipReason
from nodewright.model.settings import PodSettings
from nodewright.planner.provisioning_requests.pods import consumed_request, is_stand_in
from nodewright.planner.scale_up.pending_pods import is_expendable, is_pending, unhelped_namespaces

_ENDING = "its namespace is being deleted: the API server binds no pod there any more"
_DAEMON = "belongs to a DaemonSet, whose pods never make groups grow"


class PodOutcome(StrEnum):
    """The outcome for a pending pod; the values are those of ``--output json``."""

    HELPED = "helped"
    FITS = "fits"
    AWAITS = "awaits"
    WAITS = "waits"
    UNHELPED = "unhelped"
    HALTED = "halted"
    IGNORED = "ignored"


class PodVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The plan's outcome for one pod. ``reasons`` has every group for an unhelped pod that is planned for, and is empty for any other."""

    pod: Pod
    outcome: PodOutcome
    reason: str
    reasons: Mapping[GroupRef, Rejection | SkipReason] = {}


def find_verdicts(dry_run: DryRun) -> tuple[PodVerdict, ...]:
    """Return one verdict per pending pod, in arrival order."""
    judged = {verdict.pod.key: verdict for verdict in _judged(dry_run)}
    return tuple(judged.get(pod.key) or _left(pod, dry_run) for pod in dry_run.state.observation.pending)


def fold_verdicts(verdicts: Iterable[PodVerdict]) -> list[list[PodVerdict]]:
    """Return the verdicts in lists with the same outcome and the same reasons, in order of their first one."""
    # Similar pods share their reasons, which may name a thousand groups: each set of reasons is read only once.
    alike: dict[tuple[PodOutcome, str, int], list[PodVerdict]] = {}
    for verdict in verdicts:
        alike.setdefault((verdict.outcome, verdict.reason, id(verdict.reasons)), []).append(verdict)
    rows: dict[tuple[object, ...], list[PodVerdict]] = {}
    texts: dict[int, str] = {}
    for (outcome, reason, _), some in alike.items():
        reasons = some[0].reasons
        said = tuple(texts.get(id(why)) or texts.setdefault(id(why), str(why)) for why in reasons.values())
        rows.setdefault((outcome, reason, tuple(reasons), said), []).extend(some)
    return list(rows.values())


def why_ignored(pod: Pod, settings: PodSettings) -> str:
    """Return why planning ignores a pod; empty if it does not (``is_pending``)."""
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
    """Return the scale-up reports for pending pods, in order; with --salvo-scale-up there may be several."""
    return (plan.scale_up, *(report for report in plan.salvo if not _is_of_request(report)))


def _is_of_request(report: ScaleUpReport) -> bool:
    about = (*report.triggered[:1], *report.awaiting[:1], *(unhelped.pod for unhelped in report.unhelped[:1]))
    return any(map(is_stand_in, about))


def _judged(dry_run: DryRun) -> Iterator[PodVerdict]:
    """Yield verdicts; for a pod with several, the last one counts."""
    plan = dry_run.plan
    for pod in plan.fitting:
        yield PodVerdict(pod=pod, outcome=PodOutcome.FITS, reason="has room on a node that is there or on its way")
    for pod in plan.waiting:
        yield PodVerdict(pod=pod, outcome=PodOutcome.WAITS, reason="is younger than its scale-up delay")
    for report in rounds(plan):
        yield from _of_round(report)
    yield from _consumers(plan.provisioning)


def _of_round(report: ScaleUpReport) -> Iterator[PodVerdict]:
    growing = ", ".join(str(expansion.group) for expansion in report.expansions)
    for pod in report.triggered:
        yield PodVerdict(pod=pod, outcome=PodOutcome.HELPED, reason=f"fits on new nodes of {growing}")
    for pod in report.awaiting:
        yield PodVerdict(
            pod=pod, outcome=PodOutcome.AWAITS, reason="fits another group; planned again in the next loop"
        )
    for unhelped in report.unhelped:
        reason = "no group helps" if unhelped.reasons else "there are no node groups"
        yield PodVerdict(pod=unhelped.pod, outcome=PodOutcome.UNHELPED, reason=reason, reasons=unhelped.reasons)


def _consumers(report: ProvisioningReport) -> Iterator[PodVerdict]:
    """Yield verdicts about pods that wait for their ProvisioningRequest; its event says whether it can help."""
    events = {event.pod.key: event for event in report.events if event.pod is not None}
    for pod in report.consumers:
        event = events.get(pod.key)
        if event is None:  # a loop emits a limited number of events
            reason = f"waits for ProvisioningRequest {pod.metadata.namespace}/{consumed_request(pod)}"
            yield PodVerdict(pod=pod, outcome=PodOutcome.WAITS, reason=reason)
        else:
            yield PodVerdict(
                pod=pod, outcome=PodOutcome.UNHELPED if event.is_warning else PodOutcome.WAITS, reason=event.message
            )


def _left(pod: Pod, dry_run: DryRun) -> PodVerdict:
    ignored = why_ignored(pod, dry_run.settings.pods)
    if ignored:
        return PodVerdict(pod=pod, outcome=PodOutcome.IGNORED, reason=ignored)
    if pod.metadata.namespace in unhelped_namespaces(dry_run.state.observation.snapshot, dry_run.settings.policy):
        return PodVerdict(pod=pod, outcome=PodOutcome.IGNORED, reason=_ENDING)
    if pod.is_daemonset_pod and not dry_run.plan.halted:
        return PodVerdict(pod=pod, outcome=PodOutcome.IGNORED, reason=_DAEMON)
    return PodVerdict(pod=pod, outcome=PodOutcome.HALTED, reason=dry_run.plan.halted or dry_run.plan.cut_short)


def why_group(dry_run: DryRun, ref: GroupRef) -> str:
    """Return what was decided about a group; empty if no pod needs it."""
    increases = [one for one in dry_run.plan.actions if isinstance(one, IncreaseSize) and one.group == ref]
    requests = [one.request.key for one in increases if one.request is not None and not one.request.is_gang]
    gangs = list(dict.fromkeys(one.request.key for one in increases if one.request is not None and one.request.is_gang))
    for_gangs = f"grows for {'gang' if len(gangs) == 1 else 'gangs'} {name_some(gangs)}" if gangs else ""
    for_requests = (
        f"grows for {'request' if len(requests) == 1 else 'requests'} {name_some(requests)}" if requests else ""
    )
    has_grown = any(expansion.group == ref for report in rounds(dry_run.plan) for expansion in report.expansions)
    spare = sum(
        len(report.triggered) for report in dry_run.plan.spare if any(one.group == ref for one in report.expansions)
    )
    for_buffers = f"grows for {count(spare, 'pod')} of buffers" if spare else ""
    hedges = "; ".join(f"{one.hedged:,} of the nodes {one.reason}" for one in increases if one.hedged)
    moves = [one.move for one in increases if one.move]
    for_moves = f"grows for move {name_some(moves)}" if moves else ""
    for_pods = _why_for_pods(dry_run, ref) if has_grown or not (requests or spare or hedges or moves) else ""
    return "; ".join(filter(None, (for_pods, for_gangs, for_requests, for_buffers, for_moves, hedges)))


def _why_for_pods(dry_run: DryRun, ref: GroupRef) -> str:
    plan, held = dry_run.plan, rounds(dry_run.plan)
    grew = [report for report in held if any(expansion.group == ref for expansion in report.expansions)]
    if grew:
        chosen = [option for report in grew for option in report.options if option.group == ref and option.chosen]
        if not chosen:
            return "shares the growth of a similar group (--balance-similar-node-groups)"
        return f"helps {count(sum(option.pods for option in chosen), 'pod')}; {_how_chosen(grew[0])}"
    report = held[-1]
    option = next((option for option in report.options if option.group == ref), None)
    if plan.min_size is not None and any(expansion.group == ref for expansion in plan.min_size.expansions):
        return "is below its min size"
    if ref in report.skipped:
        return f"left out: {report.skipped[ref]}"
    if option is not None:
        return f"could help {count(option.pods, 'pod')} with {count(option.nodes, 'node')}"
    problem = dry_run.state.observation.groups[ref].problem
    unwanted = "no node of it is in the cheapest mix" if ref in report.unwanted else ""
    return f"read in part: {problem}" if problem else unwanted


def _how_chosen(report: ScaleUpReport) -> str:
    options = len(report.options)
    if report.nodes and report.cost is not None:
        size = f"{count(len(report.nodes), 'node')} for {report.cost.price:,.3f} USD an hour"
        return f"in the mix of {report.expander}: {size}"
    if options == 1:
        return "no other group could"
    return f"chosen of {options} groups by {report.expander}"
