"""Hunts in a process of its own: ``python -m tests.faults.report [--schedules N] [--first N]`` prints JSON. ``--clock-jumps``
hunts with jumps of the wall clock instead; ``--trouble KIND`` only in worlds with this trouble, for a schedule that is broken with it
and sound without.

The engine's own check of its plans is switched off: what is caught is caught from outside.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from tests.faults.clock_jumps import hunt_jumps
from tests.faults.hunt import REMOVABLE, Hunt, hunt, hunt_kind

import nodewright
from nodewright.engine.planning import Planning
from nodewright.model.plan import PlannedAction
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import Observation
from nodewright.validate import PlanViolation


def unchecked(seen: Observation, actions: Sequence[PlannedAction], settings: Settings) -> tuple[PlanViolation, ...]:
    """Finds every plan sound."""
    assert seen is not None, (actions, settings)
    return ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--clock-jumps", action="store_true")
    parser.add_argument("--trouble", choices=sorted(REMOVABLE))
    wanted = parser.parse_args()
    numbers = range(wanted.first, wanted.first + wanted.schedules)
    told = _hunt_jumps() if wanted.clock_jumps else _tell(_hunt(numbers, wanted.trouble))
    json.dump({"engine": nodewright.__file__, **told}, sys.stdout)


def _hunt_jumps() -> dict[str, object]:
    tried, finding = hunt_jumps(range(6))
    return {"schedules": tried, "invariant": "clock jumps" if finding else None, "finding": finding}


def _hunt(numbers: range, trouble: str | None) -> Hunt:
    planning = Planning(check_actions=unchecked)
    return hunt_kind(trouble, numbers, planning=planning) if trouble else hunt(numbers, planning=planning)


def _tell(found: Hunt) -> dict[str, object]:
    broken = found.broken
    return {
        "schedules": found.tried,
        "invariant": broken.invariant if broken is not None else None,
        "finding": broken.findings[0] if broken is not None else "",
    }


if __name__ == "__main__":
    main()
