"""Progress of a simulation on a terminal; nothing where nobody watches."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from nodewright.adapters.simulated.simulation import OnProgress
from nodewright.adapters.simulated.simulation import Progress as State
from nodewright.cli.screen import count
from nodewright.cli.simulation.summary import format_span


@contextmanager
def show_progress(console: Console, *, ends: bool) -> Iterator[OnProgress | None]:
    """What a simulation is to call after each loop. ``ends``: its end is known, so that a bar can be drawn."""
    if not console.is_terminal:
        yield None
        return
    columns = [BarColumn(bar_width=20)] if ends else []
    with Progress(
        SpinnerColumn(), *columns, TextColumn("{task.description}", markup=False), console=console, transient=True
    ) as shown:
        task = shown.add_task("starting", total=1.0 if ends else None)

        def update(state: State) -> None:
            done = (state.now - state.start) / max(1.0, state.end - state.start)
            shown.update(task, description=_describe(state), completed=done)

        yield update


def _describe(state: State) -> str:
    pods = f"{state.running:,} pods run, {state.pending:,} wait"
    return f"{format_span(state.now - state.start)}: {pods}, {count(state.nodes, 'node')}, {count(state.loops, 'loop')}"
