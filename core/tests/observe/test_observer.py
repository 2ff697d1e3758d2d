"""An error of one group affects that group only; what cannot be read is Unknown, never zero."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory, ScaleUpRequest
from nodewright.model.action import Done, IncreaseSize
from nodewright.model.errors import KubeApiError
from nodewright.model.group import GroupRef, NodeGroup
from nodewright.model.settings import Settings, default_options
from nodewright.observe import ClusterObservation, Observer
from nodewright.snapshot.observation import Observation
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_pod

A, B = GroupRef("bent", "a"), GroupRef("bent", "b")


class Cluster:
    """Snapshots of an empty cluster with one pending pod."""

    problem = ""
    error: Exception | None = None

    def read(self, now: float) -> ClusterObservation:
        assert now >= 0
        if self.error is not None:
            raise self.error
        return ClusterObservation(
            snapshot=Snapshot(), pending=(build_pod("p"),), priorities="10: [a]", problem=self.problem
        )


def observe(provider: Any, memory: Memory | None = None, now: float = 100.0) -> Observation:
    return Observer(Cluster(), [provider], default_options(Settings())).observe(now, memory or Memory())[0]


def test_reads_cluster_and_groups(provider: Any) -> None:
    seen = observe(provider)
    assert [pod.name for pod in seen.pending] == ["p"]
    assert seen.priorities == "10: [a]"
    group = seen.groups[A]
    assert (group.target, [i.id for i in group.instances or ()], group.hourly_price) == (1, ["i-a"], 0.5)
    assert group.options.max_node_provision_seconds == 900
    assert seen.providers["bent"].ignores_id_case
    assert seen.providers["bent"].gpu_resources == ("vendor.example/gpu",)
    assert seen.providers["bent"].gpu_types == ("t4", "a100")


def test_template_is_a_ready_node_with_old_and_new_labels(provider: Any) -> None:
    node = observe(provider).groups[A].template
    assert node is not None
    assert node.name == "template-node-for-a"
    assert node.metadata.labels == {
        "kubernetes.io/hostname": "template-node-for-a",
        "topology.kubernetes.io/zone": "z1",
        "failure-domain.beta.kubernetes.io/zone": "z1",
    }
    assert [(c.type, c.status) for c in node.status.conditions] == [("Ready", "True")]


@pytest.mark.parametrize("hook", ["target_size", "instances", "failed_instances"])
def test_a_failing_size_makes_its_group_unknown_and_no_other(provider: Any, hook: str) -> None:
    provider.fails = {(hook, "a")}
    seen = observe(provider)
    assert (seen.groups[A].target, seen.groups[A].instances) == (None, None)
    assert seen.groups[A].problem == f"broken: {hook} failed"
    assert seen.groups[B].is_known
    assert not seen.groups[B].problem
    assert not seen.providers["bent"].problem


@pytest.mark.parametrize("hook", ["template_node", "group_options", "node_price"])
def test_a_failing_fact_stays_as_it_was(provider: Any, hook: str) -> None:
    observer = Observer(Cluster(), [provider], default_options(Settings()))
    observer.observe(0.0, Memory())
    provider.fails = {(hook, "a")}
    seen, _ = observer.observe(1000.0, Memory())
    group = seen.groups[A]
    assert group.is_known
    assert group.problem == f"broken: {hook} failed"
    assert group.template is not None
    assert group.hourly_price == 0.5


def test_no_template_where_none_was_ever_read(provider: Any) -> None:
    provider.fails = {("template_node", "a")}
    assert observe(provider).groups[A].template is None


def test_facts_are_read_again_after_a_while_or_when_the_group_changes(provider: Any) -> None:
    observer = Observer(Cluster(), [provider], default_options(Settings()))

    def facts_read(now: float) -> list[str]:
        provider.calls.clear()
        observer.observe(now, Memory())
        return [group for hook, group in provider.calls if hook == "template_node"]

    assert facts_read(0.0) == ["a", "b"]
    assert facts_read(299.0) == []
    assert facts_read(300.0) == ["a", "b"]
    provider.groups = [NodeGroup(id="a", min_size=0, max_size=99), provider.groups[1]]
    assert facts_read(310.0) == ["a"]
    provider.fails = {("template_node", "b")}
    assert facts_read(700.0) == ["a", "b"]
    assert facts_read(710.0) == ["b"]  # what could not be read is asked again at once


@pytest.mark.parametrize("hook", ["refresh", "node_groups"])
def test_a_provider_that_fails_keeps_its_groups_as_unknown(provider: Any, hook: str) -> None:
    before = observe(provider)
    memory = Memory(last_known=dict(before.groups))
    provider.fails = {(hook, "")}
    seen = observe(provider, memory)
    assert seen.providers["bent"].problem == f"broken: {hook} failed"
    assert seen.groups[A] == replace(before.groups[A], target=None, instances=None, problem=f"broken: {hook} failed")
    assert set(seen.groups) == {A, B}


def test_one_provider_fails_alone(provider: Any, make_provider: Callable[[str], Any]) -> None:
    other = make_provider("other")
    other.fails = {("refresh", "")}
    seen, _ = Observer(Cluster(), [provider, other], default_options(Settings())).observe(0.0, Memory())
    assert seen.groups[A].is_known
    assert seen.providers["other"].problem
    assert not seen.providers["bent"].problem


def test_names_of_groups_that_were_ever_read_are_remembered(provider: Any) -> None:
    """A cloud may list a group because the flag names it; one that cannot be read at a start is read later."""
    provider.names = ("a", "b", "misspelt")
    observer, memory = Observer(Cluster(), [provider], default_options(Settings())), Memory()
    both = provider.groups
    for hook, groups, known in (
        ("refresh", both, set()),
        ("target_size", both, {A}),
        ("", both, {A, B}),
        ("", [], {A, B}),
    ):
        provider.fails, provider.groups = {(hook, ""), (hook, "b")}, groups
        memory = fold(memory, observer.observe(100.0, memory)[0], (), Settings()).memory
        assert memory.named == known


def test_what_a_provider_says_of_itself_may_fail(provider: Any) -> None:
    provider.fails = {("ignored_labels", "")}
    seen = observe(provider)
    assert seen.providers["bent"].ignored_labels == ()
    assert seen.groups[A].is_known


def test_groups_with_work_in_flight_are_wanted(provider: Any) -> None:
    request = ScaleUpRequest(increase=1, started=0.0, deadline=900.0)
    observe(provider, Memory(requests={A: (request,)}))
    observe(provider, Memory(unregistered_since={(B, "i-1"): 0.0}))
    observe(provider, Memory(seen_failures=frozenset({(A, "f")})))
    observe(provider, Memory(requests={GroupRef("other", "x"): (request,)}))
    assert provider.wanted == [frozenset("a"), frozenset("b"), frozenset("a"), frozenset()]


def test_groups_written_to_are_wanted(provider: Any) -> None:
    action = IncreaseSize(group=B, expected_target=1, target=2)
    observer = Observer(Cluster(), [provider], default_options(Settings()))
    observer.observe(0.0, Memory(), [Done(action=action, started=0.0, accepted=1)])
    assert provider.wanted == [frozenset("b")]


def test_the_cluster_s_problem_is_passed_on_and_its_errors_too(provider: Any) -> None:
    cluster = Cluster()
    cluster.problem = "half of it is missing"
    observer = Observer(cluster, [provider], default_options(Settings()))
    assert observer.observe(0.0, Memory())[1] == "half of it is missing"
    cluster.error = KubeApiError("down", retryable=True)
    with pytest.raises(KubeApiError):
        observer.observe(0.0, Memory())
