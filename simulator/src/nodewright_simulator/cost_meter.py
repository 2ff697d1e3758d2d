"""What the machines of a simulation cost as time goes by, beside the least that they could cost for the pods."""

from collections.abc import Mapping

from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.settings import Settings
from nodewright.planner.cost import cluster_bound
from nodewright.snapshot.observation import GroupSeen, hourly_cost
from nodewright_simulator.result import LeastCost

_HOUR = 3600.0
# A bound stays in use for this part of the time since the start before it is computed again.
_BOUND_SHARE = 1 / 200


class CostMeter:
    """``spent`` is USD so far, ``rate`` USD an hour, ``bound`` the least USD an hour for the pods that the engine saw.

    ``bound`` is None while it is not known. Machines that are paid already cost nothing, up to their count.
    """

    def __init__(self, start: float) -> None:
        self.spent = 0.0
        self.rate = 0.0
        self.bound: float | None = None
        self._start = start
        self._bound_at: float | None = None
        self._groups = dict[GroupRef, GroupSeen]()
        self._machines: Mapping[GroupRef, int] = {}
        # USD that the bound sums up to, and what was spent while there was one.
        self._least = 0.0
        self._beside_least = 0.0

    @property
    def has_prices(self) -> bool:
        return any(seen.price is not None for seen in self._groups.values())

    @property
    def sources(self) -> tuple[str, ...]:
        """Return where the prices come from, each source once."""
        return tuple(sorted({seen.price.source for seen in self._groups.values() if seen.price is not None}))

    @property
    def least(self) -> LeastCost | None:
        """Return what the run would have cost by the bound; None: it was never known, or there was nothing to pay for."""
        return LeastCost(self._least, self._beside_least / self._least) if self._least else None

    def look(self, state: ClusterState, settings: Settings) -> None:
        """Take prices and pods from what the engine saw. Recompute the bound after a small part of the run's time."""
        self._groups |= state.observation.groups
        self._update_rate()
        since = state.now - (self._start if self._bound_at is None else self._bound_at)
        if self.has_prices and (self._bound_at is None or since >= _BOUND_SHARE * (state.now - self._start)):
            self.bound, self._bound_at = cluster_bound(state, settings), state.now

    def use(self, machines: Mapping[GroupRef, int]) -> None:
        """Pay for these numbers of machines of each group from now on."""
        self._machines = machines
        self._update_rate()

    def advance(self, seconds: float) -> None:
        """Charge the running machines for so many seconds."""
        self.spent += self.rate * seconds / _HOUR
        if self.bound is not None:
            self._least += self.bound * seconds / _HOUR
            self._beside_least += self.rate * seconds / _HOUR

    def _update_rate(self) -> None:
        self.rate = hourly_cost(self._groups.values(), self._machines).total
