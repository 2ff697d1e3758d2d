"""Memory in ConfigMaps: what was saved is found again whole, or not used."""

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from core.tests.kube.conftest import ApiServer

from nodewright.actuation import Pause
from nodewright.adapters.kube.api import ApiError, Request
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.store import SHARD_BYTES, STATE_NAME, ConfigMapStore
from nodewright.clusterstate.memory import Backoff, Memory, ScaleUpRequest
from nodewright.model.errors import NodewrightError
from nodewright.model.group import GroupRef
from nodewright.testkit.world import NOW, World

MAPS = "/api/v1/namespaces/kube-system/configmaps"
HEAD = f"{MAPS}/{STATE_NAME}"


def open_store(server: ApiServer, pause: str | None = None) -> ConfigMapStore:
    return ConfigMapStore(ConfigMaps(server, "kube-system"), lambda: pause)


def make_memory(groups: int = 3, machines: int = 0, *, noise: bool = False) -> Memory:
    random = Random(7)
    refs = [GroupRef("fake", f"group-{number}") for number in range(groups)]
    backoffs = {ref: Backoff(until=100.0, duration=300.0, last_failure=1.0, code="STOCKOUT") for ref in refs}
    since = {}
    for number in range(machines):
        name = f"{random.randbytes(40).hex()}" if noise else f"fake:///group/machine-{number}"
        since[refs[number % groups], name] = float(number)
    return Memory(backoffs=backoffs, unregistered_since=since)


def test_what_was_saved_is_found_again(server: ApiServer) -> None:
    assert open_store(server).read().memory == Memory()
    memory = make_memory(machines=10)
    store = open_store(server)
    store.load()
    store.save_if_changed(memory)
    loaded = open_store(server).load()
    assert not loaded.warning
    assert loaded.memory.backoffs == memory.backoffs
    assert loaded.memory.unregistered_since == memory.unregistered_since


def test_nothing_is_written_while_nothing_changes(server: ApiServer) -> None:
    store = open_store(server)
    store.load()
    for _ in range(60):
        store.save_if_changed(make_memory())
    assert len(server.writes) == 2  # the first took the state over
    again = open_store(server)
    again.load()
    again.save_if_changed(make_memory())
    assert len(server.writes) == 3


def test_a_large_memory_is_cut_into_shards_and_swept(server: ApiServer) -> None:
    memory = make_memory(machines=16_000, noise=True)
    store = open_store(server)
    store.load()
    store.save_if_changed(memory)
    names = {path.rpartition("/")[2] for path in server.objects}
    assert len(names) > 1
    for held in server.objects.values():
        assert len(msgspec.json.encode(held)) < 1024 * 1024
        assert len(msgspec.json.decode(msgspec.json.encode(held["binaryData"]["state"]), type=bytes)) <= SHARD_BYTES
    assert open_store(server).read().memory.unregistered_since == memory.unregistered_since
    store.save_if_changed(make_memory())
    assert {path.rpartition("/")[2] for path in server.objects} == {STATE_NAME}


def test_a_crash_between_the_shards_leaves_the_old_memory(server: ApiServer) -> None:
    store = open_store(server)
    store.load()
    store.save_if_changed(make_memory())
    server.refusals[HEAD] = ApiError("no answer")
    with pytest.raises(ApiError):
        store.save_if_changed(make_memory(machines=16_000, noise=True))
    server.refusals.clear()
    assert open_store(server).read().memory.backoffs == make_memory().backoffs
    assert not open_store(server).read().memory.unregistered_since


def test_a_former_leader_does_not_write_over_the_new_one(server: ApiServer) -> None:
    old, new = open_store(server), open_store(server)
    old.load()
    old.save_if_changed(make_memory(1))
    new.load()
    new.save_if_changed(make_memory(2))
    with pytest.raises(NodewrightError, match="has been modified"):
        old.save_if_changed(make_memory(3))
    for _ in range(2):
        with pytest.raises(NodewrightError, match="another leader"):
            old.save_if_changed(make_memory(3))
    assert len(open_store(server).read().memory.backoffs) == 2


@pytest.mark.parametrize("saved", [0, 1])
def test_a_save_that_a_former_leader_has_on_its_way_fails_once_the_next_has_taken_over(saved: int) -> None:
    """The next leader would else never be able to save: what is there is neither what it found nor what it sent."""
    server = Late()
    old, new = open_store(server), open_store(server)
    old.load()
    for _ in range(saved):
        old.save_if_changed(make_memory(1))
    server.keeps = True
    with pytest.raises(ApiError, match="on its way"):
        old.save_if_changed(make_memory(2))
    assert len(new.load().memory.backoffs) == saved
    with pytest.raises(ApiError, match="has been modified"):
        server.deliver()
    new.save_if_changed(make_memory(3))
    assert len(new.read().memory.backoffs) == 3


@pytest.mark.parametrize("there", [0, 1])
def test_a_save_that_arrives_while_the_next_leader_takes_over_is_found(there: int) -> None:
    server = Late()
    old, new = open_store(server), open_store(server)
    if there:
        old.load()
    server.keeps = True
    with pytest.raises(ApiError, match="on its way"):
        old.save_if_changed(make_memory(2))
    server.delivers_before_writes = True
    assert len(new.load().memory.backoffs) == 2
    new.save_if_changed(make_memory(3))


def test_state_that_changes_at_each_try_is_not_taken_over() -> None:
    server = Busy()
    with pytest.raises(NodewrightError, match="keeps being written by other processes"):
        open_store(server).load()
    assert server.tries == 5


def test_the_state_of_before_there_were_terms_is_taken_over(server: ApiServer) -> None:
    store = open_store(server)
    store.load()
    store.save_if_changed(make_memory(2))
    del server.objects[HEAD]["data"]["term"]
    new = open_store(server)
    assert len(new.load().memory.backoffs) == 2
    new.save_if_changed(make_memory(3))
    assert server.objects[HEAD]["data"]["term"] == "1"


def test_a_former_leader_does_not_take_the_head_of_the_new_one_for_its_own(server: ApiServer) -> None:
    """The new one has changed nothing but the term yet."""
    old, new = open_store(server), open_store(server)
    old.load()
    old.save_if_changed(make_memory(1))
    new.load()
    with pytest.raises(NodewrightError, match="has been modified"):
        old.save_if_changed(make_memory(3))
    with pytest.raises(NodewrightError, match="another leader"):
        old.save_if_changed(make_memory(3))


class Late(ApiServer):
    """``keeps`` the next write back, until it is told to deliver it; with ``delivers_before_writes`` before the next one."""

    keeps = delivers_before_writes = False
    kept: Request | None = None

    def send(self, request: Request) -> bytes:
        if request.method != "GET" and self.keeps:
            self.keeps, self.kept = False, request
            raise ApiError(f"{request}: on its way")
        if request.method != "GET" and self.delivers_before_writes:
            self.delivers_before_writes = False
            self.deliver()
        return super().send(request)

    def deliver(self) -> None:
        assert self.kept is not None
        super().send(self.kept)


class Busy(ApiServer):
    """Another writer is always faster."""

    tries = 0

    def send(self, request: Request) -> bytes:
        if request.method == "GET":
            return super().send(request)
        self.tries += 1
        raise ApiError(f"{request}: has been modified", status=409)


class Lossy(ApiServer):
    """``loses`` the answer to the next write, which was carried out."""

    loses = False

    def send(self, request: Request) -> bytes:
        answer = super().send(request)
        if self.loses and request.method != "GET":
            self.loses = False
            raise ApiError(f"{request}: no answer")
        return answer


@pytest.mark.parametrize("known", [0, 1])
def test_a_write_of_which_the_answer_was_lost_is_found_again(known: int) -> None:
    server = Lossy()
    store = open_store(server)
    store.load()
    for groups in range(known):
        store.save_if_changed(make_memory(groups + 1))
    server.loses = True
    with pytest.raises(ApiError):
        store.save_if_changed(make_memory(5))
    before = len(server.writes)
    store.save_if_changed(make_memory(5))
    assert len(server.writes) == before
    store.save_if_changed(make_memory(6))
    assert len(open_store(server).read().memory.backoffs) == 6


@pytest.mark.parametrize("what", ["annotated", "deleted"])
def test_somebody_touches_what_is_saved(server: ApiServer, what: str) -> None:
    store = open_store(server)
    store.load()
    store.save_if_changed(make_memory(1))
    if what == "deleted":
        server.drop(HEAD)
    else:
        server.put(HEAD, server.objects[HEAD])
    with pytest.raises(ApiError):
        store.save_if_changed(make_memory(2))
    store.save_if_changed(make_memory(2))
    assert len(open_store(server).read().memory.backoffs) == 2


def test_labels_and_annotations_of_others_stay(server: ApiServer) -> None:
    """Backups and audits go by them."""
    store = open_store(server)
    store.load()
    store.save_if_changed(make_memory(1))
    server.put(HEAD, {**server.objects[HEAD], "metadata": {"labels": {"backup": "no"}, "annotations": {"by": "me"}}})
    with pytest.raises(ApiError):
        store.save_if_changed(make_memory(2))
    for groups in (2, 3):
        store.save_if_changed(make_memory(groups))
    held = server.objects[HEAD]["metadata"]
    assert (held["labels"], held["annotations"]) == ({"backup": "no"}, {"by": "me"})


def damage_shard(head: dict[str, Any]) -> None:
    head["binaryData"]["state"] = "AAAA"


def damage_digest(head: dict[str, Any]) -> None:
    head["data"]["digest"] = "0" * 64


def damage_count(head: dict[str, Any]) -> None:
    head["data"]["shards"] = "100000000"


def lose_shard(head: dict[str, Any]) -> None:
    head["data"]["shards"] = "2"


def drop_everything(head: dict[str, Any]) -> None:
    head["data"] = head["binaryData"] = None


@pytest.mark.parametrize("damage", [damage_shard, damage_digest, damage_count, lose_shard, drop_everything])
def test_what_cannot_be_used_is_told_and_replaced(server: ApiServer, damage: Any) -> None:
    store = open_store(server)
    store.load()
    store.save_if_changed(make_memory())
    damage(server.objects[HEAD])
    again = open_store(server)
    loaded = again.load()
    assert loaded.memory == Memory()
    assert STATE_NAME in loaded.warning
    again.save_if_changed(make_memory(2))
    assert len(open_store(server).read().memory.backoffs) == 2


@pytest.mark.parametrize("damage", [damage_shard, damage_digest, damage_count, lose_shard, drop_everything])
def test_what_somebody_breaks_under_us_is_written_again(server: ApiServer, damage: Any) -> None:
    """No leader wrote it: another leader would have written what can be read."""
    store = open_store(server)
    store.load()
    store.save_if_changed(make_memory(1))
    broken = msgspec.json.decode(msgspec.json.encode(server.objects[HEAD]))
    damage(broken)
    server.put(HEAD, broken)
    with pytest.raises(ApiError):
        store.save_if_changed(make_memory(2))
    store.save_if_changed(make_memory(2))
    assert len(open_store(server).read().memory.backoffs) == 2


def test_memory_that_cannot_be_reached_is_no_empty_memory(server: ApiServer) -> None:
    server.faults = [ApiError("no answer")]
    with pytest.raises(NodewrightError):
        open_store(server).load()


def test_a_pause_is_ordered_and_ended(server: ApiServer) -> None:
    pause = Pause(since=1.0, until=2.0)
    store = open_store(server)
    store.save_pause(pause)
    text = server.objects[f"{MAPS}/nodewright-pause"]["data"]["pause"]
    assert open_store(server, text).load_pause() == pause
    store.save_pause(Pause(since=1.0, until=3.0))
    store.save_pause(None)
    store.save_pause(None)
    assert f"{MAPS}/nodewright-pause" not in server.objects
    with pytest.raises(NodewrightError, match="cannot be understood"):
        open_store(server, "until tomorrow").load_pause()


def test_a_very_large_cluster_fits_into_half_a_mebibyte(server: ApiServer) -> None:
    """15,000 nodes in 500 groups, all of them unneeded, and every group with something to remember."""
    world = World()
    for number in range(500):
        world.add_group(f"group-{number}", 30)
    state = world.state()
    random = Random(1)
    unneeded = {f"ip-10-{random.randrange(256)}-{n}.ec2.internal": NOW + n * 0.37 for n in range(15_000)}
    backoffs = {ref: Backoff(until=NOW, duration=300.0, last_failure=NOW, message="m" * 80) for ref in world.groups}
    requests = {ref: (ScaleUpRequest(increase=3, started=NOW, deadline=NOW + 900),) for ref in world.groups}
    scale_down = replace(state.memory.scale_down, unneeded_since=unneeded)
    memory = replace(state.memory, backoffs=backoffs, requests=requests, scale_down=scale_down)
    store = open_store(server)
    store.load()
    store.save_if_changed(memory)
    assert sum(len(msgspec.json.encode(held)) for held in server.objects.values()) < 512 * 1024
    assert open_store(server).read().memory.scale_down.unneeded_since.keys() == unneeded.keys()
