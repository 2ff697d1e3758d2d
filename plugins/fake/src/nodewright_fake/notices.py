"""Notices of interruptions: which machines the fake cloud is about to take, and whether it says so."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nodewright.spec import FailureScope, Interruption, InterruptionKind
from nodewright_fake.options import Interrupt


@dataclass
class Notices:
    """Every notice so far, and when its machine is taken.

    ``taken_at`` is by instance id (epoch seconds). ``given`` counts the notices that were delivered, in any process.
    """

    taken_at: dict[str, float] = field(default_factory=dict)
    given: int = 0
    _open: dict[str, Interruption] = field(default_factory=dict)
    _ends: dict[str, float] = field(default_factory=dict)

    def add(self, rule: Interrupt, instance_ids: Iterable[str], now: float) -> None:
        """Give notice of these machines, as the rule says."""
        kind, end = InterruptionKind(rule.kind), now + rule.notice
        is_taken = kind in (InterruptionKind.RECLAIM, InterruptionKind.MAINTENANCE) and not rule.false_alarm
        scope = FailureScope(rule.scope) if rule.scope else None
        has_deadline = kind in (InterruptionKind.RECLAIM, InterruptionKind.MAINTENANCE)
        for instance_id in instance_ids:
            if is_taken:
                self.taken_at[instance_id] = end
            for copy in range(0 if rule.undelivered else 2 if rule.duplicated else 1):
                notice = Interruption(
                    id=f"{kind}-{instance_id.rpartition('/')[2]}@{now:g}-{copy}",
                    instance_id=instance_id,
                    kind=kind,
                    deadline=end if has_deadline else None,
                    scope=scope,
                )
                self._open[notice.id] = notice
                self.given += 1
                if rule.false_alarm:
                    self._ends[notice.id] = end

    def pop_due(self, now: float) -> Iterator[str]:
        """Yield the machines that are taken by ``now``, and take back false notices."""
        for instance_id in [name for name, at in self.taken_at.items() if at <= now]:
            del self.taken_at[instance_id]
            yield instance_id
        for notice_id in [name for name, at in self._ends.items() if at <= now]:
            del self._ends[notice_id]
            self._open.pop(notice_id, None)

    def next_due(self) -> float:
        """Return when the next machine is taken or a notice is taken back (epoch seconds; inf: never)."""
        return min((*self.taken_at.values(), *self._ends.values()), default=float("inf"))

    def about(self, existing: frozenset[str]) -> tuple[Interruption, ...]:
        """Return the notices about machines that exist; forget the others."""
        self._open = {key: notice for key, notice in self._open.items() if notice.instance_id in existing}
        return tuple(self._open.values())
