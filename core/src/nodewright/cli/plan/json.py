"""The document of ``nodewright plan --output json``; docs/commands.md describes its keys, which only ever grow."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from nodewright.cli.buffer_view import buffer_expansions, buffer_json
from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.plan.nodes import nodes_json
from nodewright.cli.plan.verdicts import Verdict, find_verdicts, rounds
from nodewright.cli.plan.warnings import find_warnings
from nodewright.cli.request_view import request_expansions, request_json
from nodewright.clusterstate.state import GroupState
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, SkipReason
from nodewright.model.timestamps import format_moment
from nodewright.planner.explain import buffers_planned, requests_planned
from nodewright.planner.plan import Expansion, PlannedAction

SCHEMA = 1


def as_json(trial: Trial, source: str, strays: Sequence[Pod]) -> dict[str, Any]:
    """Everything the plan says; every pending pod and every group is there."""
    plan, seen = trial.plan, trial.state.observation
    return {
        "schema": SCHEMA,
        "source": source,
        "now": format_moment(trial.state.now),
        "result": plan.scale_up.result.value,
        "halted": plan.halted or None,
        "partial": plan.partial or None,
        "warnings": list(find_warnings(trial, strays)),
        "cluster": {
            "nodes": int(seen.snapshot.alive.sum()),
            "pending_pods": len(seen.pending),
            "stray_pods": [pod.key for pod in strays],
            "healthy": trial.state.healthy,
        },
        "actions": [_action(action) for action in plan.actions],
        "expansions": [
            *_expansions((one for report in rounds(plan) for one in report.expansions), "pods"),
            *_expansions(request_expansions(trial), "request"),
            *_expansions(buffer_expansions(trial), "buffer"),
            *_expansions(plan.hedge.expansions if plan.hedge is not None else (), "hedge"),
            *_expansions(plan.min_size.expansions if plan.min_size is not None else (), "min_size"),
        ],
        "options": [
            {"group": str(option.group), "nodes": option.nodes, "pods": option.pods, "chosen": option.chosen}
            for report in rounds(plan)
            for option in report.options
        ],
        "groups": [_group(group, trial) for group in trial.state.groups.values()],
        "providers": [{"name": name, "problem": held.problem or None} for name, held in seen.providers.items()],
        "scale_down": nodes_json(plan.scale_down),
        "pods": [_pod(verdict) for verdict in find_verdicts(trial)],
        "capacity_requests": [request_json(one) for one in requests_planned(trial.state, plan)],
        "capacity_buffers": [buffer_json(one) for one in buffers_planned(plan)],
    }


def _action(action: PlannedAction) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(action)
    return {"type": type(action).__name__, **fields, "group": str(action.group)}


def _expansions(expansions: Iterable[Expansion], purpose: str) -> list[dict[str, Any]]:
    return [_expansion(expansion, purpose) for expansion in expansions]


def _expansion(expansion: Expansion, purpose: str) -> dict[str, Any]:
    return {
        "group": str(expansion.group),
        "current": expansion.current,
        "target": expansion.target,
        "max": expansion.maximum,
        "purpose": purpose,
    }


def _group(group: GroupState, trial: Trial) -> dict[str, Any]:
    seen, skipped = group.seen, trial.plan.scale_up.skipped.get(group.ref)
    return {
        "group": str(group.ref),
        "provider": group.ref.provider,
        "id": group.ref.group_id,
        "min": seen.group.min_size,
        "max": seen.group.max_size,
        "target": seen.target,
        "ready": len(group.readiness.ready),
        "upcoming": group.upcoming,
        "hourly_price": seen.hourly_price,
        "autoprovisioned": seen.group.autoprovisioned or None,
        "skipped": _reason(skipped) if skipped is not None else None,
        "problem": trial.state.observation.groups[group.ref].problem or None,
    }


def _pod(verdict: Verdict) -> dict[str, Any]:
    return {
        "pod": verdict.pod.key,
        "fate": verdict.fate.value,
        "reason": verdict.reason,
        "groups": {str(ref): _reason(reason) for ref, reason in verdict.reasons.items()},
    }


def _reason(reason: Rejection | SkipReason) -> dict[str, str]:
    code = reason.code.value if isinstance(reason, SkipReason) else reason.predicate
    return {"code": code, "message": str(reason)}
