"""``nodewright doctor``: check the providers' permissions and prices, and find other writers of their groups."""

from pathlib import Path

import click

from nodewright.cli.screen import output_option
from nodewright.cli.settings.flags import SettingsCommand, settings_options
from nodewright.model.settings import Settings


@click.command("doctor", cls=SettingsCommand)
@click.option(
    "--policy", "policy_only", is_flag=True, help="Print only the minimal permissions, without calling a cloud."
)
@click.option(
    "--templates",
    "templates_only",
    is_flag=True,
    help="Compare only the providers' templates with real nodes, as the engine saved it. No provider is needed.",
)
@click.option(
    "--state",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --templates: the state file of an engine that runs without a cluster.",
)
@output_option
@settings_options
def command(settings: Settings, output: str, policy_only: bool, templates_only: bool, state: Path | None) -> int:
    """Examine the configured providers: the permission for each capability, and other writers of their groups.

    Where an API server is reached, doctor also compares this machine's clock with it. With --templates it says instead in
    what the last real nodes of each group differ from its provider's template, and what else they showed.

    Doctor only reads; it changes nothing in any cloud. It prints why a capability does not work, and the smallest
    sufficient policy.

    Exit codes: 0 no problem found; 3 there are warnings; 4 something will not work; 2 bad input.
    """
    from nodewright.cli.examination import run_doctor

    return run_doctor(settings, output, policy_only=policy_only, templates_only=templates_only, state=state)
