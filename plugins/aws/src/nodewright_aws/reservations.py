"""How many machines may still start in the capacity reservations in which alone some groups start them.

What is left in a reservation is the limit of its groups: an increase beyond fails. Capacity blocks are reservations that end at
a fixed time, and EC2 terminates their instances half an hour before. Source: "Capacity Blocks for ML" in AWS's documentation.
"""

from collections.abc import Iterable, Mapping

from nodewright.spec import Clock, ProviderError
from nodewright.spec.cache import attempt_each
from nodewright_aws.api import Api
from nodewright_aws.catalogue import Launch
from nodewright_aws.options import Options
from nodewright_aws.shapes import CapacityReservation, Group

_BLOCK = "capacity-block"
_BLOCK_ENDS_EARLIER = 1800.0


class Reservations:
    """The limits of groups by their reservations. Only reservations that are named by their id are read, no groups of them."""

    def __init__(self, api: Api, options: Options, clock: Clock) -> None:
        self._api = api
        self._options = options
        self._clock = clock
        self._limits: dict[str, int] = {}
        self._read_for: frozenset[str] = frozenset()
        self._read_at = float("-inf")

    def refresh(self, launched: Iterable[tuple[Group, Launch]]) -> None:
        """Read the reservations once in a refresh interval. Raise nothing: where one cannot be read there is no limit."""
        groups = {group.name: (group, launch.reserved_in) for group, launch in launched if _is_id(launch.reserved_in)}
        is_old = self._clock.now() - self._read_at >= self._options.refresh_interval
        if not is_old and groups.keys() <= self._read_for:
            return
        self._read_at, self._read_for = self._clock.now(), frozenset(groups)
        names = sorted({reservation for _, reservation in groups.values()})
        answers = attempt_each(self._api.capacity_reservation, names, self._options.parallel_calls) if names else []
        known = {
            name: answer for name, answer in zip(names, answers, strict=True) if not isinstance(answer, ProviderError)
        }
        self._limits = dict(self._find_limits(groups, known))

    def most(self, group: Group) -> int | None:
        """Return the most machines that the group can have; None: no reservation limits it, or it is not known.

        It is never less than what was requested already: AWS reports a launch that fails.
        """
        limit = self._limits.get(group.name)
        return None if limit is None else max(limit, group.desired_capacity)

    def _find_limits(
        self, groups: Mapping[str, tuple[Group, str]], known: Mapping[str, CapacityReservation]
    ) -> Iterable[tuple[str, int]]:
        now = self._api.server_time()
        for name, (group, reservation) in groups.items():
            if reservation in known:
                yield name, len(group.living) + _room(known[reservation], now)


def _is_id(reservation: str) -> bool:
    return reservation.startswith("cr-")


def _room(one: CapacityReservation, now: float) -> int:
    """Return how many machines may still start in the reservation. ``now`` is of AWS's clock."""
    ends = one.end_date.timestamp() if one.end_date is not None and one.reservation_type == _BLOCK else float("inf")
    if one.state != "active" or now >= ends - _BLOCK_ENDS_EARLIER:
        return 0
    return one.available_instance_count
