"""What machines of groups cost in an hour. Machines that are paid already cost nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nodewright.model.group import GroupRef
from nodewright.snapshot.observation import GroupSeen


@dataclass(frozen=True, kw_only=True)
class HourlyCost:
    """What machines cost, in USD an hour, by group. ``unpriced`` groups have machines and no price; they are not counted."""

    by_group: Mapping[GroupRef, float]
    unpriced: tuple[GroupRef, ...] = ()

    @property
    def total(self) -> float:
        return sum(self.by_group.values())


def hourly_cost(
    groups: Iterable[GroupSeen], sizes: Mapping[GroupRef, int], unused: Mapping[str, int] | None = None
) -> HourlyCost:
    """Return what these numbers of machines of each group cost.

    Machines that are paid already cost nothing, up to their count: by name that of ``unused``, or all of them.
    """
    found, unpriced, paid = dict[GroupRef, float](), list[GroupRef](), dict(unused or {})
    for seen in groups:
        count = sizes.get(seen.ref, 0)
        if seen.hourly_price is None:
            unpriced += [seen.ref] if count else []
            continue
        free = 0
        if seen.reserved is not None:
            left = paid.setdefault(seen.reserved.name, seen.reserved.count)
            free = min(count, left)
            paid[seen.reserved.name] = left - free
        found[seen.ref] = (count - free) * seen.hourly_price
    return HourlyCost(by_group=found, unpriced=tuple(unpriced))
