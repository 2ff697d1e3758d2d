"""A plan as ``nodewright plan`` shows it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import isfinite
from typing import Any, NamedTuple

import msgspec
from rich.console import Console
from rich.text import Text

from nodewright.cli.capacity_view import (
    buffer_expansions,
    buffer_json,
    print_buffers,
    print_requests,
    request_expansions,
    request_json,
)
from nodewright.cli.cost_view import cost_json, find_cost, print_cost
from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.plan_reasons import PodOutcome, PodVerdict, find_verdicts, fold_verdicts, rounds, why_group
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.clusterstate.readiness import describe_unhealthy
from nodewright.clusterstate.state import GroupState
from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import Budget, DisruptionConfig, Schedule, opening
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.group import GroupRef
from nodewright.model.plan import Expansion, PlannedAction, ScaleDownReport
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, SkipReason, Unremovable
from nodewright.planner.explain import buffers_planned, requests_planned
from nodewright.planner.limits import read_quotas
from nodewright.snapshot.observation import GroupSeen

_GOES, _UNNEEDED, _STAYS = "goes now", "unneeded", "stays"
_NODE_STYLES = {_GOES: "yellow", _UNNEEDED: "yellow", _STAYS: "dim"}


class _NodeRow(NamedTuple):
    """One node; nodes with an equal outcome and ``kind`` share a row."""

    outcome: str
    kind: str
    node: str
    why: str


_MOST_GROUPS = 30
_POD_STYLES = {
    PodOutcome.HELPED: "green",
    PodOutcome.FITS: "green",
    PodOutcome.AWAITS: "yellow",
    PodOutcome.WAITS: "yellow",
    PodOutcome.UNHELPED: "red",
    PodOutcome.HALTED: "red",
    PodOutcome.IGNORED: "dim",
}
SCHEMA = 1
NOTHING_TO_DO, GROWTH, UNHELPED = 0, 3, 4


def find_exit_code(dry_run: DryRun) -> int:
    """Return the exit code for ``--detailed-exitcode``."""
    if any(verdict.outcome in (PodOutcome.UNHELPED, PodOutcome.HALTED) for verdict in find_verdicts(dry_run)):
        return UNHELPED
    return GROWTH if dry_run.plan.actions or dry_run.plan.scale_down.removals else NOTHING_TO_DO


def print_nodes(console: Console, dry_run: DryRun) -> None:
    """Print a row for each reason, with its nodes."""
    rows: dict[tuple[str, str], list[_NodeRow]] = {}
    for row in _rows(dry_run):
        rows.setdefault((row.outcome, row.kind), []).append(row)
    if not rows:
        return
    table = make_table("Nodes", "nodes", "", "which", "why", right=("nodes",))
    order = list(_NODE_STYLES)
    for alike in sorted(rows.values(), key=lambda alike: order.index(alike[0].outcome)):
        first = alike[0]
        same = all(row.why == first.why for row in alike)
        why = first.why if same else f"{first.kind}; {first.node} for one: {first.why}"
        names = name_some([row.node for row in alike])
        table.add_row(safe(f"{len(alike):,}"), safe(first.outcome, _NODE_STYLES[first.outcome]), safe(names), safe(why))
    console.print(table)


def nodes_json(report: ScaleDownReport) -> dict[str, Any]:
    """Return the part about nodes of ``--output json``."""
    return {
        "result": report.result.value,
        "removals": [
            {
                "node": removal.node,
                "group": str(removal.group),
                "reason": removal.reason.value,
                "pods": list(removal.pods),
            }
            for removal in report.removals
        ],
        "unneeded": {node: format_moment(since) for node, since in sorted(report.unneeded.items())},
        "unremovable": {node: _unremovable_json(why) for node, why in sorted(_staying(report).items())},
        # JSON has no infinity: the utilization of a resource that is requested where nothing is allocatable.
        "utilization": {n: ratio if isfinite(ratio) else None for n, ratio in sorted(report.utilization.items())},
    }


def _rows(dry_run: DryRun) -> Iterator[_NodeRow]:
    report = dry_run.plan.scale_down
    leaving = {removal.node: removal for removal in report.removals}
    for node, removal in leaving.items():
        why = f"{removal.reason}, {count(len(removal.pods), 'pod')} to be moved"
        yield _NodeRow(_GOES, removal.reason.value, node, why)
    for node, since in report.unneeded.items():
        if node not in leaving:
            why = f"not needed for {format_duration(dry_run.state.now - since)}"
            held = _staying(report).get(node)
            yield _NodeRow(_UNNEEDED, held.code.value if held is not None else "", node, str(held or why))
    for node, reason in _staying(report).items():
        if node not in leaving and node not in report.unneeded:
            yield _NodeRow(_STAYS, reason.code.value, node, str(reason))


def _staying(report: ScaleDownReport) -> Mapping[str, Unremovable]:
    return {**report.passed_over, **report.unremovable}


def _unremovable_json(why: Unremovable) -> dict[str, str | None]:
    return {
        "code": why.code.value,
        "message": str(why),
        "pod": why.pod or None,
        "pod_code": why.pod_code.value if why.pod_code is not None else None,
        "found": why.found.value if why.found is not None else None,
    }


def find_warnings(dry_run: DryRun, strays: Sequence[Pod]) -> Iterator[str]:
    """Yield one sentence per warning; ``strays`` are pods on nodes that the dump lacks."""
    if dry_run.plan.halted:
        yield f"Nothing is planned: {dry_run.plan.halted}."
    elif dry_run.state.memory.unhealthy is not None:
        yield f"The {describe_unhealthy(dry_run.state.memory.unhealthy, dry_run.state.now)}."
    if dry_run.plan.partial:
        yield f"The plan is partial, {dry_run.plan.partial}."
    yield from _misread(dry_run)
    for warning in dry_run.plan.scale_up.warnings:
        yield f"{warning}."
    yield from _find_ignored(dry_run)
    yield from _find_without_price(dry_run)
    for read in read_quotas(dry_run.state.observation, dry_run.settings.limits):
        if read.problem:
            yield f"{read.quota.id} is not enforced: {read.problem}."
    if strays:
        names = name_some([pod.key for pod in strays])
        yield f"{count(len(strays), 'pod')} on nodes that the dump does not hold, left out: {names}."


def _misread(dry_run: DryRun) -> Iterator[str]:
    """Yield a warning for each provider that could not be read, and for each group whose price cannot be used."""
    seen = dry_run.state.observation
    for name, held in seen.providers.items():
        if held.problem:
            yield f"Provider {name} could not be read: {held.problem}."
    problems = (group.price_problem for group in seen.groups.values())
    yield from (f"{problem[0].upper()}{problem[1:]}." for problem in problems if problem)


def _find_without_price(dry_run: DryRun) -> Iterator[str]:
    """Yield a warning about groups with nodes but no price, if other groups have one: no move gives these nodes up."""
    state = dry_run.state
    refs = dict.fromkeys(state.group_of_node.values())
    without = [str(ref) for ref in refs if ref in state.groups and not state.groups[ref].seen.hourly_price]
    if dry_run.settings.seeks_moves and without and any(group.seen.hourly_price for group in state.groups.values()):
        names = name_some(sorted(without))
        yield f"Nodes of groups without a price are not given up for cheaper ones (--consolidation-policy): {names}."


def _find_ignored(dry_run: DryRun) -> Iterator[str]:
    """Yield a warning for each kind of object in the dump that the settings ignore."""
    seen, settings = dry_run.state.observation, dry_run.settings
    options, buffers = settings.provisioning, settings.buffers.are_read
    asks, classes = options.enable_provisioning_requests, options.enable_provisioning_classes
    for_classes = "enable-provisioning-requests" if classes else "enable-provisioning-classes"
    for objects, is_on, noun, of, flag in (
        (seen.provisioning.requests, asks, "request", "for capacity", "enable-provisioning-requests"),
        (seen.provisioning.classes, asks and classes, "definition", "of request classes", for_classes),
        (seen.buffers.buffers, buffers, "buffer", "of spare capacity", "capacity-buffer-controller-enabled"),
        (seen.quotas, settings.limits.capacity_quotas_enabled, "quota", "of capacity", "capacity-quotas-enabled"),
    ):
        if objects and not is_on:
            are = "is" if len(objects) == 1 else "are"
            yield f"{count(len(objects), noun)} {of} {are} ignored: --{flag} is off."


def print_plan(console: Console, dry_run: DryRun, source: str, strays: Sequence[Pod], *, folded: bool) -> None:
    """Print a plan; ``folded`` puts pods with equal reasons into one row."""
    seen, verdicts = dry_run.state.observation, find_verdicts(dry_run)
    nodes = count(int(seen.snapshot.alive.sum()), "node")
    pending = count(len(seen.pending), "pending pod")
    console.print(safe(f"{source}, as of {format_moment(dry_run.state.now)}: {nodes}, {pending}"), end="\n\n")
    for warning in find_warnings(dry_run, strays):
        console.print(safe(warning, "yellow"))
    _print_groups(console, dry_run)
    _print_disruption(console, dry_run)
    print_cost(console, find_cost(dry_run))
    _print_other_actions(console, dry_run)
    print_nodes(console, dry_run)
    print_requests(console, requests_planned(dry_run.state, dry_run.plan), dry_run.state.now)
    print_buffers(console, buffers_planned(dry_run.plan))
    _print_pods(console, verdicts, folded=folded)
    console.print(_conclusion(dry_run, verdicts))


def _print_groups(console: Console, dry_run: DryRun) -> None:
    report = dry_run.plan.scale_up
    table = make_table("Node groups", "group", "nodes", "max", "why", right=("nodes", "max"))
    growing = _by_group(_all_expansions(dry_run))
    rows = [(ref, group, why_group(dry_run, ref)) for ref, group in dry_run.state.groups.items()]
    shown = [row for row in rows if row[0] in growing or row[2]] if len(rows) > _MOST_GROUPS else rows
    shown.sort(key=lambda row: (row[0] not in growing, row[0] in report.skipped))
    for ref, group, why in shown:
        grows = ref in growing
        cells = (_size(group, growing.get(ref)), safe(f"{group.seen.group.max_size:,}"))
        table.add_row(safe(ref, "bold" if grows else ""), *cells, safe(why or "no pending pod needs it"))
    if shown:
        console.print(table)
    if len(shown) < len(rows):
        console.print(
            safe(f"{count(len(rows) - len(shown), 'group')} that no pending pod needs: see --output json"), end="\n\n"
        )


def _print_disruption(console: Console, dry_run: DryRun) -> None:
    rows = disruption_json(dry_run.state.observation.disruption, dry_run.state.now)
    if not rows:
        return
    table = make_table("Budgets and schedules", "entry", "holds", "until", "says")
    for row in rows:
        said = {key: row[key] for key in ("nodes", "reasons", "set") if row.get(key)}
        told = ", ".join(f"{key} {msgspec.json.encode(value).decode()}" for key, value in said.items())
        table.add_row(*map(safe, (row["entry"], "yes" if row["holds"] else "no", row["until"] or "", told)))
    console.print(table)


def disruption_json(config: DisruptionConfig, now: float) -> list[dict[str, Any]]:
    """Return each disruption budget and schedule, and whether it holds at ``now`` (epoch seconds)."""
    rows = list[dict[str, Any]]()
    entries: list[tuple[str, Budget | Schedule]] = [
        (f"disruption[{n}]", one) for n, one in enumerate(config.disruption)
    ]
    entries += [(f"schedules[{n}]", one) for n, one in enumerate(config.schedules)]
    for name, entry in entries:
        held = opening(entry.when, now)
        until = format_moment(held.until) if isfinite(held.until) else None
        fields = {key: value for key, value in msgspec.to_builtins(entry).items() if key != "when"}
        if isinstance(entry, Schedule):
            fields["set"] = entry.set.given()
        rows.append({"entry": name, "holds": held.is_open, "until": until, **fields})
    return rows


def _by_group(expansions: Iterable[Expansion]) -> dict[GroupRef, Expansion]:
    """Return one expansion per group, from its first size to its last."""
    found: dict[GroupRef, Expansion] = {}
    for one in expansions:
        first = found.get(one.group, one)
        found[one.group] = replace(one, current=min(first.current, one.current), target=max(first.target, one.target))
    return found


def _all_expansions(dry_run: DryRun) -> Iterator[Expansion]:
    for report in rounds(dry_run.plan):
        yield from report.expansions
    yield from request_expansions(dry_run)
    yield from buffer_expansions(dry_run)
    if dry_run.plan.hedge is not None:
        yield from dry_run.plan.hedge.expansions
    if dry_run.plan.min_size is not None:
        yield from dry_run.plan.min_size.expansions
    for action in dry_run.plan.actions:
        if isinstance(action, IncreaseSize) and action.move:
            most = dry_run.state.groups[action.group].seen.group.max_size
            yield Expansion(group=action.group, current=action.expected_target, target=action.target, maximum=most)


def _size(group: GroupState, expansion: Expansion | None) -> Text:
    if expansion is not None:
        return safe(f"{expansion.current:,} → {expansion.target:,}", "bold green")
    return safe("?" if group.seen.target is None else f"{group.seen.target:,}")


def _print_other_actions(console: Console, dry_run: DryRun) -> None:
    others = [action for action in dry_run.plan.actions if not isinstance(action, IncreaseSize)]
    if not others:
        return
    table = make_table("Other writes", "group", "action", "why")
    for action in others:
        table.add_row(safe(action.group), safe(type(action).__name__), safe(action.reason))
    console.print(table)


def _print_pods(console: Console, verdicts: Iterable[PodVerdict], *, folded: bool) -> None:
    rows = fold_verdicts(verdicts) if folded else [[verdict] for verdict in verdicts]
    if not rows:
        return
    table = make_table("Pending pods", "pods", "", "which", "why", right=("pods",))
    order = list(PodOutcome)
    for alike in sorted(rows, key=lambda alike: order.index(alike[0].outcome)):
        first = alike[0]
        names = name_some([verdict.pod.key for verdict in alike])
        table.add_row(
            safe(f"{len(alike):,}"), safe(first.outcome, _POD_STYLES[first.outcome]), safe(names), _why_pod(first)
        )
    console.print(table)


def _why_pod(verdict: PodVerdict) -> Text:
    """Return one line per reason, with its groups."""
    groups: dict[str, list[str]] = {}
    for ref, reason in verdict.reasons.items():
        groups.setdefault(str(reason), []).append(str(ref))
    if not groups:
        return safe(verdict.reason)
    return Text("\n").join(safe(f"{name_some(refs)}: {reason}") for reason, refs in groups.items())


def _conclusion(dry_run: DryRun, verdicts: Iterable[PodVerdict]) -> Text:
    """Return the plan in one sentence."""
    grown = list(_all_expansions(dry_run))
    added = sum(expansion.added for expansion in grown)
    outcomes = [verdict.outcome for verdict in verdicts]
    lost = sum(outcome in (PodOutcome.UNHELPED, PodOutcome.HALTED) for outcome in outcomes)
    helped = outcomes.count(PodOutcome.HELPED)
    left = f"; {count(lost, 'pod')} {'is' if lost == 1 else 'are'} not helped" if lost else ""
    removals = len(dry_run.plan.scale_down.removals)
    left += f"; {count(removals, 'node')} {'goes' if removals == 1 else 'go'}" if removals else ""
    if not grown:
        return safe(f"Plan: no group grows{left}.", "bold")
    where = count(len(_by_group(grown)), "group")
    asked = {
        one.request.key
        for one in dry_run.plan.actions
        if isinstance(one, IncreaseSize) and one.request is not None and not one.request.is_gang
    }
    spare = any(True for _ in buffer_expansions(dry_run))
    moves = {one.move for one in dry_run.plan.actions if isinstance(one, IncreaseSize) and one.move}
    whom = [count(helped, "pod")] if helped or not (asked or spare or moves) else []
    whom += [count(len(asked), "request")] if asked else []
    whom += [count(len(moves), "move")] if moves else []
    whom += ["spare capacity"] if spare else []
    return safe(f"Plan: {count(added, 'more node')} in {where} for {' and '.join(whom)}{left}.", "bold")


def as_json(dry_run: DryRun, source: str, strays: Sequence[Pod]) -> dict[str, Any]:
    """Return the document of ``--output json``, with every pending pod and every group.

    docs/commands.md describes its keys. Keys are only ever added.
    """
    plan, seen = dry_run.plan, dry_run.state.observation
    return {
        "schema": SCHEMA,
        "source": source,
        "now": format_moment(dry_run.state.now),
        "result": plan.scale_up.result.value,
        "halted": plan.halted or None,
        "partial": plan.partial or None,
        "warnings": list(find_warnings(dry_run, strays)),
        "cluster": {
            "nodes": int(seen.snapshot.alive.sum()),
            "pending_pods": len(seen.pending),
            "stray_pods": [pod.key for pod in strays],
            "healthy": dry_run.state.healthy,
        },
        "actions": [_action_json(action) for action in plan.actions],
        "expansions": [
            *_expansions_json((one for report in rounds(plan) for one in report.expansions), "pods"),
            *_expansions_json(request_expansions(dry_run), "request"),
            *_expansions_json(buffer_expansions(dry_run), "buffer"),
            *_expansions_json(plan.hedge.expansions if plan.hedge is not None else (), "hedge"),
            *_expansions_json(plan.min_size.expansions if plan.min_size is not None else (), "min_size"),
        ],
        "options": [
            {"group": str(option.group), "nodes": option.nodes, "pods": option.pods, "chosen": option.chosen}
            for report in rounds(plan)
            for option in report.options
        ],
        "cost": cost_json(find_cost(dry_run)),
        "groups": [_group_json(group, dry_run) for group in dry_run.state.groups.values()],
        "providers": [{"name": name, "problem": held.problem or None} for name, held in seen.providers.items()],
        "disruption": disruption_json(dry_run.state.observation.disruption, dry_run.state.now),
        "scale_down": nodes_json(plan.scale_down),
        "pods": [_pod_json(verdict) for verdict in find_verdicts(dry_run)],
        "capacity_requests": [request_json(one) for one in requests_planned(dry_run.state, plan)],
        "capacity_buffers": [buffer_json(one) for one in buffers_planned(plan)],
    }


def _action_json(action: PlannedAction) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(action)
    return {"type": type(action).__name__, **fields, "group": str(action.group)}


def _expansions_json(expansions: Iterable[Expansion], purpose: str) -> list[dict[str, Any]]:
    return [_expansion_json(expansion, purpose) for expansion in expansions]


def _expansion_json(expansion: Expansion, purpose: str) -> dict[str, Any]:
    return {
        "group": str(expansion.group),
        "current": expansion.current,
        "target": expansion.target,
        "max": expansion.maximum,
        "purpose": purpose,
    }


def _group_json(group: GroupState, dry_run: DryRun) -> dict[str, Any]:
    seen, skipped = group.seen, dry_run.plan.scale_up.skipped.get(group.ref)
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
        "price": _price_json(seen),
        "autoprovisioned": seen.group.autoprovisioned or None,
        "skipped": _reason_json(skipped) if skipped is not None else None,
        "problem": dry_run.state.observation.groups[group.ref].problem or None,
    }


def _price_json(seen: GroupSeen) -> dict[str, Any] | None:
    price = seen.price
    if price is None:
        return None
    as_of = datetime.fromtimestamp(price.as_of, UTC).date().isoformat() if price.as_of is not None else None
    reserved = msgspec.to_builtins(seen.reserved)
    return {"source": price.source, "as_of": as_of, "spot": price.spot, "reserved": reserved}


def _pod_json(verdict: PodVerdict) -> dict[str, Any]:
    return {
        "pod": verdict.pod.key,
        "outcome": verdict.outcome.value,
        "reason": verdict.reason,
        "groups": {str(ref): _reason_json(reason) for ref, reason in verdict.reasons.items()},
    }


def _reason_json(reason: Rejection | SkipReason) -> dict[str, str]:
    code = reason.code.value if isinstance(reason, SkipReason) else reason.predicate
    return {"code": code, "message": str(reason)}
