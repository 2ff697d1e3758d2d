"""Groups whose machines start in a capacity reservation alone: how many may still start there."""

from collections.abc import Callable
from typing import Any

import pytest

from awscloud import AwsCloud
from nodewright.spec import ProviderError

Attach = Callable[..., Any]


def test_a_group_grows_no_further_than_its_reservation(cloud: AwsCloud, attach: Attach) -> None:
    name, _ = cloud.reserve(3, size=1)
    stage = attach(f"0:10:{name}")
    assert _most(stage) == [3]
    with pytest.raises(ProviderError, match="4 is above the maximum 3") as raised:
        stage.client.increase_size(name, 1, 4)
    assert raised.value.code == "aboveMaximum"
    stage.client.increase_size(name, 1, 3)
    for seconds in (5, 61):
        stage.later(seconds, name)
        assert _most(stage) == [3]
    assert len(stage.client.instances(name)) == 3


def test_what_others_use_of_a_reservation_is_not_there(cloud: AwsCloud, attach: Attach) -> None:
    name, reservation = cloud.reserve(3)
    stage = attach(f"0:10:{name}")
    cloud.reservations[reservation].total = 1
    stage.later(61)
    assert _most(stage) == [1]
    cloud.reservations[reservation].total = 0
    stage.later(61)
    assert _most(stage) == [0]


def test_a_size_that_was_asked_for_is_not_above_the_maximum(cloud: AwsCloud, attach: Attach) -> None:
    name, reservation = cloud.reserve(3)
    cloud.hold(name)
    stage = attach(f"0:10:{name}")
    stage.client.increase_size(name, 0, 3)
    cloud.reservations[reservation].total = 1
    stage.later(61)
    assert _most(stage) == [3]


@pytest.mark.parametrize("state", ["scheduled", "payment-pending", "expired", "cancelled"])
def test_a_reservation_that_is_not_active_has_no_room(cloud: AwsCloud, attach: Attach, state: str) -> None:
    name, _ = cloud.reserve(3, state=state)
    assert _most(attach(f"0:10:{name}")) == [0]


def test_a_capacity_block_has_no_room_when_aws_ends_its_machines(cloud: AwsCloud, attach: Attach) -> None:
    """AWS terminates them half an hour before the block ends."""
    name, reservation = cloud.reserve(3)
    stage = attach(f"0:10:{name}")
    cloud.reservations[reservation].ends_at = stage.clock.now() + 3600
    stage.later(61)
    assert _most(stage) == [3]
    stage.later(1800)
    assert _most(stage) == [0]


def test_without_the_permission_the_maximum_is_that_of_the_group(cloud: AwsCloud, attach: Attach) -> None:
    cloud.deny("DescribeCapacityReservations")
    name, _ = cloud.reserve(3)
    stage = attach(f"0:10:{name}")
    assert _most(stage) == [10]
    [said] = [one for one in stage.client.diagnose() if one.subject == "ec2:DescribeCapacityReservations"]
    assert "free room" in said.message


def test_a_reservation_that_does_not_exist_harms_no_other(cloud: AwsCloud, attach: Attach) -> None:
    gone, reservation = cloud.reserve(3)
    del cloud.reservations[reservation]
    name, _ = cloud.reserve(3)
    assert _most(attach(f"0:10:{gone}", f"0:10:{name}")) == [10, 3]


def test_reservations_are_read_once_a_minute_and_only_if_they_are_used(cloud: AwsCloud, attach: Attach) -> None:
    plain = cloud.add_group()
    stage = attach(f"0:10:{plain}")
    assert cloud.calls["DescribeCapacityReservations"] == 0
    name, _ = cloud.reserve(3)
    stage = attach(f"0:10:{name}")
    for _ in range(5):
        stage.later(10, name)
    assert cloud.calls["DescribeCapacityReservations"] == 1


def _most(stage: Any) -> list[int]:
    return [group.max_size for group in stage.client.node_groups()]
