"""In every case pods start no later because of a buffer, and the buffer has its room again in the end."""

from dataclasses import dataclass

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.scenario.spare import ON, Sparing
from tests.scenario.story import MINUTE, SOON, Story

from nodewright_simulator.journal import What

POOL = {"name": "pool", "size": 1, "max_size": 50}
STEP = 3 * MINUTE
# From the last thing that happens until everything has settled, nodes that go included.
QUIET = 40 * MINUTE


@dataclass(frozen=True)
class Course:
    """Replicas of each deployment and of the buffer, step by step; ``restart`` is the step at which the engine dies,
    with or without its memory (None: never).
    """

    deployments: tuple[tuple[int, ...], ...]
    buffer: tuple[int, ...]
    restart: int | None
    keeps_memory: bool


COURSES = st.builds(
    Course,
    deployments=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), max_size=3).map(tuple),
    buffer=st.lists(st.integers(0, 5), min_size=1, max_size=3).map(tuple),
    restart=st.none() | st.integers(0, 4),
    keeps_memory=st.booleans(),
)


def play(course: Course, *, spare: bool, **flags: object) -> Sparing:
    last = max(map(len, (course.buffer, *course.deployments)))
    minutes = (last * STEP + QUIET) / MINUTE
    sparing = Sparing(Story(POOL, minutes=minutes, settings={**ON, **SOON, **flags}))
    sparing.template()
    for number, steps in enumerate(course.deployments):
        sparing.story.deploy(f"web-{number}", *((STEP * (index + 1), replicas) for index, replicas in enumerate(steps)))
    for index, replicas in enumerate(course.buffer if spare else ()):
        sparing.buffer(replicas=replicas, at=STEP * (index + 1) - MINUTE)
    if course.restart is not None:
        at = STEP * (course.restart + 1) + 5
        sparing.story.simulation.engine.restart(at, down_seconds=30, keeps_memory=course.keeps_memory)
    return sparing


def starts(sparing: Sparing) -> dict[str, float]:
    """When each pod started first."""
    found: dict[str, float] = {}
    for entry in sparing.story.result.journal:
        if entry.what == What.POD_STARTED:
            found.setdefault(entry.name, entry.at)
    return found


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(COURSES)
def test_no_pod_starts_later_for_a_buffer(course: Course) -> None:
    alone = starts(play(course, spare=False, **{"scale-down-enabled": False}))
    shared = starts(play(course, spare=True, **{"scale-down-enabled": False}))
    assert all(shared[pod] <= at for pod, at in alone.items())


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(COURSES)
def test_once_all_is_quiet_there_is_room_for_pods_and_buffer_and_no_more(course: Course) -> None:
    sparing = play(course, spare=True)
    wanted = sum(steps[-1] for steps in course.deployments) + course.buffer[-1]
    assert sparing.story.result.final.pending == 0
    assert sparing.story.machines("pool") == wanted
    assert sparing.replicas() == course.buffer[-1]
