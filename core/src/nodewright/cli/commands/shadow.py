"""``nodewright shadow report``: what a run beside another autoscaler has shown so far."""

from typing import Any

import click

from nodewright.cli.debug_client import debug_address_option, fetch_page
from nodewright.cli.screen import count, make_console, make_table, output_option, safe, write_json
from nodewright.model.errors import ConfigError

_ALIKE = ("same", "notYet")
_WORDS = {
    "same": "the same",
    "notYet": "the other one was faster",
    "otherSize": "another size",
    "onlyTheirs": "only the other one",
    "onlyOurs": "only nodewright",
}


@click.group("shadow")
def command() -> None:
    """Sum up what nodewright run --shadow has seen.

    Exit codes: 0 done, 2 bad input or no daemon answers.
    """


@command.command("report")
@debug_address_option
@output_option
def report(debug_address: str, output: str) -> None:
    """Show how often the other autoscaler and nodewright agreed, and the differences by cause, with what they cost.

    The daemon at --debug-address must run with --shadow. The cost is what nodewright's choices cost more (or, with a
    minus, less) in an hour than the other autoscaler's, where the groups have a price.

    Exit codes: 0 shown; 2 no daemon answers, or it runs without --shadow.
    """
    content = fetch_page(debug_address, "/shadowz", {})
    if content is None:
        raise ConfigError(f"--debug-address: no process listens at {debug_address}")
    import msgspec

    found: dict[str, Any] = msgspec.json.decode(content)
    summary = summarize(found)
    if output == "json":
        write_json(summary)
        return
    console = make_console()
    console.print(safe(_say(summary)), soft_wrap=True)
    if summary["problem"]:
        console.print(safe(summary["problem"], "yellow"), soft_wrap=True)
    if summary["causes"]:
        table = make_table("What was compared", "what", "who", "times", "USD/h", "cause", right=("times", "USD/h"))
        for one in summary["causes"]:
            cost = "" if one["cost_per_hour"] is None else f"{one['cost_per_hour']:+.2f}"
            table.add_row(
                one["what"], _WORDS.get(one["verdict"], one["verdict"]), str(one["count"]), cost, safe(_tell_cause(one))
            )
        console.print(table)


def _tell_cause(one: dict[str, Any]) -> str:
    cause, example = str(one["cause"]), str(one["example"])
    return cause if not example or example == cause else f"{cause}, such as: {example}"


def summarize(found: dict[str, Any]) -> dict[str, Any]:
    """Return the document of ``--output json`` for the daemon's page ``/shadowz``."""
    causes = sorted(
        found["causes"], key=lambda one: (one["verdict"] in _ALIKE, -one["count"], one["what"], one["cause"])
    )
    alike = sum(one["count"] for one in causes if one["verdict"] in _ALIKE)
    costs = [one["cost_per_hour"] for one in causes if one["cost_per_hour"] is not None]
    return {
        "schema": 1,
        "since": found["since"],
        "loops": found["loops"],
        "problem": found["problem"],
        "agreements": alike,
        "differences": sum(one["count"] for one in causes) - alike,
        "cost_per_hour": sum(costs) if costs else None,
        "causes": causes,
    }


def _say(summary: dict[str, Any]) -> str:
    cost = summary["cost_per_hour"]
    money = "" if cost is None else f" nodewright's choices cost {cost:+.2f} USD an hour compared with the other's."
    return (
        f"Since {summary['since'] or 'the start'}, in {count(summary['loops'], 'loop')}: {count(summary['agreements'], 'agreement')}, "
        f"{count(summary['differences'], 'difference')}.{money}"
    )
