"""``nodewright sweep``: many simulations, in parallel, compared."""

from typing import Any

import click

from nodewright.cli.screen import output_option

DEFAULT_RESULTS = "out/sweeps/NAME"


@click.command("sweep")
@click.argument("file", metavar="FILE.yaml")
@click.option("--results", metavar="FOLDER", help=f"Folder of the results. Default: {DEFAULT_RESULTS}")
@click.option("--jobs", type=click.IntRange(1, 1024), help="Processes on this machine. Default: one for each CPU.")
@click.option("--scheduler", metavar="tcp://HOST:PORT", help="Run on the workers of this Dask scheduler.")
@click.option(
    "--baseline",
    metavar="VARIANT|FOLDER",
    help="Compare with this variant, or with the results of an earlier sweep. Default: the file's.",
)
@click.option(
    "--fail-if", "gates", multiple=True, metavar="CONDITION", help="Such as 'cost > +2%': exit with 3 if it holds."
)
@click.option("--no-reports", is_flag=True, help="Write no report for each run.")
@output_option
def command(file: str, output: str, **given: Any) -> None:
    """Simulate every variant of settings on every scenario or trace with every seed, and compare them.

    FILE names variants, scenarios and seeds. Results that are in the folder already are used, so the same command goes on
    with an interrupted sweep.

    Exit codes: 0 simulated; 2 bad input; 3 a condition of --fail-if holds; 1 a planned action broke a rule: a bug in nodewright.
    """
    from nodewright_simulator.cli.run_sweep import run_sweep

    run_sweep(file, output, **given)
