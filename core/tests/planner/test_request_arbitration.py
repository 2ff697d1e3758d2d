"""Which requests for capacity are examined in a loop: each gets its turn, even among many and large ones."""

from dataclasses import replace
from datetime import UTC, datetime

from nodewright.clusterstate.memory import ProvisioningMemory
from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import (
    CHECK_CAPACITY,
    PodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    Retry,
    TemplateReference,
)
from nodewright.planner.provisioning_requests.arbitration import in_turn
from nodewright.planner.provisioning_requests.classes import Mode
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState
from nodewright.testkit.world import NOW, World, settings_with

SETTINGS = settings_with(enable_provisioning_requests=True)


def wish(name: str, count: int = 1, sets: int = 1, age: float = 60.0) -> ProvisioningRequest:
    pod_set = PodSet(pod_template_ref=TemplateReference(name="one"), count=count)
    created = datetime.fromtimestamp(NOW - age, tz=UTC)
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace="default", uid=name, creation_timestamp=created),
        spec=ProvisioningRequestSpec(provisioning_class_name=CHECK_CAPACITY, pod_sets=(pod_set,) * sets),
    )


def turn(world: World, most: int = 500) -> tuple[list[str], bool]:
    """The names of those whose turn it is, and whether others wait for the next loop."""
    requests = ProvisioningRequestState.of(world.state(SETTINGS), SETTINGS.requests)
    taken, next_change = in_turn(requests, Mode.CHECK, most)
    return [request.name for request in taken], next_change == NOW


def looked_at(world: World, **ago: float) -> None:
    """In vain, so many seconds ago."""
    retries = {name: Retry(at=NOW - seconds, wait=1) for name, seconds in ago.items()}
    world.memory = replace(world.memory, provisioning=ProvisioningMemory(retries=retries))


def test_new_ones_then_those_that_waited_longest() -> None:
    world = World(requests=[wish("older", age=90), wish("seen"), wish("seen-first", age=5), wish("new", age=30)])
    looked_at(world, **{"seen": 20, "seen-first": 40})
    assert turn(world) == (["older", "new", "seen-first", "seen"], False)
    assert turn(world, most=3) == (["older", "new", "seen-first"], True)


def test_the_largest_have_a_loop_each() -> None:
    world = World(requests=[wish(f"huge{number}", 16_384, 32) for number in range(3)])
    assert turn(world) == (["huge0"], True)
    looked_at(world, huge0=5)
    assert turn(world) == (["huge1"], True)


def test_one_that_is_wrong_takes_no_turn_from_others() -> None:
    wrong = wish("a-wrong", 2**31 - 1, 32)
    assert turn(World(requests=[wrong, wish("huge", 16_384, 32)])) == (["a-wrong", "huge"], False)
