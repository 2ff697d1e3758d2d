"""Every call ends as Done, Failed or Unknown; a failure stops its own group only."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from nodewright.actuation import AuditLog, CloudWriter, Inbox
from nodewright.actuation.audit import Write
from nodewright.actuation.cloud_writes import CloudWriteRules
from nodewright.model.action import (
    CreateNodeGroup,
    DecreaseTargetSize,
    DeleteInstances,
    DeleteNodeGroup,
    Done,
    Failed,
    IncreaseSize,
    Unknown,
)
from nodewright.model.errors import (
    AccessDenied,
    OutcomeUnknown,
    OutOfCapacity,
    ProviderError,
    QuotaExceeded,
    TargetChanged,
    Throttled,
)
from nodewright.model.group import ErrorClass, FailureScope, GroupRef, NewNodeGroup, NodeGroup
from nodewright.testkit import FakeClock

A, B, C = (GroupRef("p", name) for name in "abc")


class Provider:
    """Accepts everything, unless told to raise for a group."""

    name = "p"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.raises: dict[str, ProviderError] = {}
        self.at_most = 1000
        self.is_dry = False

    def _accept(self, hook: str, group_id: str, *rest: object) -> None:
        self.calls.append((hook, group_id, *rest))
        if group_id in self.raises:
            raise self.raises[group_id]

    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._accept("increase", group_id, expected_target, target)
        return min(target - expected_target, self.at_most)

    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._accept("atomic", group_id, expected_target, target)
        return target - expected_target

    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._accept("decrease", group_id, expected_target, target)
        return expected_target - target

    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        self._accept("delete", group_id, tuple(instance_ids), expected_target)
        return tuple(instance_ids[:1])

    def force_delete_instances(
        self, group_id: str, instance_ids: Sequence[str], expected_target: int
    ) -> tuple[str, ...]:
        self._accept("force", group_id, tuple(instance_ids), expected_target)
        return tuple(instance_ids)

    def create_node_group(self, spec: NewNodeGroup) -> NodeGroup | None:
        self._accept("create", spec.group_id, spec)
        return None if self.is_dry else NodeGroup(id=spec.group_id, min_size=0, max_size=spec.max_size)

    def delete_node_group(self, group_id: str) -> bool:
        self._accept("delete group", group_id)
        return True


def increase(group: GroupRef, *, atomic: bool = False) -> IncreaseSize:
    return IncreaseSize(group=group, expected_target=1, target=3, atomic=atomic)


def one_of_each() -> list[Write]:
    return [
        increase(A),
        increase(C, atomic=True),
        DecreaseTargetSize(group=A, expected_target=3, target=2, reason="late"),
        DeleteInstances(group=B, expected_target=2, instance_ids=("i-1", "i-2"), reason="late"),
    ]


def test_each_action_is_its_call() -> None:
    provider, clock, inbox = Provider(), FakeClock(50.0), Inbox()
    outcomes = CloudWriter([provider], clock, inbox, AuditLog()).act(one_of_each())
    assert provider.calls == [
        ("increase", "a", 1, 3),
        ("atomic", "c", 1, 3),
        ("decrease", "a", 3, 2),
        ("delete", "b", ("i-1", "i-2"), 2),
    ]
    assert [outcome.accepted for outcome in outcomes if isinstance(outcome, Done)] == [2, 2, 1, 1]
    assert {outcome.started for outcome in outcomes} == {50.0}
    assert inbox.drain() == outcomes
    assert inbox.drain() == ()


@pytest.mark.parametrize(
    ("error", "error_class", "scope", "code"),
    [
        (OutOfCapacity("none left"), ErrorClass.OUT_OF_RESOURCES, FailureScope.GROUP, "outOfResources"),
        (OutOfCapacity(scope=FailureScope.ZONE), ErrorClass.OUT_OF_RESOURCES, FailureScope.ZONE, "outOfResources"),
        (QuotaExceeded("used up"), ErrorClass.QUOTA, FailureScope.GROUP, "quotaExceeded"),
        (QuotaExceeded(scope=FailureScope.ACCOUNT), ErrorClass.QUOTA, FailureScope.ACCOUNT, "quotaExceeded"),
        (AccessDenied("no"), ErrorClass.OTHER, FailureScope.GROUP, "accessDenied"),
        (TargetChanged(actual=7), ErrorClass.OTHER, FailureScope.GROUP, "targetChanged"),
    ],
)
def test_a_refusal_is_an_outcome(error: ProviderError, error_class: ErrorClass, scope: FailureScope, code: str) -> None:
    provider = Provider()
    provider.raises["a"] = error
    (outcome,) = CloudWriter([provider], FakeClock(), Inbox(), AuditLog()).act([increase(A)])
    assert isinstance(outcome, Failed)
    assert (outcome.error_class, outcome.scope, outcome.code) == (error_class, scope, code)
    assert outcome.message == str(error)


def test_a_busy_cloud_is_told_apart_unless_it_is_to_be_as_in_ca() -> None:
    provider = Provider()
    provider.raises["a"] = Throttled("slow down", retry_after=7)
    for defers, retry_after in ((True, 7.0), (False, None)):
        actor = CloudWriter([provider], FakeClock(), Inbox(), AuditLog(), rules=CloudWriteRules(defers_busy=defers))
        (outcome,) = actor.act([increase(A)])
        assert isinstance(outcome, Failed)
        assert (outcome.code, outcome.retry_after, outcome.is_busy) == ("throttled", retry_after, defers)


def test_a_call_without_an_answer_is_unknown() -> None:
    provider = Provider()
    provider.raises["a"] = OutcomeUnknown("silence")
    (outcome,) = CloudWriter([provider], FakeClock(), Inbox(), AuditLog()).act([increase(A)])
    assert isinstance(outcome, Unknown)
    assert outcome.message == "silence"


@pytest.mark.parametrize("error", [OutOfCapacity("none"), OutcomeUnknown("silence")])
def test_a_failure_stops_its_group_and_no_other(error: ProviderError) -> None:
    provider = Provider()
    provider.raises["a"] = error
    outcomes = CloudWriter([provider], FakeClock(), Inbox(), AuditLog()).act([increase(A), increase(A), increase(B)])
    assert [call[1] for call in provider.calls] == ["a", "b"]
    assert isinstance(outcomes[1], Done)


def test_a_refused_decrease_lets_through_what_was_planned_for_the_same_target() -> None:
    provider = Provider()
    provider.raises["a"] = OutOfCapacity("machines exist")
    actions: list[Write] = [
        DecreaseTargetSize(group=A, expected_target=3, target=2, reason="late"),
        increase(A),
        DeleteInstances(group=A, expected_target=3, instance_ids=("i",), reason="late", force=True),
    ]
    CloudWriter([provider], FakeClock(), Inbox(), AuditLog()).act(actions)
    assert provider.calls == [("decrease", "a", 3, 2), ("force", "a", ("i",), 3)]


@pytest.mark.parametrize(("permitted", "called"), [((0, 1), ["force", "increase"]), ((1,), ["force"]), ((), [])])
def test_what_follows_a_deletion_that_was_not_permitted_in_full_waits(
    permitted: tuple[int, ...], called: list[str]
) -> None:
    provider = Provider()
    delete = DeleteInstances(group=A, expected_target=3, instance_ids=("i", "k"), reason="late", force=True)
    part = delete.part(permitted) if permitted else None
    writer = CloudWriter([provider], FakeClock(), Inbox(), AuditLog())
    outcomes = writer.act([delete, increase(A)], permit=lambda _: part)
    assert [call[0] for call in provider.calls] == called
    assert [outcome.action for outcome in outcomes][:1] == ([part] if part is not None else [])


@pytest.mark.parametrize(("accepted", "called"), [(1, 1), (2, 2)])
def test_what_follows_a_partly_accepted_increase_waits_for_the_next_loop(accepted: int, called: int) -> None:
    """It was planned for a size that the group does not have."""
    provider = Provider()
    provider.at_most = accepted
    further = IncreaseSize(group=A, expected_target=3, target=4)
    outcomes = CloudWriter([provider], FakeClock(), Inbox(), AuditLog()).act([increase(A), further])
    assert len(provider.calls) == len(outcomes) == called


@pytest.mark.parametrize(("stops", "called"), [(True, ["a"]), (False, ["a", "b"])])
def test_ca_does_not_go_on_with_an_expansion_that_was_refused(stops: bool, called: list[str]) -> None:
    provider = Provider()
    provider.raises["a"] = OutOfCapacity("none left")
    CloudWriter([provider], FakeClock(), Inbox(), AuditLog(), rules=CloudWriteRules(stops_at_refusal=stops)).act(
        [increase(A), increase(B)]
    )
    assert [call[1] for call in provider.calls] == called


def test_an_action_of_a_provider_that_is_not_loaded_fails() -> None:
    (outcome,) = CloudWriter([], FakeClock(), Inbox(), AuditLog()).act([increase(A)])
    assert isinstance(outcome, Failed)
    assert outcome.code == "unknownProvider"


def test_a_bug_is_not_an_outcome() -> None:
    class Broken(Provider):
        def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
            raise ZeroDivisionError(group_id, expected_target, target)

    act: Callable[..., Any] = CloudWriter([Broken()], FakeClock(), Inbox(), AuditLog()).act
    with pytest.raises(ZeroDivisionError):
        act([increase(A)])


NEW = CreateNodeGroup(group=A, spec=NewNodeGroup(group_id="a", machine_type="big", max_size=5), reason="big")
GROW = IncreaseSize(group=A, expected_target=0, target=2)


def attempt(provider: Provider, *actions: Write) -> list[str]:
    """The calls that were made."""
    CloudWriter([provider], FakeClock(), Inbox(), AuditLog()).act(actions)
    return [call[0] for call in provider.calls]


def test_a_group_is_made_before_it_grows() -> None:
    assert attempt(Provider(), NEW, GROW) == ["create", "increase"]
    assert attempt(Provider(), DeleteNodeGroup(group=A, reason="empty")) == ["delete group"]


def test_a_group_that_was_not_made_does_not_grow() -> None:
    provider = Provider()
    provider.raises["a"] = AccessDenied("no")
    assert attempt(provider, NEW, GROW, increase(B)) == ["create", "increase"]
    assert provider.calls[-1][1] == "b"


def test_a_dry_run_makes_none() -> None:
    provider = Provider()
    provider.is_dry = True
    assert attempt(provider, NEW, GROW) == ["create"]


def test_no_group_is_made_that_is_not_to_grow() -> None:
    assert attempt(Provider(), NEW, increase(B)) == ["increase"]
