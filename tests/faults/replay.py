"""Replays a scenario file loop by loop: ``python -m tests.faults.replay FILE``. Exit code 1: an invariant is broken."""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.faults.facts import Facts
from tests.faults.history import Loop
from tests.faults.invariants import invariants_for
from tests.faults.witness import Witness

from nodewright.engine.planning import Planning
from nodewright_simulator.scenario_file import load_scenario


def replay(file: Path) -> Facts:
    """The run that the file describes, as it was seen from outside."""
    return Facts(Witness(load_scenario(file), Planning()).watch())


def findings(facts: Facts) -> list[str]:
    """What is broken, named after the invariant."""
    return [f"{name}: {finding}" for name, check in invariants_for(facts).items() for finding in check(facts)]


def story(facts: Facts) -> Iterator[str]:
    """A line for every loop that differs from the one before it or writes."""
    last = ""
    for loop in facts.loops:
        line = _picture(loop)
        if line != last or loop.writes:
            yield f"{loop.at:7g} s  {line}{''.join(_written(loop))}"
        last = line


def _picture(loop: Loop) -> str:
    groups = (
        f"{name}: {seen.target} wanted, {len(seen.there)} there" + f", {len(seen.failed)} failed" * bool(seen.failed)
        for name, seen in loop.seen.items()
    )
    ready = sum(node.ready for node in loop.nodes.values())
    return f"{loop.pending} pods wait, {ready} of {len(loop.nodes)} nodes ready; {'; '.join(groups)}"


def _written(loop: Loop) -> Iterator[str]:
    for write in loop.writes:
        what = ", ".join(write.ids) or f"{write.expected} → {write.target}"
        yield f"\n           {write.hook} {write.group}: {what}: {write.error or write.answered}"


def main() -> int:
    if len(sys.argv) != 2:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    facts = replay(Path(sys.argv[1]))
    broken = findings(facts)
    sys.stdout.writelines(f"{line}\n" for line in (*story(facts), *broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
