"""Every pending pod gets exactly one outcome, and one that is not helped gets reasons."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from nodewright.cli.plan_reasons import why_ignored
from nodewright.model.pod import Pod, PodCondition
from nodewright.model.settings import PodSettings
from nodewright.planner.scale_up.pending_pods import is_pending
from nodewright.testkit import build_pod

UNSCHEDULABLE = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
GATED = PodCondition(type="PodScheduled", status="False", reason="SchedulingGated")


def with_conditions(pod: Pod, *conditions: PodCondition) -> Pod:
    return replace(pod, status=replace(pod.status, conditions=conditions))


@given(
    priority=st.sampled_from([None, -11, -10, 5]),
    owner=st.sampled_from([("ReplicaSet", "rs"), ("DaemonSet", "ds"), None]),
    conditions=st.lists(st.sampled_from([UNSCHEDULABLE, GATED]), max_size=1),
    allowed=st.sampled_from([(), ("default-scheduler",), ("other",)]),
    bypassed=st.sampled_from([(), ("default-scheduler",)]),
)
def test_a_pod_that_is_passed_over_always_says_why(
    priority: int | None,
    owner: tuple[str, str] | None,
    conditions: list[PodCondition],
    allowed: tuple[str, ...],
    bypassed: tuple[str, ...],
) -> None:
    pod = with_conditions(build_pod("p", owner=owner), *conditions)
    pod = replace(pod, spec=replace(pod.spec, priority=priority))
    settings = PodSettings(allowed_scheduler_names=allowed, bypassed_scheduler_names=bypassed)
    assert bool(why_ignored(pod, settings)) is not is_pending(pod, settings)


@pytest.mark.parametrize(
    ("pod", "settings", "words"),
    [
        (build_pod("p", priority=-50), PodSettings(), "--expendable-pods-priority-cutoff=-10"),
        (build_pod("p"), PodSettings(allowed_scheduler_names=("x",)), "scheduler default-scheduler is not among"),
        (build_pod("p", unschedulable=False), PodSettings(), "PodScheduled"),
    ],
)
def test_the_reason_names_what_to_look_at(pod: Pod, settings: PodSettings, words: str) -> None:
    assert words in why_ignored(pod, settings)
