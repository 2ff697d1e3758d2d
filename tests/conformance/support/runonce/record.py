"""One loop in the words of a case's expectation: the core of its record."""

from typing import Any

from nodewright.engine.report import LoopReport
from nodewright.model.action import Failed, IncreaseSize
from nodewright.model.plan import Plan, ScaleUpReport
from nodewright.model.reason import ScaleUpResult
from nodewright.planner.make_plan import NO_READY_NODES
from nodewright.planner.rules.ca import SIZES_NOT_FIXED
from runonce.cloud import Cloud
from runonce.world import World, write_time

Record = dict[str, Any]
# What CA reports at the end of the loop only, after minimum sizes.
_NOT_TRIED = (ScaleUpResult.NOT_NEEDED, ScaleUpResult.NODE_LIMIT, ScaleUpResult.IN_COOLDOWN)


def make_core(report: LoopReport, cloud: Cloud, world: World) -> Record:
    """What the loop did; raises ValueError for one that could not even look."""
    if report.state is None or report.plan is None:
        raise ValueError(report.problem)
    record: Record = {
        "time": write_time(report.started),
        "scaleUp": _first_status(report, report.plan),
        "increaseCalls": sorted(cloud.increases, key=lambda call: str(call["group"])),
        "decreaseCalls": sorted(cloud.decreases, key=lambda call: str(call["group"])),
        "deleteCalls": _deletions(cloud),
        "targetSizes": {group.id: group.target for group in world.groups.values()},
        "clusterHealthy": report.state.healthy,
    }
    if report.plan.cut_short == SIZES_NOT_FIXED:
        record["error"] = "cloudProviderError"
    return record


def statuses(plan: Plan) -> list[ScaleUpReport]:
    """Every attempt to grow, in the order in which CA reports them."""
    reports = [plan.scale_up, *plan.salvo, *([plan.min_size] if plan.min_size is not None else [])]
    return sorted(reports, key=lambda report: report is plan.scale_up and report.result in _NOT_TRIED)


def status(report: LoopReport, attempt: ScaleUpReport) -> dict[str, Any]:
    """How an attempt ended: one refused call makes all of it an error."""
    if is_refused(report, attempt):
        return {"result": "ScaleUpError", "groups": {}}
    groups = {expansion.group.group_id: expansion.target - expansion.current for expansion in attempt.expansions}
    return {"result": str(attempt.result), "groups": groups}


def is_refused(report: LoopReport, attempt: ScaleUpReport) -> bool:
    grown = {expansion.group for expansion in attempt.expansions}
    increases = [outcome for outcome in report.outcomes if isinstance(outcome.action, IncreaseSize)]
    return any(isinstance(outcome, Failed) and outcome.action.group in grown for outcome in increases)


def _first_status(report: LoopReport, plan: Plan) -> dict[str, Any]:
    if plan.halted == NO_READY_NODES:
        return {"result": "", "groups": {}}
    if plan.halted or plan.cut_short:
        return {"result": "ScaleUpNotTried", "groups": {}}
    return status(report, statuses(plan)[0])


def _deletions(cloud: Cloud) -> list[dict[str, Any]]:
    merged: dict[str, dict[str, Any]] = {}
    for group, node, force in cloud.deletions:
        call = merged.setdefault(group, {"group": group, "nodes": []})
        call["nodes"] = sorted([*call["nodes"], node])
        if force:
            call["force"] = True
    return [merged[group] for group in sorted(merged)]
