"""Measures a simulated cluster as time goes by: samples for the charts, and integrals."""

from collections.abc import Mapping
from typing import Any

from nodewright.adapters.simulated.cluster import SimulatedCluster
from nodewright.adapters.simulated.result import NodeHours, Series
from nodewright.model.group import GroupRef

_HOUR = 3600.0


class Meter:
    """Takes a sample after every change. Amounts between two samples are as at the first."""

    def __init__(self, cluster: SimulatedCluster, start: float, resources: tuple[str, ...]) -> None:
        self.prices: dict[GroupRef, float] = {}
        self._cluster = cluster
        self._resources = resources
        self._machines: Mapping[GroupRef, int] = {}
        self._at = self._start = start
        self._spent = 0.0
        self._used_seconds = 0.0
        self._busy_seconds = 0.0
        self._peaks: dict[str, int] = {}
        self._busy: dict[str, int] = {}
        self._times: list[float] = []
        self._pending: list[int] = []
        self._running: list[int] = []
        self._cost: list[float] = []
        self._nodes: dict[str, list[int]] = {}
        self._shares: dict[str, list[float | None]] = {name: [] for name in resources}

    def advance(self, at: float) -> None:
        """Account for the time up to ``at``, before anything changes there."""
        seconds = max(0.0, at - self._at)
        self._used_seconds += seconds * sum(self._machines.values())
        self._busy_seconds += seconds * sum(self._busy.values())
        rate = sum(count * self.prices.get(ref, 0.0) for ref, count in self._machines.items())
        self._spent += rate * seconds / _HOUR
        self._at = max(self._at, at)

    def sample(self, machines: Mapping[GroupRef, int]) -> None:
        """Note how things are now, after the changes of this moment."""
        self._machines = machines
        self._busy = self._cluster.tally.busy()
        for group, busy in self._busy.items():
            self._peaks[group] = max(busy, self._peaks.get(group, 0))
        if self._times and self._times[-1] == self._at:
            self._drop_last()
        self._times.append(self._at)
        self._pending.append(self._cluster.count_pending())
        self._running.append(self._cluster.tally.pods)
        self._cost.append(self._spent)
        self._sample_nodes()
        self._sample_shares()

    def series(self) -> Series:
        return Series(
            times=tuple(self._times),
            pending=tuple(self._pending),
            running=tuple(self._running),
            nodes={group: tuple(counts) for group, counts in sorted(self._nodes.items())},
            utilisation={name: tuple(shares) for name, shares in self._shares.items() if any(s for s in shares)},
            cost=tuple(self._cost),
        )

    def node_hours(self) -> NodeHours:
        elapsed = self._at - self._start
        return NodeHours(
            used=self._used_seconds / _HOUR,
            busy=self._busy_seconds / _HOUR,
            oracle=sum(self._peaks.values()) * elapsed / _HOUR,
        )

    def cost(self) -> float | None:
        """USD spent; None where no group has a price."""
        return self._spent if self.prices else None

    def _sample_nodes(self) -> None:
        """Every group's list is as long as ``times``; a group that appears starts with zeros."""
        counts = self._cluster.tally.nodes()
        for group in counts.keys() - self._nodes.keys():
            self._nodes[group] = [0] * (len(self._times) - 1)
        for group, held in self._nodes.items():
            held.append(counts.get(group, 0))

    def _sample_shares(self) -> None:
        used, offered = self._cluster.tally.used, self._cluster.tally.offered
        for name, shares in self._shares.items():
            total = offered.get(name, 0)
            shares.append(min(1.0, used.get(name, 0) / total) if total else None)

    def _drop_last(self) -> None:
        series: list[list[Any]] = [self._times, self._pending, self._running, self._cost]
        for values in (*series, *self._nodes.values(), *self._shares.values()):
            values.pop()
