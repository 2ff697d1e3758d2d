"""Similarity beyond what the recorded cases show (behaviour/up.md §4.7b)."""

from collections.abc import Mapping

import pytest

from nodewright.estimator.binpacking import Template
from nodewright.model.pod import Pod
from nodewright.model.settings import ScaleUpSettings
from nodewright.planner.similar import are_similar, share_a_label
from nodewright.testkit.builders import build_node, build_pod


def template(*daemons: Pod, pods: int = 110, labels: Mapping[str, str] | None = None) -> Template:
    return Template(build_node("n", pods=pods, labels=labels or {}), daemons)


def asking(name: str, amount: str) -> Pod:
    return build_pod("agent", cpu="0", memory="0", extended={name: amount}, owner=("DaemonSet", "agent"))


@pytest.mark.parametrize("name", ["ephemeral-storage", "example.com/device"])
def test_a_request_for_what_is_not_offered_counts_below_zero(name: str) -> None:
    plain, wanting = template(), template(asking(name, "1"))
    assert not are_similar(plain, wanting, ScaleUpSettings())
    assert not are_similar(wanting, template(asking(name, "1")), ScaleUpSettings()), "as in CA: no ratio of a debt"


def test_the_number_of_daemon_pods_is_no_difference() -> None:
    few = template(pods=20)
    many = template(*(build_pod(f"d{k}", cpu="0", memory="0") for k in range(4)), pods=20)
    assert are_similar(few, many, ScaleUpSettings())


def test_labels_that_a_provider_ignores_are_no_difference() -> None:
    a, b = template(labels={"pool": "a"}), template(labels={"pool": "b"})
    assert not are_similar(a, b, ScaleUpSettings())
    assert are_similar(a, b, ScaleUpSettings(), ["pool"])
    assert are_similar(a, b, ScaleUpSettings(balancing_ignore_label=("pool",)))


def test_a_shared_label_of_the_provider_settles_it() -> None:
    a, b, other = (template(labels={"pool": pool}) for pool in ("x", "x", ""))
    assert share_a_label(a, b, ["pool"])
    assert not share_a_label(a, other, ["pool"])
    assert not share_a_label(other, other, ["pool"])
