"""Right before an undrained deletion the API server lists the nodes again, and what they say decides."""

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from nodewright.actuation import GangView, NodeView
from nodewright.actuation.write_gate import DeletionRecheck
from nodewright.model.action import DeleteInstances, DeletionCause
from nodewright.model.errors import KubeApiError
from nodewright.model.group import GroupRef
from nodewright.model.node import Node, NodeCondition
from nodewright.model.pod import Pod
from nodewright.planner.scale_down.missing_pods import MissingPods
from nodewright.testkit import FakeClock, build_node, build_pod

MACHINE = "cloud:///g/0"
BUSY = KubeApiError("no answer", retryable=True)


def deletion(cause: DeletionCause = DeletionCause.UNREGISTERED, *machines: str) -> DeleteInstances:
    return DeleteInstances(
        group=GroupRef("cloud", "g"), expected_target=1, instance_ids=machines or (MACHINE,), cause=cause, reason=""
    )


def joined(machine: str = MACHINE) -> Node:
    return build_node("n", provider_id=machine)


def never_up() -> Node:
    node = joined()
    silent = NodeCondition(type="Ready", status="Unknown", reason="NodeStatusNeverUpdated")
    return replace(node, status=replace(node.status, conditions=(silent,)))


def recheck(cluster: "Cluster", clock: FakeClock, actions: list[DeleteInstances]) -> DeletionRecheck:
    return DeletionRecheck(cluster, clock, actions, MissingPods)


class Cluster:
    """Implements NodeReader; ``lists`` and ``looks`` count how often it is asked."""

    def __init__(
        self, *nodes: Node, pods: tuple[Pod, ...] = (), error: KubeApiError | None = None, hides: bool = False
    ) -> None:
        self.nodes, self.pods, self.error, self.hides = nodes, pods, error, hides
        self.unlisted: tuple[Pod, ...] = ()
        self.lists = self.looks = 0

    def list_nodes(self) -> Iterator[Node]:
        self.lists += 1
        yield from self.nodes
        if self.error is not None:
            raise self.error

    def get_node_view(self, node: str) -> NodeView:
        self.looks += 1
        if self.hides:
            raise BUSY
        return NodeView(node=next(held for held in self.nodes if held.name == node), pods=self.pods)

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        assert node
        return self.unlisted

    def get_gang_view(self, namespace: str) -> GangView:
        raise AssertionError(f"the check of {namespace} asks for no gangs")


def test_what_no_node_contradicts_goes_on() -> None:
    cluster = Cluster(build_node("other", provider_id="cloud:///g/1"))
    last = recheck(cluster, FakeClock(1000), [deletion()])
    assert last.permit(deletion()) == deletion()
    assert last.withheld == []
    assert cluster.looks == 0


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Cluster(joined()), f"machine {MACHINE} is node n, so it did register"),
        (Cluster(joined(MACHINE.upper())), f"machine {MACHINE} is node n, so it did register"),
        (Cluster(error=BUSY), "the nodes could not be listed right before the call: no answer"),
        (Cluster(build_node("m"), error=BUSY), "the nodes could not be listed right before the call: no answer"),
    ],
)
def test_what_is_contradicted_or_in_doubt_waits_and_is_told(cluster: Cluster, why: str) -> None:
    last = recheck(cluster, FakeClock(1000), [deletion()])
    assert last.permit(deletion()) is None
    (held,) = last.withheld
    assert (held.action, held.reason, held.until, held.event) == (deletion(), why, 1000, "DeletionWithheld")


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (Cluster(joined()), ""),
        (Cluster(joined(), pods=(build_pod("p"),)), f"machine {MACHINE} is node n, and pod default/p runs on it"),
        (Cluster(joined(), hides=True), "the pods on its nodes could not be read right before the call: no answer"),
    ],
)
def test_pods_that_run_on_a_reserved_machine_are_read_anew(cluster: Cluster, why: str) -> None:
    last = recheck(cluster, FakeClock(1000), [deletion(DeletionCause.RESERVATION)])
    asked = deletion(DeletionCause.RESERVATION)
    assert last.permit(asked) == (None if why else asked)
    assert [held.reason for held in last.withheld] == ([why] if why else [])


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("cause", [DeletionCause.RESERVATION, DeletionCause.NEVER_READY])
def test_an_empty_node_of_a_reservation_stays_while_controllers_contradict_the_list(
    cause: DeletionCause, missing: int
) -> None:
    """One pod in ten may be missing because a status is late. A node that never was Ready runs none of them."""
    found = MissingPods(ready=10, by_controller={"ReplicaSet default/web": missing})
    asked = deletion(cause, MACHINE, "cloud:///g/no-node")
    last = DeletionRecheck(Cluster(never_up()), FakeClock(1000), [asked], lambda: found)
    waits = missing == 2 and cause == DeletionCause.RESERVATION
    assert last.permit(asked) == (deletion(cause, "cloud:///g/no-node") if waits else asked)
    assert [held.reason for held in last.withheld] == ([str(found)] if waits else [])


def test_a_reserved_machine_stays_while_the_cache_cannot_be_read() -> None:
    def fail() -> MissingPods:
        raise BUSY

    asked = deletion(DeletionCause.RESERVATION)
    last = DeletionRecheck(Cluster(joined()), FakeClock(1000), [asked], fail)
    assert last.permit(asked) is None


@pytest.mark.parametrize("error", [None, BUSY])
def test_one_list_serves_deletions_at_the_same_time_and_no_later_ones(error: KubeApiError | None) -> None:
    """One that failed, too: each attempt may last until its deadline."""
    cluster, clock = Cluster(error=error), FakeClock(1000)
    one, other = deletion(), deletion(DeletionCause.FAILED_CREATION, "cloud:///g/1")
    last = recheck(cluster, clock, [one, other])
    assert cluster.lists == 0
    assert [last.permit(one), last.permit(other)] == ([one, other] if error is None else [None, None])
    assert cluster.lists == 1
    clock.sleep(11.0)  # a call in between was slow
    cluster.nodes, cluster.error = (joined("cloud:///g/1"),), None
    assert [last.permit(one), last.permit(other)] == [one, None]
    assert cluster.lists == 2


def test_of_several_machines_only_the_one_that_joined_is_withheld() -> None:
    asked = replace(
        deletion(DeletionCause.FAILED_CREATION, "cloud:///g/0", "cloud:///g/1", "cloud:///g/2"),
        failure_ids=("f0", "f1", "f2"),
        force=True,
    )
    last = recheck(Cluster(joined("cloud:///g/1")), FakeClock(1000), [asked])
    assert last.permit(asked) == replace(asked, instance_ids=("cloud:///g/0", "cloud:///g/2"), failure_ids=("f0", "f2"))
    (held,) = last.withheld
    assert held.action == replace(asked, instance_ids=("cloud:///g/1",), failure_ids=("f1",))
    assert held.reason == "machine cloud:///g/1 is node n, so it did register"


def test_an_api_server_that_fails_is_not_asked_about_the_machines_that_follow() -> None:
    machines = [f"cloud:///g/{number}" for number in range(4)]
    cluster = Cluster(*(joined(machine) for machine in machines[1:]), hides=True)
    asked = deletion(DeletionCause.RESERVATION, *machines)
    last = recheck(cluster, FakeClock(1000), [asked])
    assert last.permit(asked) == replace(asked, instance_ids=(machines[0],))
    (held,) = last.withheld
    assert held.action == replace(asked, instance_ids=tuple(machines[1:]))
    assert held.reason == "the pods on its nodes could not be read right before the call: no answer"
    assert cluster.looks == 1
