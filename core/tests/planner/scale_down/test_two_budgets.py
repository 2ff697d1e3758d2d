"""A pod under more than one disruption budget cannot be evicted: its node is not drained in vain."""

from typing import Any

import pytest

from nodewright.model.reason import BlockingCode, UnremovableCode
from nodewright.testkit.builders import build_budget, build_pod
from nodewright.testkit.world import World

SAFE = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}


def world(**pod: Any) -> World:
    made = World()
    made.add_group("g", size=2, cpu="4")
    made.running = [build_pod("p", cpu="1", node_name="g-0", labels={"app": "a"}, **pod)]
    made.running.append(build_pod("busy", cpu="3", node_name="g-1"))
    made.budgets = [build_budget("a", 1, {"app": "a"}), build_budget("all", 5)]
    return made


@pytest.mark.parametrize("annotations", [{}, SAFE])
def test_the_node_stays_and_the_reason_says_why(annotations: dict[str, str]) -> None:
    reason = world(annotations=annotations).plan().scale_down.unremovable["g-0"]
    assert (reason.code, reason.pod_code) == (UnremovableCode.BLOCKED_BY_POD, BlockingCode.NOT_ENOUGH_PDB)
    assert "default/a and default/all" in reason.message


def test_as_ca_it_is_tried() -> None:
    assert "g-0" in world().plan(profile="ca").scale_down.unneeded
