"""Carries out ``nodewright sweep``: many simulations, in parallel, compared."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nodewright.cli.screen import count, make_console, make_table, safe, write_json
from nodewright.model.errors import ConfigError, InvariantError
from nodewright.model.printable import suggest
from nodewright_simulator.cli.sweep import DEFAULT_RESULTS
from nodewright_simulator.sweep.carry_out import Kept, Store, carry_out_all, open_executor
from nodewright_simulator.sweep.compare import (
    Difference,
    Gate,
    Row,
    compare,
    find_front,
    mean,
    objectives,
    say_interval,
)
from nodewright_simulator.sweep.figures import FIGURES, OBJECTIVES, in_words
from nodewright_simulator.sweep.sweep_file import SweepPlan, SweepRun, load_sweep
from nodewright_simulator.sweep.sweep_page import SweepResult, write_sweep_page
from nodewright_simulator.sweep.tables import LINES, PARQUET, read_lines, write_lines, write_parquet

SCHEMA = 1
GATE_BROKEN = 3
_SHOWN = (*OBJECTIVES, "still_waiting", "node_hours")


def run_sweep(file: str, output: str, **given: Any) -> None:
    """Simulate what is left, compare, and write and print the results; raise ConfigError, or Exit if a gate is broken."""
    gates = [Gate.read(text) for text in given["gates"]]
    plan = load_sweep(Path(file))
    store = Store(Path(given["results"] or DEFAULT_RESULTS.replace("NAME", Path(file).stem)))
    store.make_folder()
    baseline = _Baseline.choose(given["baseline"], plan)
    baseline.check(gates, plan)
    found, ran = _run(plan, store, given)
    rows = [_row(plan, run, found[run.id]) for run in plan.runs]
    result = baseline.pair(plan, rows)
    files = _write(store, result)
    broken = _judge(gates, result)
    if output == "json":
        write_json(_as_json(result, ran=ran, broken=broken, files=files))
    else:
        _print(make_console(), result, ran=ran, broken=broken, files=files)
    violations = sum(row.figures["violations"] or 0 for row in rows)
    if violations:
        raise InvariantError(f"{count(int(violations), 'planned action')} broke a rule")
    if broken:
        raise click.exceptions.Exit(GATE_BROKEN)


class _Baseline:
    """What variants are compared with: a variant of the same sweep, or the rows of an earlier one."""

    def __init__(self, variant: str, earlier: Sequence[Row] | None) -> None:
        self._variant, self._earlier = variant, earlier

    @staticmethod
    def choose(wanted: str | None, plan: SweepPlan) -> "_Baseline":
        """Return the baseline of the flag, or else of the file; raise ConfigError."""
        if wanted is None or wanted in plan.variants:
            return _Baseline(wanted or plan.baseline, None)
        if not Path(wanted).is_dir():
            hint = suggest(wanted, plan.variants)
            raise ConfigError(f"--baseline {wanted}: is neither a variant of the sweep nor a folder of results{hint}")
        return _Baseline(wanted, read_lines(Path(wanted)))

    def check(self, gates: Sequence[Gate], plan: SweepPlan) -> None:
        """Raise ConfigError if a gate is about changes and there is nothing to compare with."""
        of_change = next((gate for gate in gates if gate.is_change), None)
        if of_change is not None and plan.variants == (self._variant,):
            raise ConfigError(f"--fail-if {of_change.text}: the sweep has only its baseline: give --baseline FOLDER")

    def pair(self, plan: SweepPlan, rows: Sequence[Row]) -> SweepResult:
        """Find for each row its partner in the baseline."""
        if self._earlier is None:
            by_seed = {(row.scenario, row.seed): row for row in rows if row.variant == self._variant}
            partners = {row.id: by_seed[row.scenario, row.seed] for row in rows}
        else:
            before = {(row.variant, row.scenario, row.seed): row for row in self._earlier}
            named = {row.id: before.get((row.variant, row.scenario, row.seed)) for row in rows}
            partners = {name: row for name, row in named.items() if row is not None}
            if not partners:
                raise ConfigError(
                    f"--baseline {self._variant}: holds no run with the variants, scenarios and seeds of this sweep"
                )
        return SweepResult(
            name=plan.name,
            rows=rows,
            variants=plan.variants,
            scenarios=plan.scenarios,
            baseline=self._variant,
            partners=partners,
        )


def _run(plan: SweepPlan, store: Store, given: Mapping[str, Any]) -> tuple[dict[str, Kept], int]:
    """Return every result by the id of its run, and how many runs were carried out now."""
    wants = not given["no_reports"]
    runs = {run.id: run for run in plan.runs}
    found = {run.id: kept for run in runs.values() if (kept := store.find(run, with_report=wants)) is not None}
    left = [run for run in runs.values() if run.id not in found]
    if not left:
        return found, 0
    jobs = min(given["jobs"] or len(os.sched_getaffinity(0)), len(left))
    with _show_progress(len(runs), len(found)) as advance, open_executor(given["scheduler"], jobs) as executor:

        def done(kept: Kept) -> None:
            found[kept.id] = kept
            advance()

        carry_out_all(left, executor, store, done, with_report=wants)
    return found, len(left)


@contextmanager
def _show_progress(total: int, done: int) -> Iterator[Callable[[], None]]:
    """Yield what to call after each run. On a terminal there is a bar with an estimate of the time left."""
    console = make_console(sys.stderr)
    if not console.is_terminal:
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TextColumn("runs,"))
    times = (TimeElapsedColumn(), TextColumn("passed,"), TimeRemainingColumn(), TextColumn("left"))
    with Progress(*columns, *times, console=console, transient=True) as shown:
        task = shown.add_task("simulating", total=total, completed=done)
        yield lambda: shown.advance(task)


def _row(plan: SweepPlan, run: SweepRun, kept: Kept) -> Row:
    return Row(
        id=run.id,
        sweep=plan.name,
        variant=run.variant,
        scenario=run.scenario,
        seed=run.seed,
        version=version("nodewright-simulator"),
        settings=run.inputs.settings,
        figures=kept.figures,
        report=kept.report,
    )


def _write(store: Store, result: SweepResult) -> dict[str, str]:
    """Write the tables and the page; return their paths."""
    files = {"lines": store.write(LINES, write_lines(result.rows))}
    parquet = write_parquet(result.rows)
    if parquet is None:
        make_console(sys.stderr).print(safe(f'{PARQUET} is not written: pip install "nodewright[sweep]"'))
    else:
        files["parquet"] = store.write(PARQUET, parquet)
    files["page"] = store.write("index.html", write_sweep_page(result).encode())
    return {name: str(path.resolve()) for name, path in files.items()}


def _compared(result: SweepResult) -> list[str]:
    """Return the variants that are compared with the baseline."""
    return [name for name in result.variants if name != result.baseline]


def _judge(gates: Sequence[Gate], result: SweepResult) -> list[str]:
    """Return what broke a gate, over all scenarios of each variant. A baseline of the same sweep has no change."""
    said = (
        gate.judge(result.of(variant), result.partners)
        for variant in result.variants
        for gate in gates
        if not gate.is_change or variant != result.baseline
    )
    return [text for text in said if text is not None]


def _as_json(result: SweepResult, *, ran: int, broken: Sequence[str], files: Mapping[str, str]) -> dict[str, Any]:
    differences = [
        compare(result.of(variant), result.partners, figure) for variant in _compared(result) for figure in FIGURES
    ]
    return {
        "schema": SCHEMA,
        "name": result.name,
        "runs": len(result.rows),
        "carried_out": ran,
        "baseline": result.baseline,
        "variants": [
            {"variant": name, **{figure: mean(result.of(name), figure) for figure in FIGURES}}
            for name in result.variants
        ],
        "differences": [
            {
                "variant": one.variant,
                "figure": one.figure,
                "pairs": one.pairs,
                "before": one.before,
                "after": one.after,
                "change": one.change,
                "relative": one.relative,
                "low": one.low,
                "high": one.high,
            }
            for one in differences
            if one is not None
        ],
        "broken": list(broken),
        "files": dict(files),
    }


def _print(console: Console, result: SweepResult, *, ran: int, broken: Sequence[str], files: Mapping[str, str]) -> None:
    kept = len({row.id for row in result.rows}) - ran
    known = f", {kept:,} of them known from before" if kept else ""
    console.print(safe(f"{result.name}: {count(len(result.rows), 'run')}{known}", "bold"))
    titles = [FIGURES[name].title for name in _SHOWN]
    table = make_table("Means over all runs", "variant", "front", *titles, right=titles)
    front = find_front({name: objectives(result.of(name)) for name in result.variants})
    for name in result.variants:
        figures = (in_words(figure, mean(result.of(name), figure)) for figure in _SHOWN)
        table.add_row(safe(name), safe("yes" if name in front else "", "green"), *map(safe, figures))
    console.print(table)
    _print_differences(console, result)
    for text in broken:
        console.print(safe(text, "red"), soft_wrap=True)
    console.print(safe(f"Page, to open in a browser: {files['page']}"), soft_wrap=True)


def _print_differences(console: Console, result: SweepResult) -> None:
    title = f"Differences to {result.baseline}, with 95% intervals"
    table = make_table(title, "variant", *(FIGURES[name].title for name in OBJECTIVES))
    for name in _compared(result):
        found = [compare(result.of(name), result.partners, figure) for figure in OBJECTIVES]
        table.add_row(safe(name), *(safe(_say_difference(one) if one is not None else "-") for one in found))
    if table.row_count:
        console.print(table)


def _say_difference(found: Difference) -> str:
    """Return ``+8.3% (+$0.50 to +$1.50)``."""
    change = f"{'-' if found.change < 0 else '+'}{in_words(found.figure, abs(found.change))}"
    said = f"{found.relative:+.1%}" if found.relative is not None else change
    return f"{said} ({say_interval(found)})" if found.low is not None else said
