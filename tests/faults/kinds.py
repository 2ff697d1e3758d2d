"""Tell how often each kind of trouble is drawn: ``python -m tests.faults.kinds [--schedules N]``."""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from tests.faults.hunt import drawn
from tests.faults.schedules import Schedule


def count_kinds(schedules: Iterable[Schedule]) -> Counter[str]:
    """Return in how many schedules each kind of trouble is, and how often a restart of strange_state finds each kind of state."""
    return Counter(kind for schedule in schedules for kind in _kinds(schedule))


def _kinds(schedule: Schedule) -> Iterator[str]:
    yield schedule["name"]
    yield from {f"{event['do']} in the timeline" for event in schedule["timeline"]}
    yield from {f"{fault['kind']} of a call" for fault in schedule["providers"]["fake"]["faults"]}
    if schedule["name"] == "strange_state":
        yield from (f"restart with {event['saved']} state" for event in schedule["timeline"] if "saved" in event)
    if schedule["providers"]["fake"].get("small_machines") and schedule["name"] != "small_machines":
        yield f"smaller machines in {schedule['name']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=1000)
    for kind, count in sorted(count_kinds(drawn(range(parser.parse_args().schedules))).items()):
        sys.stdout.write(f"{count:5} {kind}\n")


if __name__ == "__main__":
    main()
