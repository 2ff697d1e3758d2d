"""Buffers of spare capacity, for people and for programs: the same in ``status``, ``plan`` and ``explain``."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from rich.console import Console

from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.screen import count, make_table, safe
from nodewright.planner.explain import BufferFacts, BufferState
from nodewright.planner.plan import Expansion

_STYLES = {BufferState.FULL: "green", BufferState.COMING: "yellow", BufferState.SHORT: "red", BufferState.ERROR: "red"}
_MOST = 30


def print_buffers(console: Console, buffers: Sequence[BufferFacts]) -> None:
    """Those first that have not all of their room."""
    if not buffers:
        return
    table = make_table("Spare capacity", "buffer", "pods like", "pods", "there", "", "why", right=("pods", "there"))
    shown = sorted(buffers, key=lambda one: (one.state in (BufferState.FULL, BufferState.EMPTY), one.buffer))
    for one in shown[:_MOST]:
        state = safe(one.state, _STYLES.get(one.state, ""))
        cells = (safe(one.shape), safe(f"{one.pods:,}"), safe(f"{one.held:,}"), state, safe(buffer_line(one)))
        table.add_row(safe(one.buffer, "bold"), *cells)
    console.print(table)
    if len(shown) > _MOST:
        console.print(safe(f"{count(len(shown) - _MOST, 'buffer')} more: see --output json"), end="\n\n")


def buffer_line(one: BufferFacts) -> str:
    """What is on its way, what is missing, and why."""
    coming = f"room for {count(one.coming, 'pod')} is on its way" if one.coming else ""
    missing = f"{count(one.missing, 'pod')} without room" if one.missing else ""
    return "; ".join(filter(None, (coming, ": ".join(filter(None, (missing, one.why))))))


def buffer_json(one: BufferFacts) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(one)
    return fields | {"why": one.why or None}


def buffer_expansions(trial: Trial) -> Iterator[Expansion]:
    """What groups grow by for buffers."""
    return (expansion for report in trial.plan.spare for expansion in report.expansions)
