"""ProvisioningClasses: which requests are served, under what terms, and how much a namespace may hold (docs/adr/0016)."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from nodewright.model.cluster import PodTemplateSpec
from nodewright.model.meta import Condition, LabelSelector, ObjectMeta, Requirement
from nodewright.model.plan import Plan
from nodewright.model.provisioning_request import (
    BEST_EFFORT_ATOMIC,
    CHECK_CAPACITY,
    FAILED,
    PROVISIONED,
    SEED_ATOMIC,
    ClassLimits,
    PodSet,
    PodTemplate,
    ProvisioningClass,
    ProvisioningClassSpec,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    ProvisioningRequestStatus,
    TemplateReference,
)
from nodewright.snapshot.observation import ProviderSeen
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import NOW, World, grown

ON = {"enable_provisioning_requests": True, "enable_provisioning_classes": True}


def make_class(name: str = "train", provisioner: str = BEST_EFFORT_ATOMIC, **spec: Any) -> ProvisioningClass:
    limits = ClassLimits(pods=spec.pop("pods", None), nodes=spec.pop("nodes", None))
    return ProvisioningClass(
        metadata=ObjectMeta(name=name), spec=ProvisioningClassSpec(provisioner=provisioner, limits=limits, **spec)
    )


def request(
    name: str = "r", pods: int = 3, kind: str = "train", namespace: str = "default", **parameters: str
) -> ProvisioningRequest:
    created = datetime.fromtimestamp(NOW - 60, tz=UTC)
    pod_set = PodSet(pod_template_ref=TemplateReference(name="t"), count=pods)
    spec = ProvisioningRequestSpec(pod_sets=(pod_set,), provisioning_class_name=kind, parameters=parameters)
    meta = ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}/{name}", creation_timestamp=created)
    return ProvisioningRequest(metadata=meta, spec=spec)


def world(*requests: ProvisioningRequest, classes: tuple[ProvisioningClass, ...] = (), size: int = 0) -> World:
    """A group of machines with room for one pod of a request each."""
    made = World(requests=list(requests), classes=list(classes))
    made.add_group("g", size, max_size=50, cpu="4")
    spec = build_pod("t", cpu="4").spec
    namespaces = {one.metadata.namespace for one in requests}
    made.templates = [
        PodTemplate(metadata=ObjectMeta(name="t", namespace=namespace), template=PodTemplateSpec(spec=spec))
        for namespace in namespaces
    ]
    return made


def after(plan: Plan, key: str = "default/r") -> ProvisioningRequest:
    """The request as it will be."""
    return [write.request for write in plan.provisioning.writes if write.request.key == key][-1]


def said(plan: Plan, kind: str, key: str = "default/r") -> str:
    held = after(plan, key).condition(kind)
    return f"{held.status}/{held.reason}: {held.message}" if held is not None else ""


def test_a_class_of_the_cluster_stands_for_one_of_the_core() -> None:
    plan = world(request(), classes=(make_class(),)).plan(**ON)
    assert grown(plan) == {"g": (0, 3)}
    assert after(plan).spec.provisioning_class_name == "train"
    assert after(plan).own_details == {"provisioner": BEST_EFFORT_ATOMIC, "nodes": "3"}


def test_room_that_is_there_takes_no_node() -> None:
    plan = world(request(), classes=(make_class(nodes=0),), size=3).plan(**ON)
    assert said(plan, PROVISIONED).startswith("True/CapacityIsFound")
    assert after(plan).own_details["nodes"] == "0"


@pytest.mark.parametrize("changes", [{"enable_provisioning_classes": False}, {"profile": "ca"}])
def test_classes_are_not_read_where_they_are_off(changes: dict[str, Any]) -> None:
    kind = request(kind=BEST_EFFORT_ATOMIC)
    plan = world(kind, request("named"), classes=(make_class(pods=0),)).plan(**{**ON, **changes})
    assert grown(plan) == {"g": (0, 3)}
    written = [*plan.provisioning.writes, *plan.provisioning.results]
    assert {write.request.name for write in written} == {"r"}
    assert not any(write.request.own_details for write in written)


def test_without_any_class_everything_is_as_before() -> None:
    plan = world(request(kind=SEED_ATOMIC)).plan(**ON)
    assert grown(plan) == {"g": (0, 3)}
    assert after(plan).own_details == {}


@pytest.mark.parametrize("kind", [BEST_EFFORT_ATOMIC, CHECK_CAPACITY])
def test_where_there_are_classes_no_other_is_served(kind: str) -> None:
    plan = world(request(kind=kind), classes=(make_class(), make_class("batch"))).plan(**ON)
    assert grown(plan) == {}
    text = f"True/ClassNotAllowed: there is no ProvisioningClass {kind}; use one that exists: batch, train"
    assert said(plan, FAILED) == text


def test_a_class_of_the_core_may_itself_be_listed() -> None:
    plan = world(request(kind=SEED_ATOMIC), classes=(make_class(SEED_ATOMIC, ""),)).plan(**ON)
    assert grown(plan) == {"g": (0, 3)}


def test_classes_that_others_serve_are_left_to_them() -> None:
    assert world(request(kind="queue.example.com"), classes=(make_class(),)).plan(**ON).provisioning.writes == ()


@pytest.mark.parametrize(
    ("selector", "allowed"),
    [
        (LabelSelector(match_labels={"kubernetes.io/metadata.name": "default"}), True),
        (LabelSelector(match_labels={"kubernetes.io/metadata.name": "shop"}), False),
        (LabelSelector(match_expressions=(Requirement(key="batch", operator="DoesNotExist"),)), True),
        (None, True),
    ],
)
def test_only_namespaces_that_are_chosen_may_use_it(selector: LabelSelector | None, allowed: bool) -> None:
    plan = world(request(), classes=(make_class(namespace_selector=selector),)).plan(**ON)
    assert bool(grown(plan)) == allowed
    if not allowed:
        assert said(plan, FAILED).startswith("True/ClassNotAllowed: namespace default may not use")


def test_what_the_class_sets_holds_and_may_be_repeated() -> None:
    classes = (make_class(parameters={"ValidUntilSeconds": "30"}),)
    assert said(world(request(), classes=classes).plan(**ON), FAILED) == "True/Expired: ProvisioningRequest is expired"
    repeated = request(ValidUntilSeconds="30")
    assert said(world(repeated, classes=classes).plan(**ON), FAILED).startswith("True/Expired")


def test_a_request_that_sets_something_else_is_told_to_leave_it_out() -> None:
    classes = (make_class(parameters={"ValidUntilSeconds": "2h"}),)
    plan = world(request(ValidUntilSeconds="9h"), classes=classes).plan(**ON)
    assert grown(plan) == {}
    text = "parameter ValidUntilSeconds is 9h, and class train sets it to 2h: leave it out"
    assert said(plan, FAILED) == f"True/InvalidRequest: {text}"


def test_a_request_that_can_never_fit_fails() -> None:
    plan = world(request(pods=11), classes=(make_class(pods=10),)).plan(**ON)
    assert said(plan, FAILED) == (
        "True/InvalidRequest: it is for 11 pods, and limits.pods of class train allows 10 in a namespace: ask for less, or "
        "have the limit raised"
    )


def test_pods_of_open_requests_count_in_the_very_loop_and_another_namespace_has_its_own() -> None:
    requests = (request("a", 6), request("b", 5), request("c", 6, namespace="shop"), request("d", 4))
    plan = world(*requests, classes=(make_class(pods=10),)).plan(**ON)
    assert grown(plan)["g"][1] == 16
    assert said(plan, PROVISIONED, "default/b") == (
        "False/ClassLimitReached: limits.pods of class train allows 10 in namespace default: 6 are held by open requests, "
        "and this one is for 5; it is tried again later"
    )
    assert not said(plan, FAILED, "default/b")


def test_one_that_is_not_to_be_tried_again_fails_at_once() -> None:
    requests = (request("a", 6), request("b", 5, noRetry="true"))
    plan = world(*requests, classes=(make_class(pods=10),)).plan(**ON)
    assert said(plan, FAILED, "default/b").startswith("True/ClassLimitReached: limits.pods of class train allows 10")


def allocation(held: ProvisioningRequest, nodes: int = 0, *, reason: str = "CapacityIsFound") -> ProvisioningRequest:
    """Room is held for the request, or made where that is the reason."""
    status = "False" if reason == "Provisioning" else "True"
    at = datetime.fromtimestamp(NOW - 30, tz=UTC)
    condition = Condition(type=PROVISIONED, status=status, reason=reason, last_transition_time=at)
    marked = changed(held, status=ProvisioningRequestStatus(conditions=(condition,)))
    return marked.with_details(provisioner=BEST_EFFORT_ATOMIC, nodes=str(nodes))


def test_what_is_held_since_before_counts_and_what_is_over_does_not() -> None:
    ended = allocation(request("old", 9), 9)
    over = ended.with_condition(Condition(type="BookingExpired", status="True"))
    for other, granted in ((ended, False), (over, True)):
        plan = world(other, request("r", 3), classes=(make_class(pods=10),), size=9).plan(**ON)
        assert (said(plan, PROVISIONED).split(":")[0] != "False/ClassLimitReached") == granted


@pytest.mark.parametrize(("held", "granted"), [(6, True), (8, False)])
def test_nodes_that_were_made_for_others_count(held: int, granted: bool) -> None:
    """Those of ``a`` are full of its stand-ins, so that three more are needed."""
    plan = world(allocation(request("a", 9), held), request(), classes=(make_class(nodes=10),), size=9).plan(**ON)
    assert bool(grown(plan)) == granted
    if not granted:
        text = "it takes 3 nodes, and limits.nodes of class train leaves 2 of 10 to namespace default"
        assert text in said(plan, PROVISIONED)


def test_a_group_of_larger_machines_may_fit_under_the_limit_of_nodes() -> None:
    made = world(request(), classes=(make_class(nodes=1),))
    made.add_group("big", 0, cpu="16", hourly_price=9.0)
    assert grown(made.plan(expander="price", **ON)) == {"big": (0, 1)}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (make_class(pods=-1), "limits.pods is -1: it must be 0 or more"),
        (make_class(nodes=-1), "limits.nodes is -1: it must be 0 or more"),
        (make_class(parameters={"noRetry": "maybe"}), "parameter noRetry must be true or false"),
        (
            make_class(namespace_selector=LabelSelector(match_labels={"no key!": "x"})),
            "namespaceSelector is not a valid label",
        ),
    ],
)
def test_a_class_that_is_wrong_keeps_its_requests_waiting_and_no_others(wrong: ProvisioningClass, says: str) -> None:
    made = world(request(), request("other", kind="batch"), classes=(wrong, make_class("batch")))
    plan = made.plan(**ON)
    assert grown(plan) == {"g": (0, 3)}
    assert said(plan, PROVISIONED).startswith(f"False/InvalidClass: ProvisioningClass train cannot be used: {says}")


def test_classes_of_providers_are_asked_under_their_own_name_with_what_is_preset() -> None:
    classes = (make_class("fast", "fast.example.com", parameters={"zone": "a"}, pods=4),)
    made = world(request("a", kind="fast"), request("b", kind="fast", own="1"), classes=classes)
    made.provider = ProviderSeen(name="cloud", provisioning_classes=("fast.example.com",))
    plan = made.plan(**ON)
    (call,) = plan.provisioning.calls
    assert (call.request_class.class_name, call.request_class.parameters) == ("fast.example.com", {"zone": "a"})
    assert said(plan, PROVISIONED, "default/b").startswith("False/ClassLimitReached")


def test_limits_of_nodes_are_not_for_classes_of_providers() -> None:
    made = world(request(kind="fast"), classes=(make_class("fast", "fast.example.com", nodes=4),))
    made.provider = ProviderSeen(name="cloud", provisioning_classes=("fast.example.com",))
    plan = made.plan(**ON)
    assert plan.provisioning.calls == ()
    assert "limits.nodes works only for nodewright's own classes" in said(plan, PROVISIONED)


def test_a_request_comes_to_its_end_also_if_its_class_goes() -> None:
    held = allocation(request("a", 3), 3)
    plan = world(held, request("b"), classes=(make_class("batch"),), size=3).plan(**ON)
    assert plan.provisioning.reserved == {"default/a": 3}
    waiting = held.with_condition(Condition(type=PROVISIONED, status="False", reason="CapacityIsNotFound"))
    told = world(waiting, classes=(make_class("batch"),)).plan(**ON)
    assert said(told, FAILED, "default/a").startswith("True/ClassNotAllowed: there is no ProvisioningClass train")


@given(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["default", "shop"])), max_size=8),
    st.integers(0, 12),
    st.integers(0, 12),
)
def test_never_more_than_a_class_allows(wishes: list[tuple[int, str]], pods: int, nodes: int) -> None:
    requests = [request(f"r{number}", count, namespace=place) for number, (count, place) in enumerate(wishes)]
    plan = world(*requests, classes=(make_class(pods=pods, nodes=nodes),)).plan(**ON)
    written = {write.request.key: write.request for write in plan.provisioning.writes}.values()
    for place in ("default", "shop"):
        granted = [one for one in written if "nodes" in one.own_details and one.metadata.namespace == place]
        assert sum(one.pod_count for one in granted) <= pods
        assert sum(int(one.own_details["nodes"]) for one in granted) <= nodes
    assert len(written) == len(requests)  # each is told how it stands
