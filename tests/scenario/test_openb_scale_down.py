"""The production trace, 100 times as fast, with nodes removed a minute after they are not needed any more."""

from collections.abc import Callable
from typing import Any

import pytest

from nodewright_simulator.journal import Fact, What
from nodewright_simulator.openb import load_openb
from scale_down import FOLDER, count_cycles, measure, read, replay

MakeAudit = Callable[..., Any]


@pytest.mark.slow
def test_nodes_go_and_nothing_suffers(audit: MakeAudit) -> None:
    """Every removal of the run also passed the independent check, which ends the run where it finds fault."""
    trace, result = load_openb(FOLDER), replay("fast-1m")
    pods = {f"default/{p.name}": {"cpu": p.cpu_milli, "memory": p.memory_mib, "gpu": p.gpus} for p in trace.pods}
    groups = {f"fake/{s.name}": {"cpu": s.cpu_milli, "memory": s.memory_mib, "gpu": s.gpus} for s in trace.shapes}
    found = audit(result.journal, pods, groups)
    assert (found.overcommitted, found.misplaced) == ([], [])
    assert found.started == found.ended == set(pods)
    assert result.waiting.longest <= 180.0
    row = measure("fast-1m", result, trace)
    assert row["removed"] > 100
    assert row["evicted"] > 50
    assert row["bound"] <= row["bound_of_chosen_groups"] <= row["with_pods"] <= row["node_hours"]
    assert row["node_hours"] <= 1.5 * row["bound_of_chosen_groups"]
    assert row["dollar_bound"] <= row["dollar_bound_of_chosen_groups"] <= row["dollars_with_pods"] <= row["dollars"]
    assert row["cycles"] == 0


def test_hours_with_pods_are_counted_by_node() -> None:
    hour = 3600.0
    story = [
        Fact(0.0, What.NODE_ADDED, "a", "g"),
        Fact(0.0, What.NODE_ADDED, "b", "h"),
        Fact(1 * hour, What.POD_STARTED, "p", "a"),
        Fact(2 * hour, What.POD_STARTED, "q", "a"),
        Fact(2 * hour, What.POD_STARTED, "r", "b"),
        Fact(3 * hour, What.POD_ENDED, "p"),
        Fact(4 * hour, What.POD_LOST, "q"),
        Fact(6 * hour, What.POD_STARTED, "q-r1", "a"),
        Fact(7 * hour, What.POD_ENDED, "q-r1"),
        Fact(7 * hour, What.POD_ENDED, "r"),
    ]
    assert read(story, dict.fromkeys("pqr", (1, 1, 0))).hours_with_pods == {"g": 4.0, "h": 5.0}


def test_a_cycle_is_a_node_added_for_a_pod_that_was_moved() -> None:
    story = [
        Fact(0.0, What.NODE_ADDED, "a", "g"),
        Fact(0.0, What.NODE_ADDED, "b", "g"),
        Fact(1.0, What.POD_STARTED, "p", "a"),
        Fact(1.0, What.POD_STARTED, "q", "a"),
        Fact(5.0, What.POD_ARRIVED, "p-r1", "Job"),
        Fact(5.0, What.POD_ARRIVED, "q-r1", "Job"),
        Fact(6.0, What.POD_STARTED, "p-r1", "b"),
        Fact(7.0, What.NODE_ADDED, "c", "g"),
        Fact(8.0, What.POD_STARTED, "q-r1", "c"),
    ]
    assert count_cycles(story) == 1
