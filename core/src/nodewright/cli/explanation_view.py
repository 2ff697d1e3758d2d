"""An explanation as ``nodewright explain`` shows it, as a table or as JSON."""

from collections.abc import Iterable
from math import ceil
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from nodewright.cli.capacity_view import buffer_json, buffer_line, request_json, request_line
from nodewright.cli.explanation import (
    RUNS,
    BufferExplanation,
    Explanation,
    GroupExplanation,
    LoopExplanation,
    PodExplanation,
    RequestExplanation,
)
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.model.duration import format_duration, format_moment
from nodewright.planner.explain import GroupFacts, NodeExplanation, NodeOutcome, NodeRejections, PodAfterDrain, Usage
from nodewright.planner.scale_down.drainability import DrainOutcome

_STYLES = {
    DrainOutcome.BLOCK: "red",
    DrainOutcome.MOVE: "green",
    DrainOutcome.AWAIT: "yellow",
    DrainOutcome.DAEMON: "dim",
    DrainOutcome.SKIP: "dim",
}
_WORDS = {
    DrainOutcome.BLOCK: "blocks",
    DrainOutcome.MOVE: "moves",
    DrainOutcome.AWAIT: "is waited for",
    DrainOutcome.DAEMON: "goes along",
    DrainOutcome.SKIP: "goes along",
}
_RULES = {
    "Mirror": "a mirror pod, which the kubelet creates",
    "LongTerminating": "its deletion is overdue",
    "DaemonSet": "of a DaemonSet",
    "Terminating": "it is terminating already, and its controller creates another one",
    "OnCompletion": "it asks to be waited for until it has ended",
}
_NO_OTHER = "there is no other node that it could go to"
_OUTCOMES = {NodeOutcome.GOING: "is being removed", NodeOutcome.GOES: "goes now", NodeOutcome.UNNEEDED: "is not needed"}
SCHEMA = 1
_MOST_LINES = 20


def print_explanation(console: Console, found: Explanation) -> None:
    """Print one sentence, then its details."""
    if isinstance(found, NodeExplanation):
        _print_node(console, found)
    elif isinstance(found, PodExplanation):
        _print_pod(console, found)
    elif isinstance(found, GroupExplanation):
        _print_group(console, found)
    elif isinstance(found, BufferExplanation):
        _print_buffer(console, found)
    elif isinstance(found, LoopExplanation):
        _print_loop(console, found)
    else:
        _print_request(console, found)


def _print_headline(console: Console, text: str) -> None:
    """Print the sentence without line breaks: a terminal wraps it, and grep finds it in one line."""
    console.print(safe(text, "bold"), soft_wrap=True)


def _print_node(console: Console, found: NodeExplanation) -> None:
    _print_headline(console, f"Node {found.node}, as of {format_moment(found.now)}: {_sentence(found)}")
    console.print()
    facts = _facts_table()
    facts.add_row("group", safe(_group_line(found.group) if found.group is not None else "none"))
    facts.add_row("ready", safe("yes" if found.is_ready else "no"))
    if found.usage is not None:
        facts.add_row("utilization", safe(_usage_line(found.usage)))
    timers = found.timers
    if timers.unneeded_since is not None and timers.removable_at is not None:
        since = f"since {_when(timers.unneeded_since, found.now)}, long enough after {_when(timers.removable_at, found.now)}"
        facts.add_row("not needed", safe(since))
    if timers.cooldown_until is not None:
        facts.add_row("cool-down", safe(f"no removal begins before {_when(timers.cooldown_until, found.now)}"))
    if timers.recheck_at is not None:
        facts.add_row("looked at again", safe(f"after {_when(timers.recheck_at, found.now)}"))
    if timers.never_ready_until is not None:
        end = f"its machine is deleted after {_when(timers.never_ready_until, found.now)}, unless the minimum size keeps it"
        facts.add_row("never ready", safe(f"{end}, or it has pods that do not belong to a DaemonSet"))
    if timers.last_failed_at is not None:
        facts.add_row(
            "last attempt", safe(f"failed at {_when(timers.last_failed_at, found.now)}: {found.last_failure}")
        )
    told = (("interrupted", found.interruption), ("move", found.move), ("to be replaced", found.outdated))
    for what, text in told:
        if text:
            facts.add_row(what, safe(text))
    if found.disputed:
        facts.add_row("cloud", safe(f"calls it a failed creation ({found.disputed}); it ran, so it counts as a node"))
    console.print(facts)
    console.print()
    _print_outlooks(console, found.pods)


def _sentence(found: NodeExplanation) -> str:
    if found.removal is not None:
        moved = f"{count(len(found.removal.pods), 'pod')} to be moved"
        stage = f", {found.stage}" if found.stage is not None else ""
        return f"{_OUTCOMES[found.outcome]} ({found.removal.reason}, {moved}{stage})."
    said = "; ".join(filter(None, (found.reason.describe() if found.reason is not None else "", found.note)))
    if found.outcome is NodeOutcome.UNNEEDED:
        return f"is not needed, and still there: {said}."
    return f"stays: {said}." if found.outcome is NodeOutcome.STAYS else f"nothing is decided about it: {said}."


def _print_pod(console: Console, found: PodExplanation) -> None:
    where = f"runs on {found.node}" if found.outcome == RUNS else found.outcome
    reason = f": {found.reason}" if found.reason else ""
    room = f" ({found.node})" if found.node and found.outcome != RUNS else ""
    _print_headline(console, f"Pod {found.pod}, as of {format_moment(found.now)}: {where}{reason}{room}.")
    facts = _facts_table()
    for ref, why in found.groups:
        facts.add_row(safe(ref), safe(why))
    if found.refusals:
        facts.add_row("existing nodes", safe(refusals_line(found.refusals)))
    if facts.row_count:
        console.print(facts)
    if found.outlook is not None and found.of_node is not None:
        console.print(
            safe(f"If that node went: {_WORDS[found.outlook.outcome]}; {_outlook_line(found.outlook)}."), soft_wrap=True
        )
        console.print(safe(f"The node {_sentence(found.of_node)}"), soft_wrap=True)


def _print_group(console: Console, found: GroupExplanation) -> None:
    head = f"Group {_group_line(found.facts)}, as of {format_moment(found.now)}"
    _print_headline(console, f"{head}: {found.growth}.")
    facts = _facts_table()
    facts.add_row("upcoming", safe(count(found.upcoming, "machine")))
    if found.backoff_until is not None:
        facts.add_row("backoff", safe(f"until {_when(found.backoff_until, found.now)}"))
    if found.deferred_until is not None:
        facts.add_row("deferred", safe(f"until {_when(found.deferred_until, found.now)}: the cloud is busy"))
    if found.problem:
        facts.add_row("problem", safe(found.problem, "yellow"))
    for line in found.template:
        facts.add_row("template", safe(line))
    console.print(facts)
    console.print()
    table = make_table("Its nodes", "nodes", "", "which", "why", right=("nodes",))
    for alike in found.nodes:
        more = alike.count - len(alike.nodes)
        names = ", ".join(alike.nodes) + (f" and {more:,} more" if more > 0 else "")
        code = f"{alike.code} ({alike.found})" if alike.found else alike.code
        table.add_row(
            safe(f"{alike.count:,}"), safe(_OUTCOMES.get(alike.outcome, alike.outcome)), safe(names), safe(code)
        )
    if table.row_count:
        console.print(table)


def _print_request(console: Console, found: RequestExplanation) -> None:
    one, facts = found.facts, _facts_table()
    _print_headline(console, f"Request {one.request}, as of {format_moment(found.now)}: {one.phase}.")
    facts.add_row("why", safe(request_line(one, found.now)))
    facts.add_row("class", safe(one.class_name))
    facts.add_row("pods", safe(f"{one.pods:,}"))
    facts.add_row(safe(one.phase), safe(f"since {_when(one.since, found.now)}"))
    for name, message in found.notes:
        facts.add_row(safe(name), safe(message))
    console.print(facts)


def _print_buffer(console: Console, found: BufferExplanation) -> None:
    one, facts = found.facts, _facts_table()
    _print_headline(console, f"Buffer {one.buffer}, as of {format_moment(found.now)}: {one.state}.")
    well = f"all of its room is there, for {count(one.pods, 'pod')}" if one.pods else "no pods are wanted"
    facts.add_row("why", safe(buffer_line(one) or well))
    facts.add_row("pods like", safe(one.shape))
    facts.add_row(
        "pods", safe(f"{one.pods:,}: {one.held:,} with room, {one.coming:,} on its way, {one.missing:,} without")
    )
    for kind, said in found.notes:
        facts.add_row(safe(kind), safe(said))
    console.print(facts)


def _print_loop(console: Console, found: LoopExplanation) -> None:
    if found.does:
        head = "something is done"
    else:
        head = "nothing is done" + ("" if found.stops else ", and nothing stops it: there is nothing to do")
    _print_headline(console, f"The loop as of {format_moment(found.now)}: {head}.")
    facts = _facts_table()
    for name, lines, style in (
        ("stops", found.stops, "yellow"),
        ("does", found.does, ""),
        ("otherwise", found.idle, ""),
    ):
        for line in lines[:_MOST_LINES]:
            facts.add_row(name, safe(line, style))
        if len(lines) > _MOST_LINES:
            facts.add_row(name, safe(f"and {len(lines) - _MOST_LINES:,} more: see --output json"))
    console.print(facts)


def _print_outlooks(console: Console, pods: Iterable[PodAfterDrain]) -> None:
    table = make_table("Its pods, if it went", "pod", "", "why")
    for pod in pods:
        stuck = pod.outcome is DrainOutcome.MOVE and not pod.place
        word, style = ("has no place", "red") if stuck else (_WORDS[pod.outcome], _STYLES[pod.outcome])
        name = f"{pod.pod} (not there yet)" if pod.arrives else pod.pod
        table.add_row(safe(name), safe(word, style), safe(_outlook_line(pod)))
    if table.row_count:
        console.print(table)


def _outlook_line(pod: PodAfterDrain) -> str:
    if pod.outcome is DrainOutcome.BLOCK:
        return f"{pod.code}: {pod.message}"
    if pod.outcome is not DrainOutcome.MOVE:
        return _RULES.get(pod.rule, pod.rule)
    if not pod.place:
        return refusals_line(pod.refusals) or _NO_OTHER
    others = f", one of {pod.choices:,} nodes that would take it" if pod.choices > 1 else ""
    return f"to {pod.place}{others}"


def refusals_line(refusals: Iterable[NodeRejections]) -> str:
    """Return the rejections as ``3 nodes: Insufficient cpu; n-4: taint dedicated=db:NoSchedule``."""
    return "; ".join(f"{_which(refusal)}: {refusal.reason}" for refusal in refusals)


def _which(refusal: NodeRejections) -> str:
    return count(refusal.count, "node") if refusal.count > len(refusal.nodes) else name_some(refusal.nodes)


def _facts_table() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _group_line(facts: GroupFacts) -> str:
    target = "an unknown number" if facts.target is None else f"{facts.target:,}"
    whole = ", all or none" if facts.whole else ""
    return f"{facts.ref} with {target} of {facts.min_size:,} to {facts.max_size:,} nodes{whole}, {facts.ready:,} ready"


def _usage_line(usage: Usage) -> str:
    limit = f"the threshold is {usage.threshold * 100:g} %"
    if usage.problem:
        return f"unknown: {usage.problem}"
    if usage.ratio is None:
        return f"{usage.resource} is requested, but none is allocatable; {limit}"
    # Rounded up, so that a ratio above the threshold never looks equal to it.
    return f"{usage.resource} {ceil(usage.ratio * 1000 - 1e-9) / 10:.10g} %, {limit}"


def _when(at: float, now: float) -> str:
    away = format_duration(round(abs(at - now)))
    return f"{format_moment(at)} ({away} ago)" if at <= now else f"{format_moment(at)} (in {away})"


def as_json(found: Explanation) -> dict[str, Any]:
    """Return the document of ``--output json``."""
    head = {"schema": SCHEMA, "now": format_moment(found.now)}
    if isinstance(found, NodeExplanation):
        return head | _node(found)
    if isinstance(found, LoopExplanation):
        return head | {"stops": list(found.stops), "does": list(found.does), "otherwise": list(found.idle)}
    if isinstance(found, RequestExplanation):
        return (
            head | request_json(found.facts) | {"told": [{"to": name, "message": said} for name, said in found.notes]}
        )
    if isinstance(found, BufferExplanation):
        return head | buffer_json(found.facts) | {"conditions": dict(found.notes)}
    return head | (_pod(found) if isinstance(found, PodExplanation) else _group(found))


def _node(found: NodeExplanation) -> dict[str, Any]:
    timers = msgspec.structs.asdict(found.timers)
    removal = found.removal
    return {
        "node": found.node,
        "outcome": found.outcome.value,
        "ready": found.is_ready,
        "reason": _plain(found.reason),
        "note": found.note or None,
        "removal": removal and {"reason": removal.reason.value, "pods": list(removal.pods)},
        "stage": found.stage and found.stage.value,
        "group": found.group and _facts(found.group),
        "utilization": _plain(found.usage),
        **{name: _moment(at) for name, at in timers.items()},
        "last_failure": found.last_failure or None,
        "disputed": found.disputed or None,
        "interruption": found.interruption or None,
        "move": found.move or None,
        "outdated": found.outdated or None,
        "pods": [_outlook(pod) for pod in found.pods],
    }


def _pod(found: PodExplanation) -> dict[str, Any]:
    return {
        "pod": found.pod,
        "outcome": found.outcome,
        "reason": found.reason or None,
        "node": found.node or None,
        "groups": [{"group": ref, "message": why} for ref, why in found.groups],
        "refusals": _plain(found.refusals),
        "if_node_goes": found.outlook and _outlook(found.outlook),
        "node_outcome": found.of_node and found.of_node.outcome.value,
        "node_reason": found.of_node and _plain(found.of_node.reason),
    }


def _group(found: GroupExplanation) -> dict[str, Any]:
    return {
        **_facts(found.facts),
        "upcoming": found.upcoming,
        "growth": found.growth,
        "problem": found.problem or None,
        "backoff_until": _moment(found.backoff_until),
        "deferred_until": _moment(found.deferred_until),
        "template": list(found.template),
        "nodes": _plain(found.nodes),
    }


def _outlook(pod: PodAfterDrain) -> dict[str, Any]:
    held: dict[str, Any] = _plain(pod)
    return held | {key: held[key] or None for key in ("rule", "message", "place")}


def _facts(facts: GroupFacts) -> dict[str, Any]:
    return {
        "group": str(facts.ref),
        "min": facts.min_size,
        "max": facts.max_size,
        "target": facts.target,
        "ready": facts.ready,
        "zero_or_max": facts.whole,
    }


def _moment(at: float | None) -> str | None:
    return format_moment(at) if at is not None else None


def _plain(value: object) -> Any:
    """Return structs as mappings."""
    return msgspec.to_builtins(value)
