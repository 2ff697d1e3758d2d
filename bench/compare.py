"""Compare two results of bench/run.py: ``compare.py BEFORE.json AFTER.json`` writes a table in Markdown.

Times are divided by the reference work that was timed beside them, since machines are shared and differ in speed. A
benchmark that only one of the two has is left out.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

# Below this many times as slow, a shared machine says nothing.
NOISE = 1.3


def main() -> None:
    before, after = (read(Path(name)) for name in sys.argv[1:3])
    print("\n".join(table(before, after)))


def read(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the rows of a result by the name of their benchmark."""
    found = json.loads(path.read_text())
    return {row["name"]: row for row in found}


def table(before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "| benchmark | before | after | after ÷ before | |"
    yield "|---|--:|--:|--:|---|"
    for name in [name for name in after if name in before]:
        old, new = before[name], after[name]
        ratio = (new["seconds"]["median"] / new["reference"]) / (old["seconds"]["median"] / old["reference"])
        told = "slower" if ratio > NOISE else "faster" if ratio < 1 / NOISE else ""
        times = (f"{row['seconds']['median'] * 1000:.1f} ms" for row in (old, new))
        yield f"| {name} | {' | '.join(times)} | {ratio:.2f} | {told} |"


if __name__ == "__main__":
    main()
