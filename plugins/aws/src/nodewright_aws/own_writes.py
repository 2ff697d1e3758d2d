"""Our own writes that AWS's listings may not show yet: they are remembered for as long as listings may lag.

Reads of Auto Scaling are eventually consistent: some seconds after a write a listing may still have the group as it was
before, even after another listing has shown the write. Without this memory the missing machines would be asked for a second time.
Source: "Eventual consistency in the Amazon EC2 API" and "Troubleshoot Amazon EC2 Auto Scaling" in AWS's documentation.
"""

import msgspec

from nodewright.spec import Clock
from nodewright_aws.shapes import Group

# No terminated instance is shown for so long.
_REMEMBERED_SECONDS = 60.0
# After so many seconds a listing with a former size is believed: another writer may have set it. Listings lagged up to 25 s.
SETTLING_SECONDS = 30.0


class _Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size that the group has, as far as we know, and those that it had before while listings may lag."""

    current: int
    former: frozenset[int]
    written_at: float


class OwnWrites:
    """What we wrote, by group. ``apply`` corrects a group that was read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sizes: dict[str, _Size] = {}
        self._ended: dict[str, float] = {}
        self._hidden: set[str] = set()

    def is_hidden(self, name: str) -> bool:
        """Return whether the last listing of the group showed a former size in the place of ours.

        It lags, or another writer has set that size again.
        """
        return name in self._hidden

    def note_size(self, name: str, before: int, written: int) -> None:
        """Note that we changed the size of a group."""
        now = self._clock.now()
        held = self._sizes.get(name)
        former = {before} | (held.former if held is not None and now < held.written_at + SETTLING_SECONDS else set())
        self._sizes[name] = _Size(current=written, former=frozenset(former - {written}), written_at=now)

    def note_ended(self, instance_ids: frozenset[str]) -> None:
        """Note that we terminated instances. No instance comes back."""
        now = self._clock.now()
        self._ended = {one: until for one, until in self._ended.items() if now < until}
        self._ended |= dict.fromkeys(instance_ids, now + _REMEMBERED_SECONDS)

    def apply(self, group: Group) -> Group:
        """Return the group with our writes. A size that is neither ours nor a former one is another writer's."""
        now = self._clock.now()
        ended = frozenset(one.instance_id for one in group.living if now < self._ended.get(one.instance_id, 0))
        if ended:
            group = with_ended(group, ended)
        held, listed = self._sizes.get(group.name), group.desired_capacity
        self._hidden.discard(group.name)
        if held is None or listed == held.current:
            return group
        if now >= held.written_at + SETTLING_SECONDS:
            del self._sizes[group.name]
            return group
        if listed in held.former:
            self._hidden.add(group.name)
            return msgspec.structs.replace(group, desired_capacity=held.current)
        former = held.former | {held.current}
        self._sizes[group.name] = msgspec.structs.replace(held, current=listed, former=former)
        return group


def with_ended(group: Group, instance_ids: frozenset[str]) -> Group:
    """Return the group as AWS will report it once these instances are being terminated, with its size unchanged."""
    instances = tuple(
        msgspec.structs.replace(one, lifecycle_state="Terminating") if one.instance_id in instance_ids else one
        for one in group.instances
    )
    return msgspec.structs.replace(group, instances=instances)
