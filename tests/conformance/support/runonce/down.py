"""One loop in the words of a case's expectation: which nodes go, which could, and why the others stay."""

from dataclasses import replace
from random import Random
from typing import Any

from nodewright.engine.report import LoopReport
from nodewright.model.plan import ScaleDownReport
from nodewright.model.settings import Settings
from nodewright.planner.make_plan import NO_READY_NODES, make_plan
from runonce.record import Record, is_refused, statuses
from runonce.world import World

_HARD = "ToBeDeletedByClusterAutoscaler"
_SOFT = "DeletionCandidateOfClusterAutoscaler"


def make_scale_down(report: LoopReport, world: World, settings: Settings, before: Record) -> Record:
    """Read right after the loop function returned. ``before`` is the record of the loop before."""
    assert report.plan is not None
    if report.plan.halted == NO_READY_NODES:
        return {"scaleDown": {"result": "", "nodes": {}}}
    down = _after_refusal(report, settings) or report.plan.scale_down
    did_not_look = report.plan.halted or report.plan.cut_short
    return {
        "scaleDown": {"result": str(down.result), "nodes": {r.node: sorted(r.pods) for r in down.removals}},
        "unneeded": before.get("unneeded", []) if report.plan.cut_short else sorted(down.unneeded),
        # CA goes on showing what it found when it last looked.
        "unremovable": before.get("unremovable", {}) if did_not_look else _unremovable(down),
        "deletionCandidateTaint": _bearers(world, _SOFT),
        "toBeDeletedTaint": _bearers(world, _HARD),
    }


def _after_refusal(report: LoopReport, settings: Settings) -> ScaleDownReport | None:
    """CA plans removals after it has grown, so that it knows by then that it has not; None: nothing was refused.

    Here both are planned before either is done. Removals of the next loop's plan, if any, come a loop later.
    """
    assert report.state is not None
    assert report.plan is not None
    if not any(is_refused(report, attempt) for attempt in statuses(report.plan)):
        return None
    # No request is examined once more, and what was provisioned holds its room.
    held = report.state.observation.provisioning
    held = replace(held, requests=tuple(request for request in held.requests if request.has("Provisioned")))
    seen, memory = replace(report.state.observation, pending=report.plan.fitting), report.state.memory
    seen = replace(seen, provisioning=held)
    fresh = seen.now + settings.scale_down.unremovable_node_recheck_timeout
    rechecks = {name: known for name, known in memory.scale_down.rechecks.items() if known.at != fresh}
    memory = replace(memory, scale_down=replace(memory.scale_down, rechecks=rechecks))
    again = make_plan(replace(report.state, observation=seen, memory=memory), settings, Random(0))[0].scale_down
    return replace(again, removals=())


def _unremovable(down: ScaleDownReport) -> dict[str, Any]:
    found = {}
    for node, why in down.unremovable.items():
        blocking = {"pod": why.pod, "podReason": str(why.pod_code)} if why.pod_code is not None else {}
        found[node] = {"reason": str(why.code), **blocking}
    return found


def _bearers(world: World, key: str) -> list[str]:
    nodes = world.of_kind("Node")
    return sorted(
        node["metadata"]["name"] for node in nodes if any(t["key"] == key for t in node["spec"].get("taints") or ())
    )
