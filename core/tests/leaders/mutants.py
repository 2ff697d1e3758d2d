"""Replicas without one of the rules that prevent two leaders."""

import math
from dataclasses import replace
from typing import Any

from core.tests.leaders.replica import Replica

from nodewright.adapters.kube.api import Api
from nodewright.adapters.kube.lease import Leadership
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.clusterstate.memory import Memory
from nodewright.engine.ports import Loaded
from nodewright.model.write_fence import WriteFence


class WithoutLeaseCheck(Replica):
    """It looks at its lease between two loops, and not before each write."""

    def _make_gate(self) -> WriteFence:
        return WriteFence(self._stage.now, lambda: math.inf)

    def _guarded(self, line: Api) -> Api:
        return line


class WithoutCloudCheck(Replica):
    """Its writes to the API server are checked, those to clouds are not."""

    def _make_gate(self) -> WriteFence:
        return WriteFence(self._stage.now, lambda: math.inf)


class WithoutHold(Replica):
    """It does not look what its predecessor may have under way."""

    def _make_store(self, store: ConfigMapStore) -> Any:
        return _Filtered(store, loads=False)


class WithoutIntent(Replica):
    """It does not save what it is about to write."""

    def _make_store(self, store: ConfigMapStore) -> Any:
        return _Filtered(store, saves=False)


class WithoutDeadline(Replica):
    """A write may start however long ago it was saved that it is about to."""

    def _make_gate(self) -> WriteFence:
        return WriteFence(float, self.lease.remaining)


class RenewsLate(Replica):
    """It renews a lease that has run out, as long as the lease names it: no replica took it, or an editor put the name back."""

    def _make_lease(self) -> Leadership:
        lease: Any = super()._make_lease()
        lease._is_late = lambda: False
        found: Leadership = lease
        return found


class TrustsEmptyLeases(Replica):
    """A lease without a holder is free, no matter who removed the name."""

    def _make_lease(self) -> Leadership:
        lease: Any = super()._make_lease()
        has_run_out = lease._has_run_out
        lease._has_run_out = lambda seen, now: (
            (seen is not None and not seen.spec.holder_identity) or has_run_out(seen, now)
        )
        found: Leadership = lease
        return found


class TakesMissingLeases(Replica):
    """A lease that is not there, and that it has never seen, is free."""

    def _make_lease(self) -> Leadership:
        lease: Any = super()._make_lease()
        lease._options = replace(lease._options, is_first=lambda: True)
        found: Leadership = lease
        return found


class _Filtered:
    """A store that leaves writes under way out of what it loads or saves."""

    def __init__(self, store: ConfigMapStore, *, loads: bool = True, saves: bool = True) -> None:
        self._store, self._loads, self._saves = store, loads, saves
        self.load_pause = store.load_pause

    def load(self) -> Loaded:
        found = self._store.load()
        return found if self._loads else replace(found, memory=_without(found.memory))

    def save_if_changed(self, memory: Memory) -> None:
        self._store.save_if_changed(memory if self._saves else _without(memory))


def _without(memory: Memory) -> Memory:
    return replace(memory, writes_in_flight={})
