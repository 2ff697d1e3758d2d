"""Why a group grew, in words for the report."""

from collections.abc import Iterator

from nodewright.model.action import IncreaseSize
from nodewright.model.plan import Plan, ScaleUpReport


def why_increased(action: IncreaseSize, plan: Plan | None) -> str:
    """Return ``for default/web-1 and 3 pods more; chosen of 2 groups by price``."""
    report = _report_of(action, plan) if plan is not None else None
    words = [action.reason, _for_pods(action)]
    if plan is not None and report is not None:
        words.append(_cause(report, plan) or _how_chosen(action, report))
    return "; ".join(word for word in words if word) or "its planned size"


def _for_pods(action: IncreaseSize) -> str:
    if action.move:
        return f"for pods that move ({action.move})"
    if not action.pods:
        return f"for {action.pod_count:,} pods" if action.pod_count else ""
    rest = action.pod_count - 1
    more = f" and {rest:,} {'pod' if rest == 1 else 'pods'} more" if rest > 0 else ""
    return f"for {action.pods[0]}{more}"


def _report_of(action: IncreaseSize, plan: Plan) -> ScaleUpReport | None:
    found = (report for report in _reports(plan) if any(grown.group == action.group for grown in report.expansions))
    return next(found, None)


def _reports(plan: Plan) -> Iterator[ScaleUpReport]:
    yield from (plan.scale_up, *plan.salvo, *plan.spare)
    yield from (report for report in (plan.hedge, plan.min_size) if report is not None)


def _cause(report: ScaleUpReport, plan: Plan) -> str:
    if report is plan.min_size:
        return "the minimum size of the group"
    return "room for capacity buffers" if report in plan.spare else ""


def _how_chosen(action: IncreaseSize, report: ScaleUpReport) -> str:
    if report.nodes and report.cost is not None:
        least = f", at least ${report.cost.bound:,.2f}" if report.cost.bound is not None else ""
        return f"in the mix of {report.expander}: ${report.cost.price:,.2f} an hour{least}"
    others = [str(option.group) for option in report.options if option.group != action.group]
    if not others:
        return "no other group could help"
    more = f" and {len(others) - 2:,} more" if len(others) > 2 else ""
    return f"chosen by {report.expander} before {', '.join(others[:2])}{more}"
