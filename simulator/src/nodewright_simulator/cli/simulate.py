"""``nodewright simulate``: a scenario or a trace on virtual time."""

from typing import Any

import click

from nodewright.cli.screen import output_option


@click.command("simulate")
@click.argument("source", metavar="SCENARIO|TRACE")
@click.option("--report", metavar="FILE.html", help="Write one self-contained page with charts over time.")
@click.option("--seed", type=int, help="Random seed of the run. Default: the scenario's.")
@click.option(
    "--compress",
    type=click.FloatRange(0, 1_000_000, min_open=True),
    metavar="N",
    help="Replay TRACE N times as fast.",
)
@click.option("--all-at-once", is_flag=True, help="Replay TRACE with all pods pending at the start.")
@click.option("--set", "given", multiple=True, metavar="FLAG=VALUE", help="A setting; replaces the scenario's.")
@click.option(
    "--compare",
    multiple=True,
    metavar="FLAG=VALUE",
    help="Run once more with this setting; the report shows both runs side by side.",
)
@click.option(
    "--prices",
    metavar="FILE",
    help="What machines cost, by machine type or group (docs/prices.md); the same as --set prices=FILE.",
)
@click.option("--every-tick", is_flag=True, help="Run every loop, even those that cannot change anything.")
@click.option("--at", metavar="DURATION", help="End the run at this time of the scenario.")
@click.option(
    "--explain", multiple=True, metavar="KIND=NAME", help="Print at the end the output of nodewright explain KIND NAME."
)
@click.option("--status", is_flag=True, help="Print at the end the output of nodewright status.")
@output_option
def command(source: str, report: str | None, every_tick: bool, output: str, **given: Any) -> None:
    """Run a scenario (a YAML file) or a trace (a folder with nodes.csv and pods.csv) on virtual time.

    The simulation runs the same engine code as on a real cluster. The same seed gives the same run.

    Exit codes: 0 simulated, even if pods still wait; 2 bad input; 1 a planned action broke a rule: a bug in nodewright.
    """
    from nodewright_simulator.cli.run_scenario import run_scenario

    run_scenario(source, report, every_tick, output, **given)
