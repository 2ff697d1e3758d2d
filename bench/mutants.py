"""Is a bug in the engine found by the random schedules of faults? ``mutants.py [--only NAME] [--output json]``.

Every mutant of bench/mutants/*.toml is one small bug, put into a copy of the engine; the schedules of tests/faults
run against it until an invariant breaks. Of a mutant with a ``trouble`` only the worlds of that kind are run, until one breaks that
is sound without that trouble. All run on the code as it was at the start, even if it is edited meanwhile.
Exit code 1: a mutant was not caught. 2: an unknown name, or a mutant that no longer fits the code.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("core/src", "simulator/src", "plugins/fake/src", "tests/faults")
MOST = 1000


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A bug: in ``file`` of the package, ``old`` becomes ``new``. ``clock_jumps``: only jumps of the clock can show it.

    ``trouble``: the kind of trouble that shows it; empty: any.
    """

    name: str
    story: str
    file: str
    old: str
    new: str
    clock_jumps: bool = False
    trouble: str = ""


class Row(TypedDict):
    mutant: str
    story: str
    trouble: str
    caught: bool
    schedules: int
    invariant: str | None
    finding: str


class StaleMutant(Exception):
    """The text that a mutant replaces does not stand in its file exactly once."""


def load_mutants() -> list[Mutant]:
    files = sorted((ROOT / "bench" / "mutants").glob("*.toml"))
    return [Mutant(**entry) for file in files for entry in tomllib.loads(file.read_text())["mutant"]]


def mutated(mutant: Mutant, root: Path) -> tuple[Path, str]:
    """Return the file below ``root`` and its text with the bug in it; raise StaleMutant."""
    file = root / "core" / "src" / "nodewright" / mutant.file
    text = file.read_text()
    if text.count(mutant.old) != 1:
        raise StaleMutant(f"{mutant.name}: its text stands {text.count(mutant.old)} times in {mutant.file}")
    return file, text.replace(mutant.old, mutant.new)


@contextmanager
def frozen(root: Path) -> Iterator[Path]:
    """Yield a copy of everything that runs, and delete it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        for part in SOURCES:
            shutil.copytree(root / part, Path(folder) / part, ignore=shutil.ignore_patterns("__pycache__"))
        yield Path(folder)


def measure(mutant: Mutant, root: Path) -> Row:
    """How many of the thousand schedules of CI, which the engine itself passes, it takes to catch the mutant.

    Of a mutant with a trouble only those with this trouble count.
    """
    with frozen(root) as copy:
        file, text = mutated(mutant, copy)
        file.write_text(text)
        hunted = "--clock-jumps" if mutant.clock_jumps else f"--schedules={MOST}"
        command = [sys.executable, "-m", "tests.faults.report", hunted]
        command += [f"--trouble={mutant.trouble}"] if mutant.trouble else []
        path = os.pathsep.join((str(copy), *(str(copy / part) for part in SOURCES[:3])))
        env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{mutant.name}: the schedules do not run\n{done.stderr}")
        told = json.loads(done.stdout)
        if not Path(told["engine"]).is_relative_to(copy):
            raise RuntimeError(f"not the mutant was run, but {told['engine']}")
        return _row(mutant, told)


def _row(mutant: Mutant, told: dict[str, object]) -> Row:
    return {
        "mutant": mutant.name,
        "story": mutant.story,
        "trouble": mutant.trouble,
        "caught": told["invariant"] is not None,
        "schedules": int(str(told["schedules"])),
        "invariant": str(told["invariant"]) if told["invariant"] is not None else None,
        "finding": str(told["finding"]),
    }


def show(rows: Iterator[Row]) -> list[Row]:
    """Print each result when it is known."""
    console, shown = Console(), []
    table = Table("mutant", "caught after", "by", box=None)
    for row in rows:
        shown.append(row)
        tried = f"{row['schedules']} of {row['trouble']}" if row["trouble"] else str(row["schedules"])
        table.add_row(row["mutant"], tried if row["caught"] else "never", row["invariant"] or "")
        Console(stderr=True).print(f"{row['mutant']}: {row['invariant'] or 'not caught'} after {tried}")
    console.print(table)
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="NAME", action="append", help="this mutant; may be repeated")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    wanted = parser.parse_args()
    mutants = load_mutants()
    unknown = sorted(set(wanted.only or ()) - {mutant.name for mutant in mutants})
    if unknown:
        sys.stderr.write(f"there is no mutant {unknown[0]}\n")
        return 2
    chosen = [mutant for mutant in mutants if not wanted.only or mutant.name in wanted.only]
    with frozen(ROOT) as root:
        try:
            for mutant in mutants:
                mutated(mutant, root)
        except StaleMutant as error:
            sys.stderr.write(f"{error}\n")
            return 2
        measured = (measure(mutant, root) for mutant in chosen)
        rows = list(measured) if wanted.output == "json" else show(measured)
    if wanted.output == "json":
        json.dump(rows, sys.stdout, indent=2)
    return 0 if all(row["caught"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
