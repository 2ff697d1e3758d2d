"""Requests are deleted a week after they ended; requests that have not ended are kept."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from nodewright.model.meta import Condition, ObjectMeta
from nodewright.model.provisioning_request import (
    CHECK_CAPACITY,
    FAILED,
    PROVISIONED,
    PodSet,
    ProvisioningRequest,
    ProvisioningRequestSpec,
    TemplateReference,
)
from nodewright.planner.provisioning_requests.pods import expire_requests
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState
from nodewright.testkit.world import NOW, World, settings_with

DAY = 86_400.0


def request_with(kind: str, *said: tuple[str, str, float]) -> ProvisioningRequest:
    """Ten days old, with conditions: type, status and age in days."""
    conditions = tuple(
        Condition(type=name, status=status, reason="Any", last_transition_time=_days_ago(age))
        for name, status, age in said
    )
    pod_set = PodSet(pod_template_ref=TemplateReference(name="one"), count=1)
    made = ProvisioningRequest(
        metadata=ObjectMeta(name="a", namespace="default", uid="a", creation_timestamp=_days_ago(10)),
        spec=ProvisioningRequestSpec(provisioning_class_name=kind, pod_sets=(pod_set,)),
    )
    return replace(made, status=replace(made.status, conditions=conditions))


def kept(request: ProvisioningRequest, profile: str = "nodewright") -> tuple[bool, bool]:
    """Is it still there after one look, and has it failed?"""
    settings = settings_with(enable_provisioning_requests=True, profile=profile)
    requests = ProvisioningRequestState.of(World(requests=[request]).state(settings), settings.requests)
    changes = expire_requests(requests)
    held = requests.apply(changes).requests.get(request.key)
    return held is not None and not changes.expired, held is not None and held.has(FAILED)


def test_what_was_tried_in_vain_for_a_week_is_told_so_and_kept() -> None:
    assert kept(request_with(CHECK_CAPACITY, (PROVISIONED, "False", 10))) == (True, True)


@pytest.mark.parametrize(("since", "is_kept"), [(6.9, True), (7.1, False)])
def test_the_week_begins_with_the_end(since: float, is_kept: bool) -> None:
    said = request_with(CHECK_CAPACITY, (PROVISIONED, "False", 10), (FAILED, "True", since))
    assert kept(said)[0] == is_kept


@pytest.mark.parametrize(("status", "is_kept"), [("False", True), ("True", False)])
def test_of_other_classes_only_what_is_over_goes(status: str, is_kept: bool) -> None:
    assert kept(request_with("elsewhere.example.com", (PROVISIONED, status, 8)))[0] == is_kept


def test_ca_goes_by_the_age_of_either_condition() -> None:
    assert kept(request_with("elsewhere.example.com", (PROVISIONED, "False", 8)), profile="ca")[0] is False


def _days_ago(days: float) -> datetime:
    return datetime.fromtimestamp(NOW - days * DAY, tz=UTC)
