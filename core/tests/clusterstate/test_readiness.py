"""Which nodes never became ready, and when a cluster is unhealthy (docs/adr/0019-cluster-health.md)."""

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import Backoff, Memory, UnhealthyCluster
from nodewright.clusterstate.readiness import describe_unhealthy, find_unhealthy
from nodewright.clusterstate.state import GroupState, Readiness
from nodewright.model.node import Node, NodeCondition
from nodewright.testkit import build_node
from nodewright.testkit.world import NOW, World, ref, settings_with

CREATED = NOW - 1000


G = ref("g")


KEY = (G, "n")


def node(status: str, at: float, *, created: float = CREATED, reason: str = "") -> Node:
    """Return a node whose condition Ready changed at that time."""
    built = build_node("n", provider_id="cloud:///g/0", created_at=created)
    since = datetime.fromtimestamp(at, UTC)
    said = NodeCondition(type="Ready", status=status, reason=reason, last_transition_time=since)
    return changed(built, status=changed(built.status, conditions=(said,)))


def readiness(seen: Node, *, known: float | None = None, looked_at: float = NOW - 600) -> Readiness:
    world = World(nodes=[seen])
    world.add_group("g", 1)
    world.nodes = [seen]
    never_up = {} if known is None else {KEY: known}
    world.memory = Memory(never_up=never_up, looked_at=looked_at)
    return world.state().groups[G].readiness


@pytest.mark.parametrize(
    ("seen", "known", "looked_at", "never"),
    [
        # The node itself proves it.
        (node("False", CREATED + 5), None, 0.0, True),
        (node("Unknown", CREATED + 90, reason="NodeStatusNeverUpdated"), None, 0.0, True),
        # Nothing does.
        (node("False", CREATED + 300), None, 0.0, False),
        (node("Unknown", CREATED + 300), None, 0.0, False),
        # It was created while the API server's clock was ahead: it may have been Ready since.
        (node("False", CREATED - 31), None, 0.0, False),
        (node("False", CREATED - 5), None, 0.0, True),
        # It was known, and nothing has changed since, for however long.
        (node("Unknown", CREATED + 300), CREATED + 300, 0.0, True),
        # It was known, and has changed since: that tells only between loops that follow closely.
        (node("Unknown", CREATED + 300), CREATED + 5, NOW - 10, True),
        (node("Unknown", CREATED + 300), CREATED + 5, NOW - 600, False),
        # It was Ready, though not up.
        (node("False", CREATED + 5), 0.0, NOW - 10, False),
    ],
)
def test_what_tells_that_a_node_never_became_ready(
    seen: Node, known: float | None, looked_at: float, never: bool
) -> None:
    found = readiness(seen, known=known, looked_at=looked_at)
    assert found.unready == ("n",)
    assert found.never_ready == (("n",) if never else ())


def test_a_failed_start_is_news_for_one_backoff() -> None:
    late = node("False", NOW - 1000, created=NOW - 1000)
    assert readiness(late).just_overdue == ("n",)
    old = node("False", NOW - 5000, created=NOW - 5000)
    assert (readiness(old).just_overdue, readiness(old).never_ready) == ((), ("n",))


def group(unready: int, nodes: int, never: int = 0, *, backed_off: bool = False) -> GroupState:
    names = tuple(f"u{number}" for number in range(unready + never))
    world = World()
    world.add_group("g", 0)
    backoff = Backoff(until=NOW + 60, duration=300, last_failure=NOW) if backed_off else None
    counted = Readiness(
        ready=tuple(f"r{number}" for number in range(nodes - unready)), unready=names, never_ready=names[:never]
    )
    return GroupState(seen=world.groups[G], readiness=counted, backoff=backoff)


def unhealthy_of(
    groups: Mapping[str, GroupState], held: UnhealthyCluster | None = None, **settings: object
) -> UnhealthyCluster | None:
    given = settings_with(**settings)
    states = {ref(name): one for name, one in groups.items()}
    return find_unhealthy(states, (), held, given.loop, given.policy, NOW)


def test_a_cluster_is_unhealthy_above_both_limits() -> None:
    assert unhealthy_of({"a": group(3, 4)}) is None
    assert unhealthy_of({"a": group(4, 10)}) is None
    assert unhealthy_of({"a": group(4, 8)}) == UnhealthyCluster(
        since=NOW, unready=4, nodes=8, tolerated=3, at_fault=(ref("a"),)
    )


def test_small_groups_are_at_fault_by_their_share() -> None:
    found = unhealthy_of({"a": group(3, 3), "b": group(3, 3), "c": group(0, 4)})
    assert found is not None
    assert (found.at_fault, found.resumes_at) == ((ref("a"), ref("b")), NOW + 1200)


def test_a_group_that_is_backed_off_is_at_fault_for_its_unready_nodes() -> None:
    groups = {"a": group(8, 9), "b": group(4, 10, backed_off=True), "c": group(0, 2, backed_off=True)}
    found = unhealthy_of(groups)
    assert found is not None
    assert (found.at_fault, found.resumes_at) == ((ref("a"), ref("b")), NOW + 1200)


@pytest.mark.parametrize(("unready", "resumes"), [(0, True), (3, True), (4, False), (8, False)])
def test_many_unready_nodes_elsewhere_are_explained_by_no_group(unready: int, resumes: bool) -> None:
    found = unhealthy_of({"a": group(20, 20), "b": group(unready, 20)})
    assert found is not None
    assert (found.at_fault, found.resumes_at > 0) == ((ref("a"),), resumes)


def test_one_in_ten_elsewhere_is_few() -> None:
    found = unhealthy_of({"a": group(100, 100), "b": group(10, 100)})
    assert found is not None
    assert found.resumes_at > 0


def test_since_when_is_remembered() -> None:
    held = UnhealthyCluster(since=NOW - 500, unready=1, nodes=2, tolerated=0)
    found = unhealthy_of({"a": group(9, 9), "b": group(0, 2)}, held)
    assert found is not None
    assert (found.since, found.resumes_at) == (NOW - 500, NOW + 700)
    ahead = unhealthy_of({"a": group(9, 9), "b": group(0, 2)}, replace_since(held, NOW + 500))
    assert ahead is not None
    assert ahead.since == NOW, "a clock that was set back makes nothing wait longer"


def replace_since(held: UnhealthyCluster, since: float) -> UnhealthyCluster:
    return changed(held, since=since)


groups_at_random = st.lists(
    st.integers(0, 12).flatmap(lambda nodes: st.tuples(st.integers(0, nodes), st.just(nodes), st.integers(0, 12))),
    min_size=1,
    max_size=4,
)


@given(groups_at_random)
def test_nodes_that_never_became_ready_change_nothing(counts: list[tuple[int, int, int]]) -> None:
    with_them = unhealthy_of({str(number): group(*one) for number, one in enumerate(counts)})
    without = unhealthy_of({str(number): group(*one[:2]) for number, one in enumerate(counts)})
    assert with_them == without


@given(groups_at_random)
def test_what_goes_on_is_healthy_and_not_at_fault(counts: list[tuple[int, int, int]]) -> None:
    groups = {ref(str(number)): group(*one) for number, one in enumerate(counts)}
    settings = settings_with()
    found = find_unhealthy(groups, (), None, settings.loop, settings.policy, NOW)
    if found is not None and found.resumes_at:
        rest = {key: one for key, one in groups.items() if key not in found.at_fault}
        assert rest
        assert find_unhealthy(rest, (), None, settings.loop, settings.policy, NOW) is None


def test_the_sentence_names_few_groups() -> None:
    refs = tuple(ref(f"g{number}") for number in range(7))
    unhealthy = UnhealthyCluster(since=0, unready=9, nodes=12, tolerated=5, at_fault=refs, resumes_at=1200.0)
    counted = "cluster is unhealthy: 9 of 12 nodes are not ready, and 5 may be"
    others = "groups other than cloud/g0, cloud/g1, cloud/g2, cloud/g3, cloud/g4 and 2 more"
    assert describe_unhealthy(unhealthy, 1200.0) == (
        f"{counted}; nothing is planned until fewer are not ready, or for {others} until 1970-01-01T00:20:00Z"
    )
    assert describe_unhealthy(unhealthy, 1201.0) == (
        f"{counted}; only {others} are planned for until fewer are not ready"
    )
