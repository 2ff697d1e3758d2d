"""The failover table through the vendors' servers: the plugins as they are, over HTTP, on virtual time."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from failover_scenarios import MODES, Mode
from failover_stage import CASES, END, MINUTE, measure

PAGE = Path(__file__).parents[1] / "docs" / "failover-clouds.md"
# The groups are new: nothing can be learned from their arrivals.
SHOWN = {name: mode for name, mode in MODES.items() if name != "auto"}
COLUMNS = ("provider", "scenario", "mode", "next group", "all running", "scale-ups", "killed", "API calls")
# A loop in which the failure shows; and a provision time, after which the core looks once more with patience.
FAST, PROMPT = 0.5, 16.0

Row = dict[str, Any]


def measure_all(providers: Sequence[str], names: Sequence[str]) -> list[Row]:
    return [
        {"provider": provider, "scenario": name, "mode": mode, **_fields(provider, name, MODES[mode])}
        for provider in providers
        for name in names or CASES
        for mode in SHOWN
    ]


def broken_promises(rows: Iterable[Row]) -> Iterator[str]:
    """Nothing dies; who is told leaves in the next loop, who is not after one provision time."""
    for row in rows:
        what = f"{row['provider']}, {row['scenario']} under {row['mode']}"
        most = {"fast": FAST, "prompt": PROMPT}.get(row["mode"])
        minutes = row["minutes_to_next_group"]
        if row["killed"]:
            yield f"{what}: {row['killed']} machines died"
        if most is not None and (minutes is None or minutes > most):
            yield f"{what} leaves for the next group after {minutes} minutes, not {most}"


def cells(row: Row) -> list[str]:
    """One row as text."""
    figures = (row["minutes_to_next_group"], row["minutes_to_all_running"])
    minutes = ["never" if value is None else f"{value:.1f} min" for value in figures]
    return [
        row["provider"],
        row["scenario"],
        row["mode"],
        *minutes,
        *map(str, (row["scale_ups"], row["killed"], row["api_calls"])),
    ]


def write_page(rows: Sequence[Row]) -> str:
    """docs/failover-clouds.md."""
    lines = [
        "# Failover through the clouds' own APIs",
        "",
        "`python bench/failover.py --provider aws --provider gce --provider azure` writes this page. The plugins are those",
        "that are installed, over HTTP (Azure: TLS) against servers on this machine: moto behind a proxy for AWS, servers of",
        "our own for GCE and Azure that check each exchange against the vendor's schema. Time is virtual, as in",
        "[failover.md](failover.md), whose modes these are. `fast` and `ca-fast` have each plugin's own failure detection; in all",
        "other modes it is switched off (`detect_failures: false`). Two new groups, the cheap one preferred; three pods want a machine",
        "each. Minutes count from the loop that sees the pods; a kubelet joins 30 seconds after its machine is there. Never:",
        f"not within {END / MINUTE / 60:.0f} hours. Killed: machines that ran and are gone. [Figures](reference/figures.md) has the commit.",
        "",
        *(f"- `{name}`: {title}." for name, (title, _) in CASES.items()),
        "",
        "| " + " | ".join(COLUMNS) + " |",
        "|---|---|---|--:|--:|--:|--:|--:|",
        *("| " + " | ".join(cells(row)) + " |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def _fields(provider: str, name: str, mode: Mode) -> Row:
    found = measure(
        provider, name, {"expander": "price", "scale-down-enabled": False, **mode.settings}, tells=mode.tells
    )
    return {field: getattr(found, field) for field in found.__dataclass_fields__}
