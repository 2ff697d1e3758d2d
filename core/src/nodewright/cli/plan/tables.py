"""A plan as people read it: what grows, what becomes of every pod, and why."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from nodewright.cli.buffer_view import buffer_expansions, print_buffers
from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.plan.nodes import print_nodes
from nodewright.cli.plan.verdicts import Fate, Verdict, find_verdicts, rounds
from nodewright.cli.plan.warnings import find_warnings
from nodewright.cli.request_view import print_requests, request_expansions
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.clusterstate.state import GroupState
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.timestamps import format_moment
from nodewright.planner.explain import buffers_planned, requests_planned
from nodewright.planner.plan import Expansion, ScaleUpReport

_MOST_GROUPS = 30
_STYLES = {
    Fate.HELPED: "green",
    Fate.FITS: "green",
    Fate.AWAITS: "yellow",
    Fate.WAITS: "yellow",
    Fate.UNHELPED: "red",
    Fate.HALTED: "red",
    Fate.IGNORED: "dim",
}


def print_trial(console: Console, trial: Trial, source: str, strays: Sequence[Pod], *, folded: bool) -> None:
    """Everything of a plan; ``folded`` puts pods with equal reasons into one row."""
    seen, verdicts = trial.state.observation, find_verdicts(trial)
    nodes = count(int(seen.snapshot.alive.sum()), "node")
    pending = count(len(seen.pending), "pending pod")
    console.print(safe(f"{source}, as of {format_moment(trial.state.now)}: {nodes}, {pending}"), end="\n\n")
    for warning in find_warnings(trial, strays):
        console.print(safe(warning, "yellow"))
    _print_groups(console, trial)
    _print_other_actions(console, trial)
    print_nodes(console, trial)
    print_requests(console, requests_planned(trial.state, trial.plan), trial.state.now)
    print_buffers(console, buffers_planned(trial.plan))
    _print_pods(console, verdicts, folded=folded)
    console.print(_conclusion(trial, verdicts))


def _print_groups(console: Console, trial: Trial) -> None:
    report = trial.plan.scale_up
    table = make_table("Node groups", "group", "nodes", "max", "why", right=("nodes", "max"))
    growing = _by_group(_expansions(trial))
    rows = [(ref, group, why_group(trial, ref)) for ref, group in trial.state.groups.items()]
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


def _by_group(expansions: Iterable[Expansion]) -> dict[GroupRef, Expansion]:
    """One a group, from its first size to its last."""
    found: dict[GroupRef, Expansion] = {}
    for one in expansions:
        first = found.get(one.group, one)
        found[one.group] = replace(one, current=min(first.current, one.current), target=max(first.target, one.target))
    return found


def _expansions(trial: Trial) -> Iterator[Expansion]:
    for report in rounds(trial.plan):
        yield from report.expansions
    yield from request_expansions(trial)
    yield from buffer_expansions(trial)
    if trial.plan.hedge is not None:
        yield from trial.plan.hedge.expansions
    if trial.plan.min_size is not None:
        yield from trial.plan.min_size.expansions


def _size(group: GroupState, expansion: Expansion | None) -> Text:
    if expansion is not None:
        return safe(f"{expansion.current:,} → {expansion.target:,}", "bold green")
    return safe("?" if group.seen.target is None else f"{group.seen.target:,}")


def why_group(trial: Trial, ref: GroupRef) -> str:
    """What was decided about a group; empty when nothing needs it."""
    increases = [one for one in trial.plan.actions if isinstance(one, IncreaseSize) and one.group == ref]
    requests = [one.request.key for one in increases if one.request is not None]
    for_requests = (
        f"grows for {'request' if len(requests) == 1 else 'requests'} {name_some(requests)}" if requests else ""
    )
    has_grown = any(expansion.group == ref for report in rounds(trial.plan) for expansion in report.expansions)
    spare = sum(
        len(report.triggered) for report in trial.plan.spare if any(one.group == ref for one in report.expansions)
    )
    for_buffers = f"grows for {count(spare, 'pod')} of buffers" if spare else ""
    hedges = "; ".join(f"{one.hedged:,} of the nodes {one.reason}" for one in increases if one.hedged)
    for_pods = _why_for_pods(trial, ref) if has_grown or not (requests or spare or hedges) else ""
    return "; ".join(filter(None, (for_pods, for_requests, for_buffers, hedges)))


def _why_for_pods(trial: Trial, ref: GroupRef) -> str:
    plan, held = trial.plan, rounds(trial.plan)
    grew = [report for report in held if any(expansion.group == ref for expansion in report.expansions)]
    if grew:
        chosen = [option for report in grew for option in report.options if option.group == ref and option.chosen]
        if not chosen:
            return "shares the growth of a similar group (--balance-similar-node-groups)"
        return f"helps {count(sum(option.pods for option in chosen), 'pod')}; {_how_chosen(trial, grew[0])}"
    report = held[-1]
    option = next((option for option in report.options if option.group == ref), None)
    if plan.min_size is not None and any(expansion.group == ref for expansion in plan.min_size.expansions):
        return "is below its min size"
    if ref in report.skipped:
        return f"left out: {report.skipped[ref]}"
    if option is not None:
        return f"could help {count(option.pods, 'pod')} with {count(option.nodes, 'node')}"
    problem = trial.state.observation.groups[ref].problem
    return f"read in part: {problem}" if problem else ""


def _how_chosen(trial: Trial, report: ScaleUpReport) -> str:
    options = len(report.options)
    if options == 1:
        return "no other group could"
    return f"{trial.settings.scale_up.expander} chose it of {options} groups"


def _print_other_actions(console: Console, trial: Trial) -> None:
    others = [action for action in trial.plan.actions if not isinstance(action, IncreaseSize)]
    if not others:
        return
    table = make_table("Other writes", "group", "action", "why")
    for action in others:
        table.add_row(safe(action.group), safe(type(action).__name__), safe(action.reason))
    console.print(table)


def _print_pods(console: Console, verdicts: Iterable[Verdict], *, folded: bool) -> None:
    rows: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        key = (verdict.fate, verdict.reason, tuple((ref, str(why)) for ref, why in verdict.reasons.items()))
        rows.setdefault(key if folded else (verdict.pod.key,), []).append(verdict)
    if not rows:
        return
    table = make_table("Pending pods", "pods", "", "which", "why", right=("pods",))
    order = list(Fate)
    for alike in sorted(rows.values(), key=lambda alike: order.index(alike[0].fate)):
        first = alike[0]
        names = name_some([verdict.pod.key for verdict in alike])
        table.add_row(safe(f"{len(alike):,}"), safe(first.fate, _STYLES[first.fate]), safe(names), _why_pod(first))
    console.print(table)


def _why_pod(verdict: Verdict) -> Text:
    """One line per reason, with the groups that it holds for."""
    groups: dict[str, list[str]] = {}
    for ref, reason in verdict.reasons.items():
        groups.setdefault(str(reason), []).append(str(ref))
    if not groups:
        return safe(verdict.reason)
    return Text("\n").join(safe(f"{name_some(refs)}: {reason}") for reason, refs in groups.items())


def _conclusion(trial: Trial, verdicts: Iterable[Verdict]) -> Text:
    """The plan in one sentence."""
    grown = list(_expansions(trial))
    added = sum(expansion.added for expansion in grown)
    fates = [verdict.fate for verdict in verdicts]
    lost = sum(fate in (Fate.UNHELPED, Fate.HALTED) for fate in fates)
    helped = fates.count(Fate.HELPED)
    left = f"; {count(lost, 'pod')} {'is' if lost == 1 else 'are'} not helped" if lost else ""
    removals = len(trial.plan.scale_down.removals)
    left += f"; {count(removals, 'node')} {'goes' if removals == 1 else 'go'}" if removals else ""
    if not grown:
        return safe(f"Plan: no group grows{left}.", "bold")
    where = count(len(_by_group(grown)), "group")
    asked = {one.request.key for one in trial.plan.actions if isinstance(one, IncreaseSize) and one.request is not None}
    spare = any(True for _ in buffer_expansions(trial))
    whom = [count(helped, "pod")] if helped or not (asked or spare) else []
    whom += [count(len(asked), "request")] if asked else []
    whom += ["spare capacity"] if spare else []
    return safe(f"Plan: {count(added, 'more node')} in {where} for {' and '.join(whom)}{left}.", "bold")
