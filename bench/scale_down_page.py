"""The scale-down benchmark as a page for people: docs/scale-down.md and its chart."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from svg import RIGHT, Axes

_CHART = "scale-down-{}.svg"
_NOTES = "\n## Notes on these runs\n"
# Okabe and Ito's colours, told apart by everybody.
_CURVES = (("nodes", "nodes", "#0072B2"), ("bound", "bound, any group", "#E69F00"))
_COLUMNS = (
    ("run", "name", "{}"),
    ("node-hours", "node_hours", "{:,.0f}"),
    ("with pods", "with_pods", "{:,.0f}"),
    ("bound, groups as chosen", "bound_of_chosen_groups", "{:,.0f}"),
    ("bound, any group", "bound", "{:,.0f}"),
    ("removed", "removed", "{}"),
    ("evicted", "evicted", "{}"),
    ("cycles", "cycles", "{}"),
    ("p50", "wait_p50", "{:.0f} s"),
    ("p99", "wait_p99", "{:.0f} s"),
    ("longest", "wait_longest", "{:.0f} s"),
)


_BY_EXPANDER = "fast-1m"
_DOLLARS = ("dollars", "dollars_with_pods", "dollar_bound_of_chosen_groups", "dollar_bound")


def write_page(rows: Sequence[Mapping[str, Any]], missing: Sequence[str], docs: Path) -> None:
    """``docs/scale-down.md``, with a chart of the first run of each pace in ``docs/images``.

    ``missing`` are runs that were not run to their end. Notes by hand at the end of the page are kept.
    """
    shown = {row["name"].partition("-")[0]: row for row in reversed(rows)}
    for pace, row in shown.items():
        (docs / "images" / _CHART.format(pace)).write_text(_chart(row))
    lines = [*_introduction(shown), *_not_run(missing), *_table(rows), *_rest(rows), *_dollars(rows)]
    page = docs / "scale-down.md"
    _, heading, notes = page.read_text().partition(_NOTES)
    page.write_text("\n".join(lines) + "\n" + heading + notes)


def _not_run(missing: Sequence[str]) -> list[str]:
    return [f"Not shown, because it was not run to its end: {', '.join(missing)}.", ""] if missing else []


def _introduction(shown: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [
        "# Scale-down: benchmark",
        "",
        "This page is a benchmark; what scale-down does is in [behaviour/scale-down.md](behaviour/scale-down.md).",
        "What removing nodes saves on a production trace (openb: 8,152 pods, 27 kinds of nodes, 149 days), beside what",
        "no autoscaler can beat. `python bench/scale_down.py --page` writes this page but for the notes at its end, which it",
        "keeps; every figure is of whole loops on virtual time against the fake provider, and the same each time.",
        "",
        "`real` is the trace as it was, `fast` 100 times as fast; 1m, 5m and 10m are both `--scale-down-unneeded-time` and",
        "`--scale-down-delay-after-add`. The expander is least-waste, CA's default, unless the run is named after another.",
        "A pod that is moved runs on for the rest of its time. [Figures](reference/figures.md) has command and commit.",
        "",
        "The bound of any group is the least number of nodes, in fractions, over which the pods that run could be spread",
        "in fractions: a linear programme per moment, by code that shares nothing with nodewright. That of the groups as",
        "chosen leaves each pod in the node group in which it ran.",
        "",
        "Every removal passed the independent check, which ends a run where it finds fault. A cycle is a node that was",
        "added for a pod that a removal had moved: the scheduler need not put pods where the plan has them, and others may",
        "come in the seconds between the plan and the eviction (ADR 9 says what is done about both).",
        "",
        *(
            line
            for pace, row in sorted(shown.items())
            for line in (f"![Nodes and the bound over time, run {row['name']}](images/{_CHART.format(pace)})", "")
        ),
    ]


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = ["| " + " | ".join(title for title, _, _ in _COLUMNS) + " |", "|---" + "|--:" * (len(_COLUMNS) - 1) + "|"]
    return [*lines, *("| " + " | ".join(form.format(row[key]) for _, key, form in _COLUMNS) + " |" for row in rows), ""]


def _rest(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "## Where the rest goes",
        "",
        "Node-hours are the bound of any group, times three factors: which groups the expander chose (least-waste takes the",
        "node that leaves least unused, the bound the one that holds most), whole pods on whole nodes, and nodes without",
        "pods, while they start and until they have been unneeded for long enough.",
        "",
        "| run | choice of groups | packing | without pods | in all |",
        "|---|--:|--:|--:|--:|",
    ]
    for row in rows:
        factors = (
            row["bound_of_chosen_groups"] / row["bound"],
            row["with_pods"] / row["bound_of_chosen_groups"],
            row["node_hours"] / row["with_pods"],
            row["node_hours"] / row["bound"],
        )
        lines.append(f"| {row['name']} | " + " | ".join(f"× {factor:.2f}" for factor in factors) + " |")
    return lines


def _dollars(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "",
        "## In dollars, by expander",
        "",
        "The same run with each expander (`fast-1m`: least-waste), in dollars by assumed list prices: the trace knows no",
        "prices, so a core costs 0.03, a GiB 0.004 and a GPU 0.90 USD an hour. The bound is the same linear programme with",
        "prices as costs; the factors are those of the table above.",
        "",
        "| run | USD | with pods | bound, groups as chosen | bound, any group | choice of groups | packing | without pods | in all |",
        "|---" + "|--:" * 8 + "|",
    ]
    for row in rows:
        if row["name"].startswith(_BY_EXPANDER):
            used, busy, chosen, bound = amounts = [row[key] for key in _DOLLARS]
            cells = [f"{amount:,.0f}" for amount in amounts]
            cells += [f"× {factor:.2f}" for factor in (chosen / bound, busy / chosen, used / busy, used / bound)]
            lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    return lines


def _chart(row: Mapping[str, Any]) -> str:
    curves = row["curves"]
    most = max(*curves["nodes"], *curves["bound"], 1.0)
    axes = Axes(height=220, most_x=max(curves["hours"]) or 1.0, most_y=most, unit=" h")
    parts = [axes.line(zip(curves["hours"], curves[name], strict=True), colour) for name, _, colour in _CURVES]
    for number, (_, title, colour) in enumerate(_CURVES):
        x = RIGHT - 230 + 90 * number
        parts.append(f'<rect x="{x}" y="12" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="22" font-size="12">{title}</text>')
    return axes.picture(f"Nodes over time, run {row['name']}", parts)
