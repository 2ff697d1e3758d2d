"""The views of the page in a terminal: one screen, for ``nodewright top``."""

from rich.console import Console
from rich.text import Text

from nodewright.cli.console.views import NodeLine, View, WaitingRow
from nodewright.cli.screen import count, make_table, safe
from nodewright.model.duration import format_moment

_BAR = 20
_STYLES = {"good": "green", "warn": "yellow", "bad": "red", "quiet": "dim"}
_MOST_GROUPS, _MOST_WAITING, _LEAST_NODES = 8, 4, 5
# Lines of a screen that are not rows: titles, heads and blank lines.
_FRAME = 18


def print_top(console: Console, view: View, height: int) -> None:
    """Print what fits into ``height`` lines: problems, groups, waiting pods, and nodes with their utilization."""
    _print_head(console, view)
    groups = view.groups[:_MOST_GROUPS]
    if groups:
        table = make_table(
            _title("Groups", len(groups), len(view.groups)), "group", "size", "$/h", "", "why", right=("size", "$/h")
        )
        for row in groups:
            size = "?" if row.target is None else f"{row.target:,}"
            size += f" +{row.upcoming:,}" if row.upcoming else ""
            why = "; ".join(filter(None, (row.limit, *row.under_way)))
            table.add_row(
                safe(row.name), safe(size), safe(_usd(row.cost)), safe(row.state, _STYLES[row.tone]), _line(why)
            )
        console.print(table)
    waiting = view.waiting[:_MOST_WAITING]
    if waiting:
        table = make_table(
            _title("Waiting pods", len(waiting), len(view.waiting)), "pods", "", "which", "why", right=("pods",)
        )
        for one in waiting:
            why = "; ".join(reason.reason for reason in one.groups) or one.reason
            cells = (safe(one.outcome, _STYLES[one.tone]), _line(_which(one)), _line(why))
            table.add_row(safe(f"{one.number:,}"), *cells)
        console.print(table)
    _print_nodes(console, view, max(_LEAST_NODES, height - _FRAME - len(groups) - len(waiting)))


def _which(row: WaitingRow) -> str:
    more = row.number - 1
    return f"{row.pods[0]} and {more:,} more" if more else row.pods[0]


def _print_head(console: Console, view: View) -> None:
    report = view.last.report
    parts = [count(view.nodes, "node"), count(view.pending, "pending pod")]
    parts += [f"{view.unhelped:,} not helped"] if view.unhelped else []
    parts += [f"{count(report.upcoming_machines, 'machine')} on the way"] if report.upcoming_machines else []
    parts += [f"${_usd(sum(view.costs.values()))} an hour"] if view.costs else []
    console.print(safe(f"{format_moment(report.finished)}: {', '.join(parts)}", "bold"), soft_wrap=True)
    for problem in view.problems[:3]:
        console.print(_line(problem, "red"))
    for doing in view.doing[:3]:
        console.print(_line(doing, "yellow"))


def _print_nodes(console: Console, view: View, most: int) -> None:
    rows = view.node_rows(view.node_keys[:most])
    if not rows:
        return
    title = _title("Nodes", len(rows), len(view.node_keys))
    table = make_table(title, "node", "group", "used", "pods", "$/h", "", "why it is still here", right=("pods", "$/h"))
    for row in rows:
        state = safe(row.outcome if row.is_ready else "not ready", _STYLES[row.tone] if row.is_ready else "red")
        cells = (safe(f"{row.pods:,}"), safe(_usd(row.price)), state, _line(row.why))
        table.add_row(safe(row.name), safe(row.group), _bar(row), *cells)
    console.print(table)


def _title(noun: str, shown: int, number: int) -> str:
    return noun if shown == number else f"{noun}: {shown:,} of {number:,}"


def _bar(row: NodeLine) -> Text:
    if row.used is None:
        return safe("-", "dim")
    full = round(_BAR * row.used)
    bar = safe("#" * full, "cyan").append("." * (_BAR - full), "dim")
    return bar.append(f" {100 * row.used:3.0f} %")


def _line(text: str, style: str = "") -> Text:
    """Return text that takes one line, and is cut at its end."""
    line = safe(text, style)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _usd(amount: float | None) -> str:
    return "" if amount is None else f"{amount:,.3f}"
