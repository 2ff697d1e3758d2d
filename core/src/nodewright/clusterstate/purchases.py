"""Purchases: for which pods each group grew, and machines that did not take them (docs/adr/0027-vain-purchases.md)."""

from collections.abc import Iterable, Mapping

from msgspec.structs import replace as changed

from nodewright.clusterstate.memory import Purchase, Purchases
from nodewright.model.group import GroupRef

# Seconds for which a group is not grown for pods that its nodes did not take: the first time, the second, later.
PAUSES = (3600.0, 8 * 3600.0, 24 * 3600.0)
DAY = 24 * 3600.0

# A loop counts if it asks for machines which pods of one kind cannot use. It asks for at most one machine for each pod.
# After this many such loops within a day, only groups are asked that have a node which takes such pods, or a new description.
MOST_MISFITS = 3
# After this many, a new description does not suffice.
MOST_WITH_EVIDENCE = 4
# The most kinds of pods that are remembered for one group.
_MOST_KINDS = 100


def with_asked(held: Purchases, bought: Iterable[tuple[GroupRef, str]], now: float) -> Purchases:
    """Return the purchases after these were made."""
    found = {ref: dict(kinds) for ref, kinds in held.items()}
    for ref, kind in bought:
        kinds = found.setdefault(ref, {})
        kinds[kind] = changed(kinds.get(kind, Purchase()), asked=now)
    return {ref: _newest(dict(sorted(kinds.items()))) for ref, kinds in found.items()}


def after_misfit(held: Purchase, reason: str, now: float) -> Purchase:
    """Return the purchase after a machine came that does not take its pods."""
    misfits = (*(at for at in held.misfits if at + DAY + PAUSES[-1] > now), held.asked)
    pause = PAUSES[min(len(misfits), len(PAUSES)) - 1]
    return Purchase(misfits=misfits, until=now + pause, reason=reason)


def recent_misfits(held: Purchases, kind: str, now: float) -> tuple[float, ...]:
    """Return when loops of the last day asked for machines that pods of this kind cannot use, oldest first.

    Machines that one loop asked of several groups are for different pods: they count once.
    """
    known = (kinds[kind] for kinds in held.values() if kind in kinds)
    return tuple(sorted({at for purchase in known for at in purchase.misfits if at + DAY > now}))


def asked_since(held: Purchases, ref: GroupRef) -> float:
    """Return when the oldest awaited purchase of a group was made; infinity if there is none."""
    return min((purchase.asked for purchase in held.get(ref, {}).values() if purchase.asked), default=float("inf"))


def without_old(held: Purchases, now: float) -> Purchases:
    """Return the purchases without those that are older than a day."""
    found = {ref: {kind: one for kind, one in kinds.items() if _counts(one, now)} for ref, kinds in held.items()}
    return {ref: kinds for ref, kinds in found.items() if kinds}


def purchase_no_later(held: Purchase, now: float) -> Purchase:
    """Return the purchase with times no later than now."""
    longest = PAUSES[min(max(1, len(held.misfits)), len(PAUSES)) - 1]
    return Purchase(
        asked=min(held.asked, now),
        misfits=tuple(min(at, now) for at in held.misfits),
        until=min(held.until, now + longest),
        reason=held.reason,
    )


def _counts(held: Purchase, now: float) -> bool:
    return any(at + DAY > now for at in (held.asked, held.until, *held.misfits))


def _newest(kinds: Mapping[str, Purchase]) -> Mapping[str, Purchase]:
    if len(kinds) <= _MOST_KINDS:
        return kinds
    last = sorted(kinds, key=lambda kind: max(kinds[kind].asked, kinds[kind].until))
    return {kind: kinds[kind] for kind in last[-_MOST_KINDS:]}
