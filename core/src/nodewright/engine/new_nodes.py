"""Loops that look soon at what kube-scheduler does with machines that pods waited for.

kube-scheduler may place pods otherwise than was planned, so that one of them is left without room.
"""

import math
import threading
from collections.abc import Callable

from nodewright.engine.report import LoopReport

# Seconds after which loops look again while pods are not bound.
_LOOKS = (1.0, 3.0, 7.0, 15.0)


class NodesReadyAlarm:
    """Rings when all machines that pods wait for are Ready: the next loop need not wait for the scan interval.

    For any thread: the loop calls ``begin`` and ``expect``, the watch of nodes ``see_ready``.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        # How many machines must become Ready; infinity: no pod waits for any.
        self._awaited = math.inf
        # How many nodes became Ready since the last loop began to read.
        self._came = 0

    def begin(self) -> None:
        """Count anew from here on: the loop that begins reads which nodes are Ready."""
        with self._lock:
            self._came = 0

    def expect(self, report: LoopReport) -> None:
        """Take over from a loop how many machines are on their way to pods."""
        with self._lock:
            self._awaited = report.awaited_machines or math.inf
        self._check()

    def see_ready(self) -> None:
        """Record that a node became Ready."""
        with self._lock:
            self._came += 1
        self._check()

    def _check(self) -> None:
        with self._lock:
            if self._came < self._awaited:
                return
            self._awaited = math.inf
        self._ring()


class PlacementLooks:
    """When further loops look whether kube-scheduler leaves a pod, after all machines that pods waited for came.

    The pauses between them double up to the scan interval: pods that kube-scheduler never binds start four loops at most.
    """

    def __init__(self) -> None:
        # Whether machines were awaited after the last loop; when loops are still to look.
        self._awaits = False
        self._looks: list[float] = []

    def next_at(self, report: LoopReport, scan_interval: float) -> float:
        """Return when to look next (epoch seconds); infinity: the next scan comes early enough."""
        came = self._awaits and not report.upcoming_machines
        self._awaits = report.awaited_machines > 0
        if not report.binds_pods:
            self._looks = []
        elif came:
            self._looks = [report.finished + after for after in _LOOKS if after < scan_interval]
        self._looks = [at for at in self._looks if at > report.finished]
        return min(self._looks, default=math.inf)
