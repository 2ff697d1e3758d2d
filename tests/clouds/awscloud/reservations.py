"""Capacity reservations, which moto lacks: how many machines each is for, and how many may still start in it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from awscloud.listing import moment
from awscloud.proxy import Answer, refuse


@dataclass
class Reservation:
    """``group`` is the only one whose machines are in it. ``ends_at`` (epoch seconds) makes it a capacity block; None: it does not end."""

    group: str
    total: int
    state: str = "active"
    ends_at: float | None = None


def write_reservations(
    form: Mapping[str, str], reservations: Mapping[str, Reservation], living: Callable[[str], int]
) -> Answer:
    """DescribeCapacityReservations by id. AWS refuses the whole call if one of them does not exist."""
    wanted = [value for name, value in form.items() if name.startswith("CapacityReservationId.")]
    missing = next((one for one in wanted if one not in reservations), None)
    if missing is not None:
        code = "InvalidCapacityReservationId.NotFound"
        return refuse(code, f"The capacity reservation '{missing}' does not exist.")
    items = "".join(_write(one, reservations[one], living(reservations[one].group)) for one in wanted)
    text = f"<DescribeCapacityReservationsResponse><capacityReservationSet>{items}</capacityReservationSet></DescribeCapacityReservationsResponse>"
    return Answer(200, text.encode(), {"Content-Type": "text/xml"})


def _write(name: str, one: Reservation, living: int) -> str:
    kind = "default" if one.ends_at is None else "capacity-block"
    ends = "" if one.ends_at is None else f"<endDate>{moment(one.ends_at)}</endDate>"
    members = {
        "capacityReservationId": name,
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "totalInstanceCount": one.total,
        "availableInstanceCount": max(0, one.total - living) if one.state == "active" else 0,
        "state": one.state,
        "reservationType": kind,
        "instanceMatchCriteria": "targeted",
    }
    return f"<item>{''.join(f'<{key}>{value}</{key}>' for key, value in members.items())}{ends}</item>"
