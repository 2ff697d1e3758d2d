"""The text of differences.md: how nodewright differs from cluster-autoscaler, from ``nodewright.model.policy``."""

import re
from collections.abc import Iterator
from itertools import groupby

from nodewright.model.policy import Difference, differences
from nodewright.model.settings import LoopSettings, Settings

HEAD = """# How nodewright differs from cluster-autoscaler

This page is made from `nodewright/model/policy.py`: `make generate` writes it, and a test compares.
Each row is a switch of `Policy`. The last column says with which options it is on; they are the
defaults where nothing else is said. `--profile=ca` decides everything as cluster-autoscaler does. `--size-correction` chooses the
rule for groups that do not deliver: `prompt` is the default, `seed` and `ca` are older rules ([ADR 6](adr/0006-size-correction.md)).
"""


def page() -> str:
    """Return the text of the page."""
    return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for area, rows in groupby(differences(), key=lambda row: row.area):
        yield f"## {area}\n"
        yield "| switch | nodewright | cluster-autoscaler | why | on |"
        yield "|---|---|---|---|---|"
        yield from map(_line, rows)
        yield ""


def _line(row: Difference) -> str:
    cells = (_code(row.nodewright), _code(row.ca), _linked(row.why), _condition(row))
    return f"| `{row.switch}` | {' | '.join(cells)} |"


def _condition(row: Difference) -> str:
    """Return with which options the switch is on, and with which it is not."""
    needs = " and ".join(f"`{option}`" + _default(row, option) for option in row.needs)
    bars = " or ".join(f"`{option}`" for option in row.bars)
    return ", ".join([*([f"with {needs}"] if needs else ()), *([f"unless {bars}"] if bars else ())])


def _default(row: Difference, option: str) -> str:
    """Return a note if the option is a flag that is off by default."""
    profiles = (Settings(), Settings(loop=LoopSettings(profile="ca")))
    is_default = any(getattr(settings.policy, row.switch) for settings in profiles)
    return "" if is_default or option != f"--{row.flag}" else " (off by default)"


def _code(text: str) -> str:
    """Return the text with flags as code."""
    return re.sub(r"--[a-z][a-z=-]*[a-z]", lambda match: f"`{match[0]}`", text)


def _linked(text: str) -> str:
    """Return the text with links to the decisions that it names."""
    return _code(re.sub(r"docs/adr/(\d+)-[\w-]+\.md", lambda match: f"[ADR {int(match[1])}]({match[0][5:]})", text))
