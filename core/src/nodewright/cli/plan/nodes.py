"""What a plan says of nodes: which are not needed, and why the others stay."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

from rich.console import Console

from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.screen import count, make_table, name_some, safe
from nodewright.model.duration import format_duration
from nodewright.model.reason import Unremovable
from nodewright.model.timestamps import format_moment
from nodewright.planner.plan import ScaleDownReport

_GOES, _UNNEEDED, _STAYS = "goes now", "unneeded", "stays"
_STYLES = {_GOES: "yellow", _UNNEEDED: "yellow", _STAYS: "dim"}


class _Row(NamedTuple):
    """One node; those with an equal ``kind`` stand in one row."""

    fate: str
    kind: str
    node: str
    why: str


def print_nodes(console: Console, trial: Trial) -> None:
    """A row for each reason, with the nodes that it holds for."""
    rows: dict[tuple[str, str], list[_Row]] = {}
    for row in _rows(trial):
        rows.setdefault((row.fate, row.kind), []).append(row)
    if not rows:
        return
    table = make_table("Nodes", "nodes", "", "which", "why", right=("nodes",))
    order = list(_STYLES)
    for alike in sorted(rows.values(), key=lambda alike: order.index(alike[0].fate)):
        first = alike[0]
        same = all(row.why == first.why for row in alike)
        why = first.why if same else f"{first.kind}; {first.node} for one: {first.why}"
        names = name_some([row.node for row in alike])
        table.add_row(safe(f"{len(alike):,}"), safe(first.fate, _STYLES[first.fate]), safe(names), safe(why))
    console.print(table)


def nodes_json(report: ScaleDownReport) -> dict[str, Any]:
    """As part of ``--output json``."""
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
        "unremovable": {node: _reason(why) for node, why in sorted(_staying(report).items())},
        # JSON has no word for infinity, which is what pods ask for of what nothing is left of.
        "utilization": {n: ratio if isfinite(ratio) else None for n, ratio in sorted(report.utilization.items())},
    }


def _rows(trial: Trial) -> Iterator[_Row]:
    report = trial.plan.scale_down
    leaving = {removal.node: removal for removal in report.removals}
    for node, removal in leaving.items():
        why = f"{removal.reason}, {count(len(removal.pods), 'pod')} to be moved"
        yield _Row(_GOES, removal.reason.value, node, why)
    for node, since in report.unneeded.items():
        if node not in leaving:
            why = f"not needed for {format_duration(trial.state.now - since)}"
            held = _staying(report).get(node)
            yield _Row(_UNNEEDED, held.code.value if held is not None else "", node, str(held or why))
    for node, reason in _staying(report).items():
        if node not in leaving and node not in report.unneeded:
            yield _Row(_STAYS, reason.code.value, node, str(reason))


def _staying(report: ScaleDownReport) -> Mapping[str, Unremovable]:
    return {**report.passed_over, **report.unremovable}


def _reason(why: Unremovable) -> dict[str, str | None]:
    return {
        "code": why.code.value,
        "message": str(why),
        "pod": why.pod or None,
        "pod_code": why.pod_code.value if why.pod_code is not None else None,
    }
