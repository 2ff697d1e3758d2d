"""How the first failure of a simulation was met, step by step, and what else went wrong."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from nodewright.adapters.simulated.result import SCALE_UP_FAILURES, Decision, SimulationResult
from nodewright.cli.screen import count, make_table, safe
from nodewright.cli.simulation.summary import failures, format_clock, format_span, increases
from nodewright.cli.simulation.troubles import find_troubles
from nodewright.clusterstate.failures import NO_MACHINE

_SOON_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Setback:
    """A failure: the scale-up that it befell, and the one that came instead, if any; times in epoch seconds."""

    at: float
    message: str
    before: Decision
    instead: Decision | None

    @property
    def seen_after(self) -> float:
        """Seconds from the call to the failure being noticed."""
        return self.at - self.before.at


def find_setbacks(result: SimulationResult) -> Iterator[Setback]:
    """Every failed scale-up that can be told as a story, in order of time."""
    grown = list(increases(result))
    asked = [step for step in result.decisions if step.what == "increase"]
    for at, message in failures(result, *SCALE_UP_FAILURES):
        befallen = [step for step in asked if _is_befallen(step, at, message)]
        if befallen:
            after = (step for step in grown if at <= step.at <= at + _SOON_SECONDS and step.group != befallen[-1].group)
            yield Setback(at=at, message=message, before=befallen[-1], instead=next(after, None))


def _is_befallen(step: Decision, at: float, message: str) -> bool:
    """May that failure be one of this call? One that the cloud did not follow fails at once, in the words of its answer."""
    if not any(f"group {step.group}{after}" in message for after in " :"):
        return False
    return step.at < at if step.after > step.before else step.at <= at and message.endswith(step.message or NO_MACHINE)


def print_setbacks(console: Console, result: SimulationResult) -> None:
    """The first setback, and how many there were."""
    setbacks = list(find_setbacks(result))
    if not setbacks:
        return
    first = setbacks[0]
    table = make_table("The first failure", "at", "", "what happened")
    table.show_header = False
    table.add_row(safe(format_clock(first.before.at)), safe("asked", "green"), safe(_say(first.before)))
    seen = f"seen {format_span(first.seen_after)} after the call"
    table.add_row(safe(format_clock(first.at)), safe("failed", "red"), safe(f"{seen}: {first.message}"))
    if first.instead is not None:
        table.add_row(safe(format_clock(first.instead.at)), safe("instead", "green"), safe(_say(first.instead)))
    console.print(table)
    if len(setbacks) > 1:
        console.print(safe(f"{count(len(setbacks) - 1, 'more failure')} later.", "dim"), end="\n\n")


def print_troubles(console: Console, result: SimulationResult) -> None:
    """Each kind of trouble beside failed scale-ups: when it was first met, how often, and what was said then."""
    troubles = list(find_troubles(result))
    if not troubles:
        return
    table = make_table("What else happened", "first at", "times", "what", "said first", right=("times",))
    for trouble in troubles:
        cells = (format_clock(trouble.at), f"{trouble.times:,}", trouble.what, trouble.message)
        table.add_row(*(safe(cell) for cell in cells))
    console.print(table)


def _say(step: Decision) -> str:
    if step.after == step.before:
        return f"{step.group} to grow from {step.before}, for {count(step.pods, 'pod')}"
    return f"{step.group} {step.before} → {step.after}, for {count(step.pods, 'pod')}"
