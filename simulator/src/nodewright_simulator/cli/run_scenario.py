"""One run of a scenario or a trace for a command: progress, reports, explanations. The commands import it late: it is slow."""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.explanation import KINDS, Explanation, explain
from nodewright.cli.explanation_view import as_json as explanation_json
from nodewright.cli.explanation_view import print_explanation
from nodewright.cli.screen import count, make_console, safe, write_json
from nodewright.cli.settings.load import load_settings
from nodewright.cli.status_view import as_json as status_json
from nodewright.cli.status_view import print_status
from nodewright.model.duration import parse_duration, virtual_moments
from nodewright.model.errors import ConfigError, InvariantError
from nodewright.model.yaml_text import load_yaml
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.cli.summary import as_json, format_span, print_result, print_setbacks, print_troubles
from nodewright_simulator.comparison import Side, write_comparison
from nodewright_simulator.openb import is_trace, trace_scenario
from nodewright_simulator.report import write_report
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import Scenario, TimeSpan
from nodewright_simulator.scenario_file import load_scenario, read_flat_settings
from nodewright_simulator.simulation import OnProgress
from nodewright_simulator.simulation import Progress as State


@contextmanager
def show_progress(console: Console, *, ends: bool) -> Iterator[OnProgress | None]:
    """Yield what the simulation calls after each loop. ``ends``: the end is known, so that a bar can be drawn."""
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


def check_writable(path: Path) -> None:
    """Raise ConfigError, before a long run, if no report can be written there."""
    is_new = not path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("ab").close()
        if is_new:
            path.unlink()
    except OSError as error:
        raise _refusal(path, error) from None


def save_report(page: str, path: Path) -> Path:
    """Write the page to ``path`` and return the absolute path; raise ConfigError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise _refusal(path, error) from None
    return path.resolve()


def save_report_somewhere(page: str, wanted: Path) -> Path:
    """Do as ``save_report`` does; if that fails, write to the folder for temporary files."""
    try:
        return save_report(page, wanted)
    except ConfigError:
        return save_report(page, Path(tempfile.mkdtemp(prefix="nodewright-")) / wanted.name)


def _refusal(path: Path, error: OSError) -> ConfigError:
    return ConfigError(f"--report: {path}: {error.strerror}")


@dataclass(frozen=True, kw_only=True)
class SimulateFlags:
    """What the command line changes in a scenario, or says about a trace."""

    seed: int | None
    compress: float | None
    all_at_once: bool
    given: tuple[str, ...]
    at: str | None


def run_scenario(source: str, report: str | None, every_tick: bool, output: str, **given: Any) -> None:
    """Carry out ``nodewright simulate``; ``given`` are the fields of SimulateFlags and further options."""
    compared = given.pop("compare")
    if compared and report is None:
        raise ConfigError("--compare: needs --report, which shows both runs")
    status, questions = given.pop("status"), [_read_question(text) for text in given.pop("explain")]
    prices = given.pop("prices")
    if prices is not None:
        given["given"] = (*given["given"], f"prices={json.dumps(prices)}")
    flags = SimulateFlags(**given)
    scenario = _change(_load(Path(source), flags), flags)
    if report is not None:
        check_writable(Path(report))
    result = simulate(scenario, _build_options(every_tick=every_tick))
    sides = [Side(", ".join(flags.given) or "as it is", result, scenario)]
    if compared:
        other = _with_settings(scenario, compared, "--compare")
        sides.append(Side(", ".join(compared), simulate(other, _build_options(every_tick=every_tick)), other))
    written = None
    if report is not None:
        page = write_comparison(*sides) if compared else write_report(result, scenario)
        written = save_report(page, Path(report))
    if output == "json":
        answers = _answer(result, scenario, questions)
        document = as_json(result, str(written) if written else None)
        document |= {"status": status_json(result.status)} if status else {}
        write_json(document | ({"explanations": [explanation_json(found) for found in answers]} if answers else {}))
    else:
        with virtual_moments():
            answers = _answer(result, scenario, questions)
            _print(result, scenario.description, written)
            if status:
                print_status(make_console(), result.status)
            for found in answers:
                print_explanation(make_console(), found)
    check_violations(sides)


def check_violations(sides: Sequence[Side]) -> None:
    """Raise InvariantError if planned actions broke a rule. Of two runs, it names those and tells what they broke."""
    broken = [side for side in sides if side.result.violations]
    said = [f"{count(len(side.result.violations), 'planned action')} broke a rule" for side in broken]
    if len(sides) > 1:
        said = [
            f"{words} in the run {side.name} ({', '.join(dict.fromkeys(side.result.violations))})"
            for words, side in zip(said, broken, strict=True)
        ]
    if said:
        raise InvariantError("; ".join(said))


def _build_options(*, every_tick: bool) -> BuildOptions:
    """Return options for one run: each has a clock of its own."""
    return BuildOptions(every_tick=every_tick, folder=Path())


def simulate(scenario: Scenario, options: BuildOptions) -> SimulationResult:
    """Run the scenario to its end, with progress on a terminal."""
    simulation = build_simulation(scenario, options)
    with show_progress(make_console(sys.stderr), ends=not scenario.stops_idle) as on_progress:
        return simulation.run(on_progress)


def _load(source: Path, flags: SimulateFlags) -> Scenario:
    if source.is_dir() or is_trace(source):
        if not is_trace(source):
            raise ConfigError(
                f"{source}: a trace is a folder with nodes.csv and pods.csv, or a file of nodewright record"
            )
        return trace_scenario(str(source), compression=flags.compress or 1.0, all_at_once=flags.all_at_once)
    if flags.compress is not None or flags.all_at_once:
        flag = "--compress" if flags.compress is not None else "--all-at-once"
        raise ConfigError(f"{flag}: is for traces; {source} is none")
    return load_scenario(source)


def _change(scenario: Scenario, flags: SimulateFlags) -> Scenario:
    seed = scenario.seed if flags.seed is None else flags.seed
    changed = _with_settings(scenario, flags.given, "--set")
    return replace(changed, seed=seed, duration=_end(scenario, flags))


def _with_settings(scenario: Scenario, given: Sequence[str], option: str) -> Scenario:
    """Return the scenario with ``flag=value`` of the option set; raise ConfigError."""
    settings = dict(scenario.settings)
    for text in given:
        flag, equals, value = text.removeprefix("--").partition("=")
        if not equals:
            raise ConfigError(f"{option} {text}: is not of the form flag=value")
        settings[flag] = _read_value(value, f"{option} {flag}")
    load_settings({}, {}, json.dumps(settings), f"scenario {scenario.name}: settings")  # raises what is wrong
    return replace(scenario, settings=settings)


def _end(scenario: Scenario, flags: SimulateFlags) -> TimeSpan:
    if flags.at is None:
        return scenario.duration
    try:
        return TimeSpan(min(scenario.duration, parse_duration(flags.at)))
    except ValueError as error:
        raise ConfigError(f"--at: {error}") from None


def _read_question(text: str) -> tuple[str, str]:
    """Return the kind and the name of ``node=NAME``."""
    kind, equals, name = text.partition("=")
    if not equals or kind not in KINDS:
        forms = "node=NAME, pod=NAMESPACE/NAME, group=PROVIDER/ID, request=NAMESPACE/NAME or buffer=NAMESPACE/NAME"
        raise ConfigError(f"--explain {text}: is not of the form {forms}")
    return kind, name


def _answer(result: SimulationResult, scenario: Scenario, questions: Sequence[tuple[str, str]]) -> list[Explanation]:
    """Explain the objects as the last loop saw and planned them."""
    last = result.last_loop
    if not questions:
        return []
    if last is None or last.state is None or last.plan is None:
        raise ConfigError("--explain: the run ended before a loop had planned anything")
    settings = read_flat_settings(scenario.settings, f"scenario {scenario.name}")
    dry_run = DryRun(state=last.state, plan=last.plan, settings=settings)
    return [explain(dry_run, kind, name) for kind, name in questions]


def _read_value(text: str, source: str) -> Any:
    """Return a value as a scenario file would hold it."""
    documents = load_yaml(text, source)
    return documents[0] if documents else ""


def _print(result: SimulationResult, description: str, written: Path | None) -> None:
    console = make_console()
    print_result(console, result, description)
    print_setbacks(console, result)
    print_troubles(console, result)
    if written is not None:
        console.print(safe(f"Report, to open in a browser: {written}"), soft_wrap=True)
