"""The state of requests is changed by ``apply`` only, and what one step reserves of a class the next one cannot have."""

from datetime import UTC, datetime

from nodewright.model.meta import ObjectMeta
from nodewright.model.provisioning_request import (
    CHECK_CAPACITY,
    FAILED,
    PodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    Retry,
    TemplateReference,
)
from nodewright.planner.provisioning_requests.classes import ClassUsage, ReservedAmounts
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState, RequestChanges, join_changes
from nodewright.testkit.world import NOW, World, settings_with

SETTINGS = settings_with(enable_provisioning_requests=True)


def make_request(name: str, pods: int = 1, namespace: str = "default") -> ProvisioningRequest:
    pod_set = PodSet(pod_template_ref=TemplateReference(name="one"), count=pods)
    created = datetime.fromtimestamp(NOW - 60, tz=UTC)
    return ProvisioningRequest(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=name, creation_timestamp=created),
        spec=ProvisioningRequestSpec(provisioning_class_name=CHECK_CAPACITY, pod_sets=(pod_set,)),
    )


def state_of(*requests: ProvisioningRequest) -> ProvisioningRequestState:
    return ProvisioningRequestState.of(World(requests=list(requests)).state(SETTINGS), SETTINGS.requests)


def test_apply_returns_a_new_state_and_leaves_the_old_one_as_it_was() -> None:
    before = state_of(make_request("a"))
    (request,) = before
    failed = before.condition(request, (FAILED, "True"), "Any", "text")
    after = before.apply(before.write(request, failed))
    assert not before.requests["default/a"].has(FAILED)
    assert after.requests["default/a"].has(FAILED)
    assert [write.conditions for write in after.report().writes] == [(failed,)]
    assert before.report().writes == ()


def test_conditions_that_are_there_are_not_written_again() -> None:
    state = state_of(make_request("a"))
    failed = state.condition(state.requests["default/a"], (FAILED, "True"), "Any", "text")
    state = state.apply(state.write(state.requests["default/a"], failed))
    state = state.apply(state.write(state.requests["default/a"], failed))
    assert len(state.report().writes) == 1


def test_none_takes_back_what_an_earlier_change_set() -> None:
    retry = Retry(at=NOW, wait=60.0)
    first = RequestChanges(retries={"a": retry}, reserved={"default/a": 3}, missing_since={"a": NOW})
    last = RequestChanges(retries={"a": None}, reserved={"default/a": None}, missing_since={"a": None})
    state = state_of(make_request("a"))
    kept, gone = state.apply(first), state.apply(first, last)
    assert (kept.next_memory().retries, kept.report().reserved) == ({"a": retry}, {"default/a": 3})
    assert kept.next_memory().homeless_since == {"a": NOW}
    assert (gone.next_memory().retries, gone.report().reserved, gone.next_memory().homeless_since) == ({}, {}, {})


def test_nothing_is_remembered_of_deleted_requests() -> None:
    state = state_of(make_request("a"), make_request("b"))
    retries = {name: Retry(at=NOW, wait=60.0) for name in ("a", "b")}
    after = state.apply(RequestChanges(retries=retries, expired=(state.requests["default/a"],)))
    assert list(after.requests) == ["default/b"]
    assert list(after.next_memory().retries) == ["b"]
    assert [request.name for request in after.report().expired] == ["a"]


def test_joined_changes_keep_their_order_and_the_earliest_time() -> None:
    a, b = make_request("a"), make_request("b")
    joined = join_changes(
        [RequestChanges(requests=(a,), next_change=9.0), RequestChanges(requests=(b,), next_change=4.0)]
    )
    assert joined.requests == (a, b)
    assert joined.next_change == 4.0
    assert join_changes([RequestChanges(prefers_requests=True), RequestChanges()]).prefers_requests is True
    assert (
        join_changes([RequestChanges(prefers_requests=True), RequestChanges(prefers_requests=False)]).prefers_requests
        is False
    )


def test_usage_counts_the_other_requests_of_a_class_and_namespace() -> None:
    a, b, other = make_request("a", 3), make_request("b", 2), make_request("c", 7, namespace="far")
    usage = ClassUsage.of([(a, 1), (other, 5)])
    assert usage.without(a) == ReservedAmounts()
    assert usage.without(b) == ReservedAmounts(3, 1)
    usage = usage.with_reserved(b, 4).with_reserved(a, 2)
    assert usage.without(b) == ReservedAmounts(3, 2)
    assert usage.without(other) == ReservedAmounts()
    assert usage.without(make_request("d")) == ReservedAmounts(5, 6)
