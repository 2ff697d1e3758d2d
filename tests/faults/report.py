"""Hunts in a process of its own: ``python -m tests.faults.report [--schedules N] [--first N]`` prints JSON.

The engine's own check of its plans is switched off: what is caught is caught from outside.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from tests.faults.hunt import hunt

import nodewright
from nodewright.engine.brain import Brain
from nodewright.model.settings import Settings
from nodewright.planner.plan import PlannedAction
from nodewright.snapshot.observation import Observation
from nodewright.validate import Violation


def unchecked(seen: Observation, actions: Sequence[PlannedAction], settings: Settings) -> tuple[Violation, ...]:
    """Finds every plan sound."""
    assert seen is not None, (actions, settings)
    return ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    wanted = parser.parse_args()
    found = hunt(range(wanted.first, wanted.first + wanted.schedules), brain=Brain(check_actions=unchecked))
    broken = found.broken
    told = {
        "engine": nodewright.__file__,
        "schedules": found.tried,
        "invariant": broken.invariant if broken is not None else None,
        "finding": broken.findings[0] if broken is not None else "",
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
