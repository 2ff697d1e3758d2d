"""A plan without writes, and what the next loop remembers of a plan."""

from dataclasses import fields, replace

from nodewright.clusterstate.memory import Memory, MoveMemory, PlanMemory, ProvisioningMemory, ScaleDownMemory
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.plan import Plan, ScaleDownReport, ScaleUpReport
from nodewright.model.provisioning_request import Retry
from nodewright.model.reason import ScaleDownResult, ScaleUpResult
from nodewright.model.removal import NodeRemoval, RemovalReason

A = GroupRef("p", "a")
# The fields of a plan that write nothing.
REPORTS = {
    "scale_up",
    "salvo",
    "hedge",
    "min_size",
    "fitting",
    "waiting",
    "scale_down",
    "spare",
    "halted",
    "cut_short",
    "room_by",
}


def test_a_plan_without_writes_keeps_its_reports() -> None:
    removal = NodeRemoval(node="n", group=A, instance_id="i-1", reason=RemovalReason.EMPTY)
    report = ScaleUpReport(result=ScaleUpResult.SUCCESSFUL)
    plan = Plan(
        actions=(IncreaseSize(group=A, expected_target=0, target=1),),
        scale_up=report,
        scale_down=ScaleDownReport(
            result=ScaleDownResult.STARTED, removals=(removal,), soft_taint=("n",), soft_untaint=("m",)
        ),
        cut_short="corrected",
        room_by=7.0,
    )
    assert plan.without_writes() == Plan(
        scale_up=report,
        scale_down=ScaleDownReport(result=ScaleDownResult.STARTED),
        cut_short="corrected",
        room_by=7.0,
    )


def test_whatever_is_no_report_is_left_out() -> None:
    """Each field gets a value that no plan has by default; only the reports come through."""
    marked = {one.name: object() for one in fields(Plan)} | {"scale_down": ScaleDownReport()}
    left = Plan(**marked).without_writes()  # type: ignore[arg-type]
    kept = {name for name, value in marked.items() if getattr(left, name) is value or name == "scale_down"}
    assert kept == REPORTS


def test_memory_is_put_into_that_of_the_loop() -> None:
    memory = Memory(given_up={A: 2}, looked_at=5.0)
    assert PlanMemory.of(memory).put_into(memory) == memory
    fresh = PlanMemory(
        scale_down=ScaleDownMemory(updated_at=9.0),
        provisioning=ProvisioningMemory(retries={"r": Retry(at=9.0, wait=60.0)}),
        planned_pods={},
        purchases={A: {}},
        moves=MoveMemory(searched_at=9.0),
    )
    after = fresh.put_into(memory)
    assert PlanMemory.of(after) == fresh
    assert (after.given_up, after.looked_at) == ({A: 2}, 5.0)


def test_a_retry_is_remembered_only_for_a_provider_that_is_called() -> None:
    first, second = Retry(at=9.0, wait=60.0), Retry(at=9.0, wait=120.0)
    memory = replace(PlanMemory.of(Memory()), call_retries={"a": first, "b": second})
    after = memory.with_called(["b"]).put_into(Memory())
    assert after.provisioning.retries == {"b": second}
    assert memory.put_into(Memory()).provisioning.retries == {}
