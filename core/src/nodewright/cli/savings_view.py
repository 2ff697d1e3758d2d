"""The moves that would pay, as ``nodewright savings`` shows them."""

from collections import Counter
from random import Random
from typing import Any, NamedTuple

import msgspec
from rich.console import Console

from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.model.duration import format_moment
from nodewright.model.price_book import CURRENCY
from nodewright.model.settings import Settings
from nodewright.planner import find_growth_context
from nodewright.planner.consolidation import FoundMoves, Proposal, find_moves
from nodewright.planner.context import PlanningContext
from nodewright.planner.returns import find_return

SCHEMA = 1
_HOURS_A_MONTH = 730.0
# How many searches for returns to preferred groups are made; each looks at ten nodes.
_MOST_SEARCHES = 20


class Return(NamedTuple):
    """A move of pods back to preferred groups; ``savings`` in USD an hour (None: a price is not known)."""

    move: Proposal
    savings: float | None


class Savings(NamedTuple):
    """The moves that pay, with what keeps other nodes, and the moves of pods back to preferred groups.

    ``has_more_returns``: whether there may be more of these, since no further ones were searched for.
    """

    found: FoundMoves
    returns: tuple[Return, ...] = ()
    has_more_returns: bool = False


def find_savings(dry_run: DryRun) -> Savings:
    """Return the moves that pay at the moment of the dry run, and the returns to preferred groups."""
    settings, start = dry_run.settings, dry_run.planned_from
    wanted = settings.moves
    if wanted.consolidation_policy == "off":
        wanted = msgspec.structs.replace(wanted, consolidation_policy="balanced")
    context = find_growth_context(start, settings, Random(0)) if start is not None else None
    if context is None:
        return Savings(FoundMoves())
    found = find_moves(context, wanted, Random(0))
    if wanted.consolidation_policy == "when-empty":
        return Savings(found)
    return Savings(found, *_find_returns(context, found, settings))


def _find_returns(context: PlanningContext, found: FoundMoves, settings: Settings) -> tuple[tuple[Return, ...], bool]:
    """Return moves back to preferred groups, each as if it were the only one, of nodes that no other move gives up.

    Also return whether there may be more.
    """
    going = {name: "another move gives it up" for move in found.proposals for name in move.sources}
    returns, unreturned, after = list[Return](), tuple[str, ...](), settings.moves.consolidate_after
    for _ in range(_MOST_SEARCHES):
        back = find_return(context, after, going, Random(0), unreturned, only_priced=settings.returns_need_prices)
        unreturned = back.unreturned
        if back.proposal is not None:
            returns.append(Return(back.proposal, back.savings))
            going |= dict.fromkeys(back.proposal.sources, "another move gives it up")
        elif not back.has_more:
            return tuple(returns), False
    return tuple(returns), True


def as_json(dry_run: DryRun, savings: Savings) -> dict[str, Any]:
    """Return the document of ``--output json``; amounts are in dollars a month."""
    found = savings.found
    return {
        "schema": SCHEMA,
        "now": format_moment(dry_run.state.now),
        "currency": CURRENCY,
        "nodes_cost": _monthly(found.pool.price),
        "savings": _monthly(sum(move.savings for move in found.proposals)),
        "moves": [
            {
                "removed": list(move.sources),
                "added": dict(Counter(str(node.group) for node in move.new_nodes)),
                "evictions": move.evictions,
                "savings": _monthly(move.savings),
                "score": round(move.score, 3),
            }
            for move in found.proposals
        ],
        "returns": [
            {
                "removed": list(move.sources),
                "added": dict(Counter(str(node.group) for node in move.new_nodes)),
                "evictions": _count_pods(move),
                "savings": _monthly(saved) if saved is not None else None,
            }
            for move, saved in savings.returns
        ],
        "more_returns": savings.has_more_returns,
        "held": dict(sorted(found.held.items())),
    }


def print_savings(console: Console, dry_run: DryRun, savings: Savings) -> None:
    """Print a row for each move, then why other nodes stay."""
    found = savings.found
    nodes = count(int(dry_run.state.observation.snapshot.alive.sum()), "node")
    total = f"nodes with a known price cost {_dollars(found.pool.price)} a month"
    console.print(safe(f"As of {format_moment(dry_run.state.now)}: {nodes}; {total}"), end="\n\n")
    if found.proposals:
        table = make_table(
            "Moves",
            "$/month",
            "nodes",
            "which",
            "new nodes",
            "evicts",
            "score",
            right=("$/month", "nodes", "evicts", "score"),
        )
        for move in found.proposals:
            table.add_row(*(safe(cell) for cell in _cells(move)))
        console.print(table)
    if savings.returns:
        title = "Moves back to preferred groups"
        table = make_table(title, "$/month", "node", "new nodes", "evicts", right=("$/month", "evicts"))
        for move, saved in savings.returns:
            shown = _dollars(saved) if saved is not None else "unknown"
            cells = shown, name_some(move.sources), _bought(move), str(_count_pods(move))
            table.add_row(*(safe(cell) for cell in cells))
        console.print(table)
    if found.held:
        table = make_table("Nodes that stay", "nodes", "which", "why", right=("nodes",))
        by_reason: dict[str, list[str]] = {}
        for name, why in found.held.items():
            by_reason.setdefault(why, []).append(name)
        for why, names in sorted(by_reason.items(), key=lambda item: -len(item[1])):
            table.add_row(safe(f"{len(names):,}"), safe(name_some(names)), safe(why))
        console.print(table)
    console.print(safe(_conclusion(found)))
    if savings.returns:
        console.print(safe("Moves back to preferred groups are made one at a time, and only while no other move pays."))
    if savings.has_more_returns:
        console.print(safe("There may be more moves back to preferred groups: the search for them ended early."))


def _cells(move: Proposal) -> tuple[str, ...]:
    which, new = name_some(move.sources), _bought(move) or "none"
    return _dollars(move.savings), str(len(move.sources)), which, new, str(move.evictions), f"{move.score:.2f}"


def _bought(move: Proposal) -> str:
    bought = Counter(str(node.group) for node in move.new_nodes)
    return ", ".join(f"{number} of {group}" for group, number in bought.items())


def _count_pods(move: Proposal) -> int:
    """Return how many pods a return evicts: all of them go to its new nodes."""
    return sum(len(node.pods) for node in move.new_nodes)


def _conclusion(found: FoundMoves) -> str:
    if not found.pool.price:
        return "No node has a known price, so that nothing can be compared (docs/prices.md)."
    if not found.proposals:
        return "No move pays."
    saved = sum(move.savings for move in found.proposals)
    return f"These moves would save {_dollars(saved)} a month, {100 * saved / found.pool.price:.0f} %. Nothing was changed."


def _monthly(per_hour: float) -> float:
    return round(per_hour * _HOURS_A_MONTH, 2)


def _dollars(per_hour: float) -> str:
    return f"${per_hour * _HOURS_A_MONTH:,.2f}"
