"""``nodewright demo``: replay a part of a trace on a cloud that runs out of machines."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nodewright.cli.screen import make_console, output_option, safe, write_json
from nodewright.model.errors import PluginNotFound

if TYPE_CHECKING:
    from rich.console import Console

    from nodewright_simulator.result import SimulationResult
    from nodewright_simulator.scenario import Scenario

DEFAULT_REPORT = Path("out/demo.html")


@click.command("demo")
@click.option("--report", metavar="FILE.html", help=f"File of the report. Default: {DEFAULT_REPORT}")
@output_option
def command(report: str | None, output: str) -> None:
    """Replay a part of a production trace on a simulated cloud that runs out of one machine type.

    Write a report for a browser. If out/ cannot be written in this folder, write it to the folder for temporary files.

    Exit codes: 0 done; 2 the fake provider is not installed.
    """
    from nodewright_simulator.build import BuildOptions
    from nodewright_simulator.cli.run_scenario import save_report, save_report_somewhere, simulate
    from nodewright_simulator.cli.summary import as_json
    from nodewright_simulator.openb import demo_scenario
    from nodewright_simulator.report import write_report

    scenario = demo_scenario()
    _demand(scenario)
    result = simulate(scenario, BuildOptions())
    page = write_report(result, scenario)
    written = save_report_somewhere(page, DEFAULT_REPORT) if report is None else save_report(page, Path(report))
    if output == "json":
        write_json(as_json(result, str(written)))
    else:
        print_demo(make_console(), scenario, result)
        make_console().print(safe(f"Report, to open in a browser: {written}"), soft_wrap=True)


def print_demo(console: "Console", scenario: "Scenario", result: "SimulationResult") -> None:
    """Print what the demo shows."""
    from nodewright_simulator.cli.summary import print_result, print_setbacks

    print_result(console, result, scenario.description)
    print_setbacks(console, result)


def _demand(scenario: "Scenario") -> None:
    """Raise PluginNotFound with what to install if a provider is missing."""
    from nodewright.adapters.provider import installed_providers

    there = {plugin.name for plugin in installed_providers()}
    missing = [name for name in scenario.providers if name not in there]
    if missing:
        raise PluginNotFound(f'the demo needs the provider {missing[0]}: pip install "nodewright[{missing[0]}]"')
