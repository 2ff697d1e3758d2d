"""Draws demo.svg, the README's picture: what ``nodewright demo`` prints. ``make pictures`` runs it."""

import re
from io import StringIO
from pathlib import Path

from nodewright.cli.screen import Screen, safe
from nodewright_simulator.build import BuildOptions
from nodewright_simulator.cli.demo import print_demo
from nodewright_simulator.cli.run_scenario import simulate
from nodewright_simulator.openb import demo_scenario

WIDTH = 96


def draw() -> str:
    """Return the picture: what the demo prints now."""
    scenario = demo_scenario()
    result = simulate(scenario, BuildOptions())
    screen = Screen(
        record=True, file=StringIO(), width=WIDTH, force_terminal=True, markup=False, highlight=False, emoji=False
    )
    screen.print(safe("$ make demo", "dim"))
    print_demo(screen, scenario, result)
    screen.print(safe("Report, to open in a browser: out/demo.html"))
    svg = screen.export_svg(title="nodewright demo", unique_id="demo")
    return _without_web_fonts(svg)


def _without_web_fonts(svg: str) -> str:
    """Return the picture without web fonts, so that it loads nothing: any monospaced font works."""
    plain = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return "\n".join(line.rstrip() for line in plain.splitlines()) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("demo.svg").write_text(draw(), encoding="utf-8")
