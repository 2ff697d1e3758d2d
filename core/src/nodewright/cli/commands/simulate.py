"""``nodewright simulate``: a scenario or a trace on virtual time."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from nodewright.adapters.report import write_report
from nodewright.adapters.simulated.build import BuildOptions, build_simulation
from nodewright.adapters.simulated.demo import trace_scenario
from nodewright.adapters.simulated.flat_settings import read_flat_settings
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.adapters.simulated.scenario import Scenario, Seconds
from nodewright.adapters.simulated.scenario_file import load_scenario
from nodewright.adapters.traces.openb import is_trace
from nodewright.cli.dry_run.trial import Trial
from nodewright.cli.explain.answers import KINDS, Answer, answer
from nodewright.cli.explain.json import as_json as explanation_json
from nodewright.cli.explain.view import print_answer
from nodewright.cli.screen import count, make_console, output_option, safe, write_json
from nodewright.cli.settings.load import load_settings
from nodewright.cli.simulation.progress import show_progress
from nodewright.cli.simulation.report_file import check_writable, save_report
from nodewright.cli.simulation.story import print_setbacks, print_troubles
from nodewright.cli.simulation.summary import as_json, print_result
from nodewright.cli.status.view import as_json as status_json
from nodewright.cli.status.view import print_status
from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError, InvariantError
from nodewright.model.yaml_text import load_yaml


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What the command line changes in a scenario, or says of a trace."""

    seed: int | None
    compress: float | None
    all_at_once: bool
    given: tuple[str, ...]
    at: str | None


@click.command("simulate")
@click.argument("source", metavar="SCENARIO|TRACE")
@click.option("--report", metavar="FILE.html", help="Write one self-contained page with charts over time.")
@click.option("--seed", type=int, help="Chance of the scenario. Default: what it says.")
@click.option(
    "--compress", type=click.FloatRange(0, 1_000_000, min_open=True), metavar="N", help="TRACE in 1/N of time."
)
@click.option("--all-at-once", is_flag=True, help="TRACE with all pods pending at the start.")
@click.option("--set", "given", multiple=True, metavar="FLAG=VALUE", help="A setting, stronger than the scenario's.")
@click.option("--every-tick", is_flag=True, help="Run every loop, also those that cannot change anything.")
@click.option("--at", metavar="DURATION", help="End the run there, to look at that moment.")
@click.option(
    "--explain", multiple=True, metavar="KIND=NAME", help="Show at the end what nodewright explain KIND NAME would."
)
@click.option("--status", is_flag=True, help="Show at the end what nodewright status would.")
@output_option
def command(source: str, report: str | None, every_tick: bool, output: str, **given: Any) -> None:
    """Run a scenario (a YAML file) or a trace (a folder with nodes.csv and pods.csv) on virtual time.

    The same engine code as on a real cluster, deterministic under a seed.

    Exit codes: 0 simulated, whatever became of the pods; 2 bad input; 1 a planned action broke a rule: a bug.
    """
    status, questions = given.pop("status"), [_read_question(text) for text in given.pop("explain")]
    wish = Wish(**given)
    scenario = _change(_load(Path(source), wish), wish)
    if report is not None:
        check_writable(Path(report))
    result = simulate(scenario, BuildOptions(every_tick=every_tick, folder=Path()))
    written = None
    if report is not None:
        written = save_report(write_report(result, description=scenario.description), Path(report))
    answers = _answer(result, scenario, questions)
    if output == "json":
        document = as_json(result, str(written) if written else None)
        document |= {"status": status_json(result.status)} if status else {}
        write_json(document | ({"explanations": [explanation_json(found) for found in answers]} if answers else {}))
    else:
        _print(result, scenario.description, written)
        if status:
            print_status(make_console(), result.status)
        for found in answers:
            print_answer(make_console(), found)
    if result.violations:
        raise InvariantError(f"{count(len(result.violations), 'planned action')} broke a rule")


def simulate(scenario: Scenario, options: BuildOptions) -> SimulationResult:
    """Runs it to its end, with progress on a terminal."""
    simulation = build_simulation(scenario, options)
    with show_progress(make_console(sys.stderr), ends=not scenario.stops_idle) as on_progress:
        return simulation.run(on_progress)


def _load(source: Path, wish: Wish) -> Scenario:
    if source.is_dir():
        if not is_trace(source):
            raise ConfigError(f"{source}: a trace is a folder with nodes.csv and pods.csv")
        return trace_scenario(str(source), compression=wish.compress or 1.0, all_at_once=wish.all_at_once)
    if wish.compress is not None or wish.all_at_once:
        flag = "--compress" if wish.compress is not None else "--all-at-once"
        raise ConfigError(f"{flag}: is for traces; {source} is none")
    return load_scenario(source)


def _change(scenario: Scenario, wish: Wish) -> Scenario:
    settings = dict(scenario.settings)
    for text in wish.given:
        flag, equals, value = text.removeprefix("--").partition("=")
        if not equals:
            raise ConfigError(f"--set {text}: is not of the form flag=value")
        settings[flag] = _read_value(value, f"--set {flag}")
    load_settings({}, {}, json.dumps(settings), f"scenario {scenario.name}: settings")  # raises what is wrong
    seed = scenario.seed if wish.seed is None else wish.seed
    return replace(scenario, settings=settings, seed=seed, duration=_end(scenario, wish))


def _end(scenario: Scenario, wish: Wish) -> Seconds:
    if wish.at is None:
        return scenario.duration
    try:
        return Seconds(min(scenario.duration, parse_duration(wish.at)))
    except ValueError as error:
        raise ConfigError(f"--at: {error}") from None


def _read_question(text: str) -> tuple[str, str]:
    """The kind and the name of ``node=NAME``."""
    kind, equals, name = text.partition("=")
    if not equals or kind not in KINDS:
        forms = "node=NAME, pod=NAMESPACE/NAME, group=PROVIDER/ID, request=NAMESPACE/NAME or buffer=NAMESPACE/NAME"
        raise ConfigError(f"--explain {text}: is not of the form {forms}")
    return kind, name


def _answer(result: SimulationResult, scenario: Scenario, questions: Sequence[tuple[str, str]]) -> list[Answer]:
    """As the last loop saw and planned it."""
    last = result.last_loop
    if not questions:
        return []
    if last is None or last.state is None or last.plan is None:
        raise ConfigError("--explain: the run ended before a loop had planned anything")
    settings = read_flat_settings(scenario.settings, f"scenario {scenario.name}")
    trial = Trial(state=last.state, plan=last.plan, settings=settings)
    return [answer(trial, kind, name) for kind, name in questions]


def _read_value(text: str, source: str) -> Any:
    """A value as a scenario file would hold it."""
    documents = load_yaml(text, source)
    return documents[0] if documents else ""


def _print(result: SimulationResult, description: str, written: Path | None) -> None:
    console = make_console()
    print_result(console, result, description)
    print_setbacks(console, result)
    print_troubles(console, result)
    if written is not None:
        console.print(safe(f"Report, to open in a browser: {written}"), soft_wrap=True)
