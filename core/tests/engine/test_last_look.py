"""Right before an undrained deletion the nodes are looked at once more, and what they say decides."""

import pytest

from nodewright.engine.last_look import LastLook
from nodewright.model.action import DeleteInstances, DeletionCause
from nodewright.model.errors import KubeApiError
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.observe.ports import ClusterPicture
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import FakeClock, build_node

DELETION = DeleteInstances(
    group=GroupRef("cloud", "g"),
    expected_target=1,
    instance_ids=("cloud:///g/0",),
    cause=DeletionCause.UNREGISTERED,
    reason="",
)


class Cluster:
    """Implements ClusterReader; counts how often it is read."""

    def __init__(self, *nodes: Node, problem: str = "", error: KubeApiError | None = None) -> None:
        self.nodes, self.problem, self.error, self.reads = nodes, problem, error, 0

    def read(self, now: float) -> ClusterPicture:
        assert now
        self.reads += 1
        if self.error is not None:
            raise self.error
        snapshot = Snapshot()
        snapshot.add_nodes(list(self.nodes))
        return ClusterPicture(snapshot=snapshot, problem=self.problem)


def test_what_no_node_contradicts_goes_on() -> None:
    last = LastLook(Cluster(build_node("other", provider_id="cloud:///g/1")), FakeClock(1000))
    assert last.allows(DELETION)
    assert last.withheld == []


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Cluster(build_node("n", provider_id="cloud:///g/0")), "machine cloud:///g/0 is node n, so it did register"),
        (Cluster(problem="the API server is silent"), "the API server is silent"),
        (
            Cluster(error=KubeApiError("no answer", retryable=True)),
            "the nodes could not be looked at once more: no answer",
        ),
    ],
)
def test_what_is_contradicted_or_in_doubt_waits(cluster: Cluster, why: str) -> None:
    last = LastLook(cluster, FakeClock(1000))
    assert not last.allows(DELETION)
    assert [(held.action, held.reason, held.until) for held in last.withheld] == [(DELETION, why, 1000)]


def test_one_look_serves_deletions_at_the_same_time_and_no_later_ones() -> None:
    cluster, clock = Cluster(), FakeClock(1000)
    last = LastLook(cluster, clock)
    assert last.allows(DELETION)
    assert last.allows(DELETION)
    assert cluster.reads == 1
    clock.sleep(5.0)  # a call in between was slow
    cluster.nodes = (build_node("n", provider_id="cloud:///g/0"),)
    assert not last.allows(DELETION)
    assert cluster.reads == 2
