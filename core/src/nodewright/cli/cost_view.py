"""The cost of a plan, and its difference to another plan, as a table and as JSON."""

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

from rich.console import Console

from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.plan_reasons import PodOutcome, find_verdicts, rounds
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.model.group import GroupRef
from nodewright.model.price_book import CURRENCY
from nodewright.planner import find_growth_context
from nodewright.planner.explain import GrowthCost, find_growth_cost

_TIME_WAS_UP = "the time for improvements was up (--least-cost-budget)"


def find_cost(dry_run: DryRun) -> GrowthCost:
    """Return what the plan costs. The growth context is built again for this."""
    start, settings = dry_run.planned_from, dry_run.settings
    context = find_growth_context(start, settings, Random(0)) if start is not None else None
    return find_growth_cost(dry_run.state, context, dry_run.plan, rounds(dry_run.plan))


def print_cost(console: Console, cost: GrowthCost) -> None:
    """Print a row for each figure; nothing if no group has a price."""
    if not cost.before.by_group:
        return
    table = make_table("Cost", "", "USD/hour", "", right=("USD/hour",))
    for what, amount, note in _rows(cost):
        table.add_row(safe(what), safe(amount), safe(note))
    console.print(table)


def cost_json(cost: GrowthCost) -> dict[str, Any]:
    """Return the part about cost of ``--output json``; amounts are per hour."""
    single = cost.single
    return {
        "currency": CURRENCY,
        "expander": cost.expander or None,
        "time_was_up": cost.is_cut,
        "nodes": cost.nodes,
        "price": _rounded(cost.price),
        "bound": _rounded(cost.bound),
        "gap_percent": round(100 * cost.gap, 2) if cost.gap is not None else None,
        "single_group": {"group": str(single.group), "nodes": single.nodes, "price": _rounded(single.price)}
        if single is not None
        else None,
        "before": _rounded(cost.before.total),
        "after": _rounded(cost.after.total),
        "not_counted": _not_counted(cost),
        "price_sources": list(cost.sources),
    }


def _rounded(amount: float | None) -> float | None:
    return round(amount, 6) if amount is not None else None


def _rows(cost: GrowthCost) -> Iterator[tuple[str, str, str]]:
    if cost.expander:
        cut = f"; {_TIME_WAS_UP}" if cost.is_cut else ""
        yield "bought for pods", _usd(cost.price), f"{count(cost.nodes, 'node')}, chosen by {cost.expander}{cut}"
        yield "lower bound", _usd(cost.bound), _about_bound(cost)
        yield "one group only", _usd(cost.single.price if cost.single is not None else None), _about_single(cost)
    yield "all nodes now", _usd(cost.before.total), _about_prices(cost)
    if cost.after != cost.before:
        change = cost.after.total - cost.before.total
        yield "after the plan", _usd(cost.after.total), f"{'+' if change >= 0 else '−'}{_usd(abs(change))}"


def _about_bound(cost: GrowthCost) -> str:
    if cost.bound is None:
        return "not known: a group that takes one of these pods has no price"
    said = "no nodes of these groups are cheaper for these pods"
    return f"{said}; bought: {100 * cost.gap:.1f} % above" if cost.gap is not None else said


def _about_single(cost: GrowthCost) -> str:
    if cost.single is None:
        return "no group with a price takes all of these pods"
    return f"{count(cost.single.nodes, 'node')} of {cost.single.group}, the cheapest group that takes all of these pods"


def _about_prices(cost: GrowthCost) -> str:
    """Return where the prices come from, and which groups are not counted."""
    names = _not_counted(cost)
    by = f"by {name_some(cost.sources)}" if cost.sources else ""
    return "; ".join(filter(None, (by, f"not counted, since without a price: {name_some(names)}" if names else "")))


def _not_counted(cost: GrowthCost) -> list[str]:
    return [str(ref) for ref in dict.fromkeys((*cost.before.unpriced, *cost.after.unpriced))]


def _usd(amount: float | None) -> str:
    return f"{amount:,.3f}" if amount is not None else "?"


def print_difference(console: Console, now: DryRun, then: DryRun) -> None:
    """Print how the plan for the changed cluster differs from the plan for the present cluster."""
    columns = ("now", "with the change", "difference")
    table = make_table("Difference to now", "after the plan", *columns, right=columns)
    for row in find_difference(now, then):
        table.add_row(*map(safe, row))
    console.print(table)


class DifferenceRow(NamedTuple):
    """One figure of two plans, and how the second differs, as people read it."""

    what: str
    now: str
    then: str
    change: str


def find_difference(now: DryRun, then: DryRun) -> Iterator[DifferenceRow]:
    """Yield each figure of the plans for the present and for the changed cluster, and each group whose size differs."""
    before, after = _sum_up(now), _sum_up(then)
    for what in after:
        digits = 3 if "usd" in what else 0
        pair = before[what], after[what]
        change = f"{pair[1] - pair[0]:+,.{digits}f}" if pair[0] is not None and pair[1] is not None else "?"
        shown = [f"{amount:,.{digits}f}" if amount is not None else "?" for amount in pair]
        yield DifferenceRow(what.replace("_", " ").replace("usd", "USD"), shown[0], shown[1], change)
    sizes = _sizes_after(now), _sizes_after(then)
    for ref, size in sizes[1].items():
        old = sizes[0].get(ref, 0)
        if size != old:
            yield DifferenceRow(f"nodes of {ref}", f"{old:,}", f"{size:,}", f"{size - old:+,}")


def difference_json(now: DryRun, then: DryRun) -> dict[str, Any]:
    """Return the figures of both plans as ``now`` and ``then``, with the size of each group; null: unknown."""
    return {
        name: {
            **{what: _rounded(amount) for what, amount in _sum_up(dry_run).items()},
            "groups": {str(ref): size for ref, size in _sizes_after(dry_run).items()},
        }
        for name, dry_run in (("now", now), ("then", then))
    }


def _sizes_after(dry_run: DryRun) -> dict[GroupRef, int]:
    """Return the size of each group once it has grown for pods and to its minimum."""
    plan = dry_run.plan
    sizes = {ref: group.seen.target or 0 for ref, group in dry_run.state.groups.items()}
    for report in (*rounds(plan), *([plan.min_size] if plan.min_size is not None else [])):
        sizes |= {grown.group: grown.target for grown in report.expansions}
    return sizes


def _sum_up(dry_run: DryRun) -> dict[str, float | None]:
    """Return the figures of a plan by name; the number of nodes and the cost of all of them are those after it."""
    cost = find_cost(dry_run)
    outcomes = [verdict.outcome for verdict in find_verdicts(dry_run)]
    bought = cost.expander != ""
    return {
        "pending_pods": len(dry_run.state.observation.pending),
        "pods_not_helped": sum(outcome in (PodOutcome.UNHELPED, PodOutcome.HALTED) for outcome in outcomes),
        "nodes": sum(_sizes_after(dry_run).values()),
        "usd_per_hour": cost.after.total,
        "usd_per_hour_of_new_nodes": cost.price if bought else 0.0,
        "lower_bound_of_new_nodes_in_usd_per_hour": cost.bound if bought else 0.0,
    }
