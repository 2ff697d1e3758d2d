"""CapacityBuffers: pods find room at once, and the room is made again."""

import pytest
from tests.scenario import requesting
from tests.scenario.spare import ON, Sparing
from tests.scenario.story import MINUTE, SOON, Story

from nodewright.model.capacity_buffer import ScalableReference
from nodewright_simulator.journal import What

POOL = {"name": "pool", "size": 1, "max_size": 20}
READY = "True/AttributesSetSuccessfully"
INJECTED = "True/FakePodsInjected"
WEB = ScalableReference(api_group="apps", kind="Deployment", name="web")


def make(*groups: dict[str, object], minutes: float = 30, **settings: object) -> Sparing:
    return Sparing(Story(*(groups or (POOL,)), minutes=minutes, settings={**ON, **SOON, **settings}))


def test_a_buffer_of_five_grows_its_group_and_keeps_it() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=5, at=60)
    story = sparing.story
    assert story.writes("increase") == [(60, "increase", "pool", 1, 5)]
    assert story.writes("delete") == []
    assert story.machines("pool") == 5
    assert sparing.conditions() == {
        "ReadyForProvisioning": READY,
        "LimitedByQuotas": "False/ResourceQuotasAllocated",
        "Provisioning": INJECTED,
    }
    assert sparing.replicas() == 5
    told = story.events("TriggeredScaleUp")
    assert told == [(60, "capacity buffer 4 fake pods triggered scale-up: [{fake/pool 1->5 (max: 20)}]")]


def test_a_quiet_buffer_is_written_once_and_starts_no_loops() -> None:
    sparing = make(minutes=120)
    sparing.template()
    sparing.buffer(replicas=5, at=60)
    assert sparing.story.machines("pool") == 5
    assert sparing.buffers.writes <= 2


def test_pods_find_the_room_at_once_and_it_is_made_again() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=5)
    sparing.story.pods(3, at=10 * MINUTE)
    story = sparing.story
    started = [entry.at for entry in story.result.journal if entry.what == What.POD_STARTED]
    assert started == [10 * MINUTE] * 3
    assert story.writes("increase")[1:] == [(10 * MINUTE, "increase", "pool", 5, 8)]
    assert story.machines("pool") == 8


def test_pods_that_need_more_than_the_buffer_get_what_is_missing_and_the_buffer_too() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=2)
    sparing.story.pods(5, at=10 * MINUTE)
    # Two found room at once; three machines are for the others, two for the buffer.
    assert [write[3:] for write in sparing.story.writes("increase")[1:]] == [(2, 5), (5, 7)]
    assert sparing.story.machines("pool") == 7
    assert sparing.story.result.final.pending == 0


def test_the_nodes_of_a_buffer_that_is_deleted_go_as_unneeded() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=5)
    sparing.drop(at=10 * MINUTE)
    (first, *_) = sparing.story.writes("delete")
    assert 12 * MINUTE < first[0] <= 13 * MINUTE
    assert sparing.story.machines("pool") == 0


def test_a_buffer_that_gets_smaller_lets_nodes_go() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=5)
    sparing.buffer(replicas=2, at=10 * MINUTE)
    assert sparing.story.machines("pool") == 2
    assert sparing.replicas() == 2


def test_pods_that_end_give_their_room_back_to_the_buffer() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=5)
    sparing.story.deploy("web", (5 * MINUTE, 3), (15 * MINUTE, 0))
    assert sparing.story.machines("pool") == 5  # of eight


def test_a_percentage_follows_its_deployment_rounded_up() -> None:
    sparing = make(minutes=40)
    sparing.story.deploy("web", (0, 4), (10 * MINUTE, 9), (20 * MINUTE, 2))
    sparing.buffer(scalable_ref=WEB, percentage=30, at=MINUTE)
    seen: list[int] = []
    for minutes in (8, 18, 38):
        sparing.story.at(minutes * MINUTE, lambda: seen.append(len(sparing.story.cloud.living("pool"))))
    assert sparing.replicas() == 1
    assert seen == [4 + 2, 9 + 3, 2 + 1]


def test_limits_alone_are_used_up_and_limit_a_number() -> None:
    sparing = make()
    sparing.template()
    sparing.buffer("all", limits={"cpu": "3500m"})
    sparing.buffer("some", replicas=10, limits={"cpu": "2", "memory": "64Gi"})
    assert (sparing.replicas("all"), sparing.replicas("some")) == (3, 2)
    assert sparing.story.machines("pool") == 5


def test_what_the_group_may_not_grow_by_is_told_and_the_rest_is_there() -> None:
    sparing = make({**POOL, "max_size": 3})
    sparing.template()
    sparing.buffer(replicas=5)
    assert sparing.story.machines("pool") == 3
    assert sparing.message("Provisioning") == "2 of 5 pods have no room yet"
    told = [text for _, text in sparing.story.events("NotTriggerScaleUp")]
    assert told[0] == "capacity buffer 2 fake pods didn't trigger scale-up: 1 max node group size reached"


def test_real_pods_get_the_last_machine() -> None:
    sparing = make({**POOL, "max_size": 4})
    sparing.template()
    sparing.buffer(replicas=3, at=MINUTE)
    sparing.story.pods(3, at=MINUTE)
    assert sparing.story.result.final.pending == 0
    assert sparing.story.machines("pool") == 4
    assert sparing.message("Provisioning") == "2 of 3 pods have no room yet"


@pytest.mark.parametrize("keeps_memory", [True, False])
def test_a_restart_loses_nothing(keeps_memory: bool) -> None:
    sparing = make()
    sparing.template()
    sparing.buffer(replicas=5)
    sparing.story.simulation.engine.restart(8 * MINUTE, down_seconds=60, keeps_memory=keeps_memory)
    sparing.story.pods(2, at=20 * MINUTE)
    assert sparing.story.writes("delete") == []
    assert sparing.story.machines("pool") == 7


def test_a_status_that_cannot_be_written_stops_nothing_and_is_written_later() -> None:
    sparing = make()
    sparing.template()
    sparing.buffers.refuses = True
    sparing.buffer(replicas=5)

    def recover() -> None:
        sparing.buffers.refuses = False

    sparing.story.at(10 * MINUTE, recover)
    assert sparing.story.writes("increase")[0][3:] == (1, 5)
    assert sparing.story.events("StatusNotWritten")
    assert sparing.conditions()["Provisioning"] == INJECTED


def test_without_injection_the_status_is_told_and_nothing_is_bought() -> None:
    sparing = make(**{"capacity-buffer-pod-injection-enabled": False})
    sparing.template()
    sparing.buffer(replicas=5)
    assert sparing.story.writes("increase") == []
    assert sparing.conditions() == {"ReadyForProvisioning": READY, "LimitedByQuotas": "False/ResourceQuotasAllocated"}


def test_without_either_setting_a_buffer_is_left_alone() -> None:
    sparing = make(**dict.fromkeys(ON, False))
    sparing.template()
    sparing.buffer(replicas=5)
    assert sparing.story.writes("increase") == []
    assert sparing.conditions() == {}


def test_a_template_that_is_missing_is_told_and_looked_for_again() -> None:
    sparing = make()
    sparing.buffer(replicas=3, at=MINUTE)
    sparing.story.pods(2, at=2 * MINUTE)
    sparing.template(at=10 * MINUTE)
    story = sparing.story
    assert [write[0] for write in story.writes("increase")] == [2 * MINUTE, 10 * MINUTE]
    assert story.machines("pool") == 5
    assert sparing.conditions()["ReadyForProvisioning"] == READY


def test_a_template_that_changes_is_followed() -> None:
    sparing = make({**POOL, "cpu": 4})
    sparing.template()
    sparing.buffer(replicas=4)
    sparing.template(cpu="4", at=10 * MINUTE)
    assert sparing.story.writes("increase") == [(10 * MINUTE, "increase", "pool", 1, 4)]
    held = sparing.buffers.get("default/spare")
    assert held is not None
    assert held.status.pod_template_generation == 2


def test_requests_take_the_room_of_a_buffer_which_is_made_again() -> None:
    sparing = make(minutes=8, **requesting.ON)
    asking = requesting.Asking(sparing.story)
    sparing.template()
    sparing.buffer(replicas=3)
    asking.ask("train", 2, at=5 * MINUTE)
    assert asking.conditions("train")["Provisioned"] == "True/CapacityIsFound"
    assert sparing.story.writes("increase") == [(0, "increase", "pool", 1, 3), (5 * MINUTE, "increase", "pool", 3, 5)]


def test_as_ca_buffers_are_kept_too() -> None:
    sparing = make(profile="ca")
    sparing.template()
    sparing.buffer(replicas=5, at=60)
    sparing.story.pods(3, at=10 * MINUTE)
    assert sparing.story.machines("pool") == 8
