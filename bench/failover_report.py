"""The failover benchmark as a page for people: docs/failover.md and its chart."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from failover_scenarios import CASES, HORIZON, MINUTE, MODES

COLUMNS = ("scenario", "mode", "next group", "all running", "scale-ups", "idle node hours")
# Okabe and Ito's colours, told apart by everybody.
_COLOURS = dict(zip(MODES, ("#009E73", "#0072B2", "#56B4E9", "#E69F00", "#F0E442", "#D55E00"), strict=True))
_LEFT, _WIDTH, _BAR, _GAP, _TOP = 150, 620, 13, 14, 46
_LIMIT_MINUTES = 130.0


def cells(row: Mapping[str, Any]) -> list[str]:
    """One row as text; what never happened is said so."""
    figures = [row["minutes_to_next_group"], row["minutes_to_all_running"]]
    minutes = ["never" if value is None else f"{value:.1f} min" for value in figures]
    return [row["scenario"], row["mode"], *minutes, str(row["scale_ups"]), f"{row['wasted_node_hours']:.2f}"]


def write_document(rows: Sequence[Mapping[str, Any]], counts: Sequence[Mapping[str, Any]]) -> str:
    """Return the whole page."""
    return "\n".join([*_introduction(), *_results(rows), *_misfits(), *_false_failovers(counts)]) + "\n"


def _introduction() -> list[str]:
    modes = [f"| `{name}` | {mode.title} |" for name, mode in MODES.items()]
    cases = [f"| `{name}` | {make().title} |" for name, make in CASES.items()]
    return [
        "# Failover: benchmark",
        "",
        "This page is a benchmark; what happens when a machine fails is in [architecture.md](architecture.md#a-failed-machine-becomes-a-backoff-and-a-new-plan).",
        "",
        "How long pods wait when a node group does not deliver. `make bench-failover` writes this page; every figure",
        "is of whole loops on virtual time against the fake provider, and the same each time.",
        "[Another page](failover-clouds.md) measures it through the plugins of AWS, GCE and Azure. [Figures](reference/figures.md) has the commit.",
        "",
        "| mode | failures are found by |",
        "|---|---|",
        *modes,
        "",
        "| scenario | what goes wrong |",
        "|---|---|",
        *cases,
        "",
        "The failing group is the cheapest, and `--expander=price` always prefers it. It has grown by 48 machines in",
        "four steps before (except in seed-3, where it is empty), so `auto` knows how long its machines take: a",
        "minute and a half, seldom three. `--max-node-provision-time` is 15 minutes, the scan interval 10 seconds, and",
        "scale-down is off.",
        "",
        "![Minutes until all pods run, by scenario and mode](images/failover.svg)",
        "",
    ]


def _results(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|---|--:|--:|--:|--:|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in rows]
    return [
        *lines,
        "",
        f"Minutes count from the loop that sees the first pods; never: not within {HORIZON / MINUTE / 60:.0f} hours. The next",
        "group is the first one asked that can deliver. Idle node hours are those of machines without a pod within",
        "four hours. What to know when reading:",
        "",
        "- In seed-2 and flapping pods keep coming, for 29 and 110 minutes; the last of them decides when all run.",
        "- In zone-wide and quota a second group would fail in the same way. A provider that reports failures says what they",
        "  share. After a timeout, `prompt` and `auto` send the pods that waited in vain to the group that shares least with",
        "  the one that failed (zone, machine type, then quota); `ca` and `seed` ask the next cheapest.",
        "- In flapping the group delivers after all, within the provision time. Only a mode that learns of a failure earlier",
        "  leaves it, and `never` does no harm there.",
        "- `auto` hedges ([ADR 22](adr/0022-hedging.md)): a group that is silent for longer than 99 of 100 of its machines take",
        "  gets help from the next one while its own request continues. In seed-3 nothing is known of any group, so",
        "  `--hedging-delay` (5 minutes) applies, from the restart. In an empty cluster at most two machines may be bought",
        "  twice, so the other three pods wait for the timeout. `--hedging=on` does the same in `prompt`, where nothing is",
        "  learned: after 5.2, 5.2 and 5.7 minutes.",
        "- If a group delivers a part, arrivals extend the deadline of the rest (partial-stock-out).",
        "- No cloud reports machines that boot and never join, so `fast` is no faster there. `ca` and `seed` delete",
        "  them after 15 minutes, the others after 30: some are only late ([ADR 11](adr/0011-late-machines.md)). Each is timed",
        "  from the loop that sees it first, one after that of the call. So two loops come on top of the provision time.",
        "- In seed-3 all memory is lost. `ca` then counts nothing as on its way and buys at once, which in a healthy",
        "  scale-up buys twice ([ADR 3](adr/0003-upcoming-and-backoff.md)). It also leaves the dead group's size wrong",
        "  forever; `prompt` waits one provision time and corrects it. A restart that keeps its memory costs one loop.",
        "- In `ca` and `seed` no failure is reported. In `ca-fast` it is: cluster-autoscaler's providers for AWS and GCE, and others,",
        "  report machines that could not be created. It leaves as soon as `fast`, but first asks the second group of the zone or the",
        "  quota in vain. In partial-stock-out it buys the three machines that come a second time: machines of a group that backs off do",
        "  not count as on their way ([ADR 3](adr/0003-upcoming-and-backoff.md)).",
        "",
    ]


def _misfits() -> list[str]:
    return [
        "## Machines that come and do not fit",
        "",
        "A group may promise more than its machines have: it was made again with a smaller type, or the provider's description counts what the",
        "system keeps. The group delivered, so nothing above applies. nodewright looks at the node that came: if it does not take the pods that",
        "it was bought for, the warning event `AddedNodeDoesNotFit` says what is missing, these pods go to the next best group in the same",
        "loop, and the group is not grown for such pods for 1 hour, then 8, then 24. Its other pods are free to use it, and its template is",
        "corrected from the node. `nodewright explain pod` shows the reason and the time",
        "([ADR 27](adr/0027-vain-purchases.md)).",
        "",
    ]


def _false_failovers(counts: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        f"| {c['mode']} | {c['place']} | {c['arrivals']:,} | {c['slow']} | {c['given_up']} "
        f"({c['given_up'] / c['arrivals']:.2%}) | {c['early']} | {c['adopted']} | {c['killed']} "
        f"| {c['hedged']} ({c['hedged'] / c['arrivals']:.2%}) |"
        for c in counts
    ]
    return [
        "## False failovers",
        "",
        "Machines that are slow but healthy: half come within 90 s, one of a hundred takes ten minutes, a few of a",
        "thousand more than fifteen. The time passes before the cloud lists the machine (unlisted), or afterwards, until",
        "its kubelet registers (booting). Nothing fails, and the cloud cannot take back what it was asked for.",
        "",
        "| mode | where | arrivals | slower than 15 min | given up | of them before 15 min | adopted | deleted | hedged |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
        *lines,
        "",
        "A machine that comes after it was given up is adopted: it counts in limits and serves pods before more is bought.",
        "Giving a machine up, after 15 minutes or the learned time, only sends its pods elsewhere. A machine that exists and is",
        "not a node is deleted after an hour, or after half an hour if no other machine of its group has joined meanwhile: whether",
        "it is slow or broken cannot be known ([ADR 11](adr/0011-late-machines.md)). Hedged machines were bought from another",
        "group because this one was silent. That is no failover, since the group's own machines are still awaited; it is what they",
        "cost if they come after all. Here nothing is scaled down, so later pods use them.",
    ]


def draw_chart(rows: Sequence[Mapping[str, Any]]) -> str:
    """Bars of the minutes until all pods run, as SVG; a bar that is open to the right never ends."""
    parts, y = _legend(), _TOP
    for name in dict.fromkeys(row["scenario"] for row in rows):
        parts.append(_text(_LEFT - 10, y + 3 * _BAR + 4, name, anchor="end", weight="600"))
        for row in rows:
            if row["scenario"] == name:
                parts += _bar(row, y)
                y += _BAR
        y += _GAP
    size = f'width="{_LEFT + _WIDTH + 90}" height="{y}" viewBox="0 0 {_LEFT + _WIDTH + 90} {y}"'
    style = 'font-family="system-ui, sans-serif" font-size="12" fill="#24292F"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style} role="img">'
    title = "<title>Minutes until all pods run</title>"
    return "\n".join([head, title, '<rect width="100%" height="100%" fill="#FFFFFF"/>', *parts, "</svg>"]) + "\n"


def _legend() -> list[str]:
    parts = [_text(_LEFT, 16, "Minutes until all pods run", weight="600")]
    for number, (mode, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + number * 90
        parts += [f'<rect x="{x}" y="26" width="10" height="10" fill="{colour}"/>', _text(x + 15, 35, mode)]
    return parts


def _bar(row: Mapping[str, Any], y: float) -> list[str]:
    minutes, colour = row["minutes_to_all_running"], _COLOURS[row["mode"]]
    length = _WIDTH * min(1.0, (_LIMIT_MINUTES if minutes is None else minutes) / _LIMIT_MINUTES)
    said = "never" if minutes is None else f"{minutes:.1f}"
    faint = ' fill-opacity="0.35"' if minutes is None else ""
    rect = f'<rect x="{_LEFT}" y="{y}" width="{length:.1f}" height="{_BAR - 2}" fill="{colour}"{faint}/>'
    return [rect, _text(_LEFT + length + 5, y + _BAR - 3, said, size="10")]


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "400", size: str = "12") -> str:
    style = f'text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(text)}</text>'
