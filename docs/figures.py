"""What made each figure of the pages (docs/figures.toml): run it again, or tell what is older than its code.

``python docs/figures.py`` (``make figures``) runs each command, ``… NAME`` one of them; what they print goes to out/figures/NAME.txt.
``python docs/figures.py --older`` only tells how many commits to the measured code each figure lacks.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
REGISTRY = ROOT / "docs/figures.toml"
_HEAD = """# Figures

What made each figure of the pages. This page is made from the sources: `make generate` writes it from `docs/figures.toml`, and a test compares.
`make figures` runs the commands again (`make figures FIGURE=NAME`: one of them), and `make figures-older` tells which figures are older than
the code that they measure. A commit with a star is the one that brought the figure to the page: the measurement named none. Some pages name
further commits beside single sentences.
"""


class MeasuredFigure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``page`` and ``pictures`` are paths from docs and docs/images; ``code`` are paths of what is measured.

    ``needs`` is a variable without which the command cannot run; ``noted`` tells whether the measurement named its commit.
    """

    name: str
    page: str
    parts: tuple[str, ...]
    command: str
    commit: str
    machine: str
    code: tuple[str, ...]
    pictures: tuple[str, ...] = ()
    needs: str = ""
    noted: bool = True


class FigureList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``not_measured``: pages whose tables of numbers are no measurements, each with what they are."""

    figures: tuple[MeasuredFigure, ...]
    machines: dict[str, str]
    not_measured: dict[str, str]


def read(text: str = "") -> FigureList:
    """Return the registry; raises msgspec.ValidationError where a figure lacks something."""
    return msgspec.toml.decode(text or REGISTRY.read_text(), type=FigureList)


def page() -> str:
    """Return the text of docs/reference/figures.md."""
    found = read()
    return _HEAD + "".join(_part(figure, found.machines) for figure in found.figures)


def _part(figure: MeasuredFigure, machines: Mapping[str, str]) -> str:
    shown = ", ".join(figure.parts or figure.pictures)
    where = figure.page.removeprefix("../")
    star = "" if figure.noted else " *"
    return f"""
## {figure.name}

[{where}: {shown}](../{figure.page}), at commit {figure.commit}{star}. Machine: {machines[figure.machine]}.

```
{figure.command}
```
"""


def older() -> Iterator[tuple[MeasuredFigure, int]]:
    """Yield each figure with the number of commits that changed its code since; raises OSError without the history."""
    for figure in read().figures:
        asked = ["git", "rev-list", "--count", f"{figure.commit}..HEAD", "--", *figure.code]
        ended = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise OSError(ended.stderr.strip())
        if int(ended.stdout):
            yield figure, int(ended.stdout)


def main() -> int:
    if sys.argv[1:] == ["--older"]:
        for figure, count in older():
            print(f"{figure.name}: {count} commits to its code since {figure.commit}")
        return 0
    wanted = sys.argv[1:]
    figures = [figure for figure in read().figures if figure.name in wanted or not wanted]
    if not figures:
        print(f"no such figure: {', '.join(wanted)}; there are {', '.join(one.name for one in read().figures)}")
        return 2
    return max([_run(figure) for figure in figures])


def _run(figure: MeasuredFigure) -> int:
    if figure.needs and not os.environ.get(figure.needs):
        print(f"{figure.name}: left out, it needs {figure.needs}")
        return 0
    told = ROOT / f"out/figures/{figure.name}.txt"
    told.parent.mkdir(parents=True, exist_ok=True)
    print(f"{figure.name}: {figure.command}", flush=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with told.open("w") as file:
        ended = subprocess.run(
            ["bash", "-c", figure.command],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    print(
        f"  exit code {ended.returncode}, {told.relative_to(ROOT)}; if docs/{figure.page} changes, so does commit in docs/figures.toml"
    )
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
