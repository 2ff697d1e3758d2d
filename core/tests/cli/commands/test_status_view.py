"""How a status reads: removals that are under way."""

from dataclasses import replace
from io import StringIO

from nodewright.cli.screen import make_console
from nodewright.cli.status_view import as_json, print_status
from nodewright.clusterstate.memory import HeldNotice, Memory, UnhealthyCluster
from nodewright.engine.status import BudgetStatus, GroupStatus, StatusReport, make_status
from nodewright.model.group import GroupRef
from nodewright.model.interruption import InterruptionKind
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalStage, Removing

REF = GroupRef("cloud", "g")
REMOVAL = NodeRemoval(node="n-1", group=REF, instance_id="i-1", reason=RemovalReason.UNDERUTILIZED, pods=("a/b",))
GOING = Removing(removal=REMOVAL, stage=RemovalStage.DRAINING, started=1000.0)
REPORT = StatusReport(
    now=1045.0,
    removing=(GOING,),
    deletions=BudgetStatus(used=1, window=5400.0),
    groups=(GroupStatus(ref=REF, deleted=1),),
)


def test_for_people() -> None:
    text = StringIO()
    print_status(make_console(text, 200), REPORT)
    said = " ".join(text.getvalue().split())
    assert "1 node on the way out: n-1 (underutilized, draining, for 45s)." in said
    assert "1 machine charged to the deletion budget" in said
    assert "Deletion budget of the cluster: 1 used within 1h30m." in said


def test_machines_that_ran_and_are_called_failed_are_counted() -> None:
    text = StringIO()
    report = make_status(Memory(ran=frozenset({(REF, "i-1"), (REF, "i-2")})), 1045.0)
    print_status(make_console(text, 200), report)
    assert "2 machines that ran, called failed by the cloud" in " ".join(text.getvalue().split())
    assert as_json(report)["groups"][0]["disputed"] == 2


def test_machines_that_a_cloud_is_about_to_take_are_told_the_next_first() -> None:
    def notice(name: str, deadline: float | None) -> HeldNotice:
        return HeldNotice(instance_id=name, id=name, kind=InterruptionKind.RECLAIM, since=1000.0, deadline=deadline)

    held = (notice("i-3", None), notice("i-2", 1200.0), notice("i-1", 1100.0))
    text, report = StringIO(), make_status(Memory(notices={REF: held}), 1045.0)
    print_status(make_console(text, 300), report)
    said = " ".join(text.getvalue().split())
    assert "3 machines about to be taken by a cloud: i-1 (reclaim, at 1970-01-01T00:18:20Z), i-2" in said
    told = as_json(report)["interruptions"]
    assert [one["instance"] for one in told] == ["i-1", "i-2", "i-3"]
    assert (told[0]["group"], told[2]["deadline"]) == ("cloud/g", None)


def test_without_a_window_nothing_is_counted() -> None:
    text = StringIO()
    print_status(make_console(text, 200), replace(REPORT, deletions=BudgetStatus(used=1)))
    assert "There is no limit to deletions." in text.getvalue()


def test_for_programs() -> None:
    (removal,) = as_json(REPORT)["removals"]
    assert removal == {
        "node": "n-1",
        "group": "cloud/g",
        "reason": "underutilized",
        "pods": ["a/b"],
        "stage": "draining",
        "started_at": "1970-01-01T00:16:40Z",
    }


def test_an_unhealthy_cluster_is_told_first() -> None:
    unhealthy = UnhealthyCluster(since=445.0, unready=10, nodes=14, tolerated=6, at_fault=(REF,), resumes_at=1645.0)
    text = StringIO()
    report = replace(REPORT, unhealthy=unhealthy)
    print_status(make_console(text, 300), report)
    message = (
        "cluster is unhealthy: 10 of 14 nodes are not ready, and 6 may be; nothing is planned until fewer are not ready, "
        "or for groups other than cloud/g until 1970-01-01T00:27:25Z"
    )
    assert f"For 10m the {message}." in " ".join(text.getvalue().split())
    assert as_json(REPORT)["unhealthy"] is None
    assert as_json(report)["unhealthy"] == {
        "since": "1970-01-01T00:07:25Z",
        "unready": 10,
        "nodes": 14,
        "tolerated": 6,
        "at_fault": ["cloud/g"],
        "resumes_at": "1970-01-01T00:27:25Z",
        "message": message,
    }
