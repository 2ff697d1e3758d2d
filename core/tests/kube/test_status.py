"""The status ConfigMap in CA's words, and how often it is written."""

from dataclasses import replace
from typing import Any

import yaml
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.kube.api import ApiError
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.status_config_map import UPDATED_ANNOTATION, StatusMap
from nodewright.clusterstate.memory import Backoff, Memory, ScaleUpRequest
from nodewright.clusterstate.state import ClusterState
from nodewright.model.capability import Capability
from nodewright.model.duration import format_moment
from nodewright.model.plan import Plan
from nodewright.planner.make_plan import NO_READY_NODES
from nodewright.testkit.world import NOW, World, ref

TIMEOUTS = {
    "fast": False,
    "timeoutSeconds": 900.0,
    "learned": False,
    "whyNotFast": "the provider does not report failures",
}
PATH = "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"


def make_status(server: ApiServer) -> StatusMap:
    return StatusMap(ConfigMaps(server, "kube-system"), "cluster-autoscaler-status")


def shown(server: ApiServer) -> Any:
    return yaml.safe_load(server.objects[PATH]["data"]["status"])


def make_state(memory: Memory | None = None) -> ClusterState:
    world = World()
    world.add_group("a", 2)
    world.add_group("b", 0)
    world.memory = memory or Memory()
    return world.state()


def later(state: ClusterState, seconds: float) -> ClusterState:
    return replace(state, observation=replace(state.observation, now=state.now + seconds))


def test_the_words_are_those_of_ca(server: ApiServer) -> None:
    status = make_status(server)
    status.start(NOW)
    assert shown(server)["autoscalerStatus"] == "Initializing"
    status.update(make_state(), Plan())
    document = shown(server)
    assert document.keys() == {"time", "autoscalerStatus", "clusterWide", "nodeGroups"}
    assert document["clusterWide"].keys() == {"health", "scaleUp", "scaleDown"}
    assert document["clusterWide"]["health"]["nodeCounts"]["registered"]["ready"] == 2
    group = document["nodeGroups"][0]
    assert group["name"] == "a"
    assert group["health"]["status"] == "Healthy"
    assert group["health"]["cloudProviderTarget"] == 2
    assert group["scaleUp"] == {
        "status": "NoActivity",
        "backoffInfo": {},
        "failureDetection": TIMEOUTS,
        "lastProbeTime": group["scaleUp"]["lastProbeTime"],
        "lastTransitionTime": group["scaleUp"]["lastTransitionTime"],
    }
    assert group["scaleDown"]["status"] == "NoCandidates"
    assert server.objects[PATH]["metadata"]["annotations"][UPDATED_ANNOTATION] == document["time"]


def test_a_cluster_without_nodes_that_is_left_alone_says_so(server: ApiServer) -> None:
    """CA's gate of --scale-up-from-zero=false."""
    status = make_status(server)
    status.update(make_state(), Plan(halted=NO_READY_NODES))
    document = shown(server)
    assert document.keys() == {"time", "autoscalerStatus", "message"}
    assert (document["autoscalerStatus"], document["message"]) == ("Initializing", NO_READY_NODES)


def test_how_failures_are_found_and_when_waiting_machines_are_given_up(server: ApiServer) -> None:
    owed = ScaleUpRequest(increase=2, started=NOW - 100, deadline=NOW + 800)
    status = make_status(server)
    tells = frozenset({Capability.FAST_FAILURE_DETECTION})
    world = World(memory=Memory(requests={ref("a"): (owed,)}))
    world.add_group("a", 2, target=4, capabilities=tells)
    world.add_group("b", 0)
    status.update(world.state(), Plan())
    waiting, silent = (group["scaleUp"] for group in shown(server)["nodeGroups"])
    assert waiting["failureDetection"] == {"fast": True, "timeoutSeconds": 900.0, "learned": False}
    assert (waiting["status"], waiting["givenUpAt"]) == ("InProgress", format_moment(NOW + 800))
    assert (silent["failureDetection"], "givenUpAt" in silent) == (TIMEOUTS, False)


def test_a_backoff_says_why_in_no_more_than_500_characters(server: ApiServer) -> None:
    status = make_status(server)
    backoff = Backoff(until=NOW + 300, duration=300, last_failure=NOW, code="STOCKOUT", message="x" * 900)
    status.update(make_state(Memory(backoffs={ref("b"): backoff})), Plan())
    up = shown(server)["nodeGroups"][1]["scaleUp"]
    assert up["status"] == "Backoff"
    assert up["backoffInfo"]["errorCode"] == "STOCKOUT"
    assert len(up["backoffInfo"]["errorMessage"]) == 500
    assert up["backoffInfo"]["errorMessage"].endswith("<truncated>")


def test_it_is_written_when_it_is_news_and_every_minute(server: ApiServer) -> None:
    status = make_status(server)
    state = make_state()
    for second in range(0, 600, 10):
        status.update(later(state, second), Plan())
    assert status.writes == 10
    transition = shown(server)["clusterWide"]["health"]["lastTransitionTime"]
    backoff = Backoff(until=NOW + 9000, duration=300, last_failure=NOW, code="c", message="m")
    status.update(later(make_state(Memory(backoffs={ref("b"): backoff})), 595), Plan())
    assert status.writes == 11
    assert shown(server)["clusterWide"]["health"]["lastTransitionTime"] == transition


def test_somebody_elses_write_is_overcome_in_the_next_loop(server: ApiServer) -> None:
    status = make_status(server)
    status.start(NOW)
    marks = {"labels": {"my": "own"}, "annotations": {"mine": "1"}}
    server.put(PATH, {"metadata": {"name": "cluster-autoscaler-status", **marks}, "data": {}})
    status.update(make_state(), Plan())
    assert "modified" in status.problem
    status.update(make_state(), Plan())
    assert not status.problem
    held = server.objects[PATH]["metadata"]
    assert (held["labels"], held["annotations"]["mine"]) == ({"my": "own"}, "1")


def test_an_api_server_that_fails_does_not_fail_the_loop(server: ApiServer) -> None:
    status = make_status(server)
    server.faults = [ApiError("no answer")]
    status.update(make_state(), Plan())
    assert status.problem == "no answer"
    status.remove()
    assert PATH not in server.objects
