"""What is read from a dump: its cluster and its age."""

from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.cli.dry_run.dump import DumpedCluster, newest_moment, parse_moment
from nodewright.model.errors import ConfigError
from nodewright.model.objects import ClusterObjects
from nodewright.snapshot.context import Workloads
from nodewright.testkit import build_node, build_pod
from nodewright.testkit.builders import build_budget, build_controller


def _workloads(**objects: Any) -> Workloads:
    return DumpedCluster(ClusterObjects(nodes=(build_node("n"),), **objects)).read(0).workloads


def test_a_dump_without_controllers_did_not_ask_for_them() -> None:
    """DaemonSets were always part of the advice how to make a dump; they say nothing of the others."""
    assert _workloads().controllers is None
    assert _workloads(daemon_sets=(build_controller("DaemonSet", "d"),)).controllers is None
    listed = _workloads(jobs=(build_controller("Job", "j"),), daemon_sets=(build_controller("DaemonSet", "d"),))
    assert set(listed.controllers or ()) == {("Job", "default/j"), ("DaemonSet", "default/d")}


def test_disruption_budgets_of_a_dump_count() -> None:
    budget = build_budget("b", 1)
    assert _workloads(pod_disruption_budgets=(budget,)).budgets == (budget,)


def test_the_newest_time_of_a_node_or_pod_counts() -> None:
    objects = ClusterObjects(nodes=(build_node("n", created_at=50),), pods=(build_pod("p", created_at=90),))
    assert newest_moment(objects) == 90


def test_a_dump_without_times_is_of_the_beginning() -> None:
    pod = build_pod("p")
    objects = ClusterObjects(pods=(replace(pod, metadata=replace(pod.metadata, creation_timestamp=None)),))
    assert newest_moment(objects) == 0


def test_moments_are_utc_unless_they_say_otherwise() -> None:
    assert parse_moment("1970-01-01T01:00:00") == parse_moment("1970-01-01T02:00:00+01:00") == 3600
    with pytest.raises(ConfigError, match="--now"):
        parse_moment("noon")


def test_pods_are_where_they_belong() -> None:
    nominated = build_pod("nominated")
    nominated = replace(nominated, status=replace(nominated.status, nominated_node_name="n"))
    pods = (
        build_pod("young", created_at=9),
        build_pod("old", created_at=1),
        build_pod("bound", node_name="n"),
        nominated,
        build_pod("done", node_name="n", phase="Succeeded"),
        build_pod("stray", node_name="gone"),
    )
    cluster = DumpedCluster(ClusterObjects(nodes=(build_node("n"),), pods=pods))
    seen = cluster.read(0)
    assert [pod.name for pod in seen.pending] == ["old", "young"]
    assert [pod.name for pod in seen.snapshot.pods(0)] == ["bound", "nominated"]
    assert [pod.name for pod in cluster.strays] == ["stray"]
