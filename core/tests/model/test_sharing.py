"""Equal parts of pods are one object, as long as that saves memory."""

from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.pod import Pod, PodCondition, PodStatus
from nodewright.model.sharing import Sharing
from nodewright.testkit import build_pod


def make_pod(second: int) -> Pod:
    """One of many alike, which changed in that second."""
    changed = datetime.fromtimestamp(second, tz=UTC)
    conditions = (PodCondition(type="PodScheduled", status="True", last_transition_time=changed),)
    return replace(build_pod("p", cpu="1"), status=PodStatus(phase="Running", conditions=conditions))


def test_equal_parts_are_one_object() -> None:
    sharing = Sharing()
    first, second = sharing.pod(make_pod(1)), sharing.pod(make_pod(1))
    assert first.status is second.status
    assert first.spec is second.spec
    assert first == make_pod(1)


def test_names_of_nodes_are_one_object_and_pods_keep_their_own() -> None:
    sharing = Sharing()
    pods = [sharing.pod(build_pod(f"p{n}", cpu="1", node_name="".join(["node-", str(n % 2)]))) for n in range(4)]
    assert [pod.spec.node_name for pod in pods] == ["node-0", "node-1", "node-0", "node-1"]
    assert pods[0].spec.node_name is pods[2].spec.node_name
    assert pods[0].spec.containers is pods[1].spec.containers


def test_statuses_of_long_ago_are_forgotten_and_specs_are_not() -> None:
    """A cluster whose pods come and go for weeks does not fill the memory."""
    sharing = Sharing()
    first = sharing.pod(make_pod(0))
    for second in range(5000):
        sharing.pod(make_pod(second))
    last = sharing.pod(make_pod(0))
    assert last.status is not first.status
    assert last.spec is first.spec
