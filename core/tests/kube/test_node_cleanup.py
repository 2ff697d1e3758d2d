"""A Node object is deleted only if all sources agree that its machine is gone."""

from dataclasses import replace
from typing import Any

import pytest
from core.tests.kube.conftest import ApiServer
from msgspec.structs import replace as changed

from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.node_cleanup import NodeCleaner
from nodewright.model.group import Instance
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalReason, RemovalResult
from nodewright.testkit import build_node
from nodewright.testkit.world import NOW, World, ref

PATH = "/api/v1/nodes/a-0"
ID = "cloud:///a/0"


class Site:
    """A node whose machine was removed, and what a cleaner does about it."""

    def __init__(self, server: ApiServer, result: RemovalResult = RemovalResult.OK) -> None:
        self.server = server
        self.cleaner = NodeCleaner(server, 120.0)
        self.world = World()
        self.world.add_group("a", 2)
        self.told: list[str] = []
        self._ended: tuple[RemovalEnded, ...] = (
            RemovalEnded(
                removal=NodeRemoval(node="a-0", group=ref("a"), instance_id=ID, reason=RemovalReason.EMPTY),
                at=NOW,
                result=result,
            ),
        )
        server.put(PATH, {"metadata": {"name": "a-0"}})
        self.is_gone(ready="Unknown")

    def is_gone(self, *, ready: str, **extras: Any) -> None:
        seen = self.world.groups[ref("a")]
        self.world.groups = {ref("a"): replace(seen, instances=(Instance(id="cloud:///a/1"),), **extras)}
        self.world.nodes = [
            made(ready, node.spec.provider_id) if node.name == "a-0" else node for node in self.world.nodes
        ]

    def loop(self, seconds: float = 60.0) -> None:
        self.world.now += seconds
        state = replace(self.world.state(), ended=self._ended)
        self._ended = ()
        self.cleaner.clean(state, self.told.append)

    @property
    def deletions(self) -> list[Any]:
        return [request for request in self.server.writes if request.method == "DELETE"]


def made(ready: str, provider_id: str) -> Any:
    node = build_node("a-0", provider_id=provider_id, cpu="4")
    conditions = tuple(changed(one, status=ready) for one in node.status.conditions if one.type == "Ready")
    return changed(node, status=changed(node.status, conditions=conditions))


def test_a_node_whose_machine_is_gone(server: ApiServer) -> None:
    site = Site(server)
    site.loop()
    site.loop()
    assert not site.deletions
    site.loop()
    [deletion] = site.deletions
    assert deletion.path == PATH
    assert b'"uid":"uid-a-0"' in deletion.body
    assert site.told == ["the node object a-0 was deleted: its machine is gone"]
    site.loop()
    assert len(site.deletions) == 1


def test_one_that_says_it_is_ready_stays(server: ApiServer) -> None:
    site = Site(server)
    site.is_gone(ready="True")
    for _ in range(10):
        site.loop()
    assert not site.deletions


@pytest.mark.parametrize("extras", [{"problem": "no answer"}, {"instances": None}, {"instances": (Instance(id=ID),)}])
def test_a_machine_that_may_be_there_keeps_its_node(server: ApiServer, extras: dict[str, Any]) -> None:
    site = Site(server)
    seen = site.world.groups[ref("a")]
    site.world.groups = {ref("a"): replace(seen, **extras)}
    for _ in range(10):
        site.loop()
    assert not site.deletions


def test_another_machine_with_its_name_is_left_alone(server: ApiServer) -> None:
    site = Site(server)
    site.world.nodes = [made("Unknown", "cloud:///a/9")]
    for _ in range(10):
        site.loop()
    assert not site.deletions


def test_what_we_did_not_remove_is_not_ours_to_delete(server: ApiServer) -> None:
    site = Site(server, RemovalResult.FAILED_TO_DELETE)
    for _ in range(10):
        site.loop()
    assert not site.deletions


def test_a_refusal_is_told_and_tried_again_later(server: ApiServer) -> None:
    site = Site(server)
    server.refusals[PATH] = ApiError("forbidden", status=403)
    for _ in range(4):
        site.loop()
    assert site.told == ["the node object a-0 could not be deleted: forbidden"]
    del server.refusals[PATH]
    site.loop()
    assert len(site.deletions) == 1


def test_the_clock_begins_anew_when_the_machine_is_seen(server: ApiServer) -> None:
    site = Site(server)
    site.loop()
    site.loop()
    site.is_gone(ready="True")
    site.loop()
    site.is_gone(ready="Unknown")
    site.loop()
    site.loop()
    assert not site.deletions
