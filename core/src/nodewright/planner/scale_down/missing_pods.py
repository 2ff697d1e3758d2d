"""Find pods that controllers count as ready but the API server does not list: its answer is empty, partial or old.

The controller manager writes the status of controllers from its own caches. So the status shows that a list of pods is
wrong even right after a restart, when no earlier list is remembered.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

from nodewright.clusterstate.state import ClusterState
from nodewright.model.cluster import DaemonSet, Job
from nodewright.model.plan import ScaleDownReport
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleDownResult, Unremovable, UnremovableCode
from nodewright.snapshot.context import Controller, Workloads
from nodewright.snapshot.snapshot import Snapshot

# A status follows the pods within seconds. Up to this share of the pods may be missing for that reason; if more are missing,
# the list is wrong.
_TOLERATED_SHARE = 0.1
# Seconds for which a node that looks empty stays because a controller lacks pods, if the list as a whole is right.
_DOUBT_SECONDS = 900.0
_JOB_CONTROLLER = "kubernetes.io/job-controller"
_KEY = "controllers of pods"


@dataclass(frozen=True, kw_only=True)
class MissingPods:
    """``ready`` pods that controllers count together, and how many of them are listed on no node, by controller.

    A controller is named by its kind and ``namespace/name``.
    """

    ready: int = 0
    by_controller: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_list_wrong(self) -> bool:
        """Return whether more pods are missing than late statuses explain."""
        return sum(self.by_controller.values()) > _TOLERATED_SHARE * self.ready

    def __str__(self) -> str:
        """Return how the list contradicts the controllers, and when that ends."""
        name, missing = max(self.by_controller.items(), key=lambda item: item[1], default=("", 0))
        return (
            f"the API server's list of pods lacks {sum(self.by_controller.values())} of {self.ready} pods that their controllers "
            f"count as ready, for example {missing} of {name}; until they agree, nodes that look empty may run these pods"
        )


class CachedPods(NamedTuple):
    """The pods that were read last, and the missing ones."""

    snapshot: Snapshot
    missing: MissingPods

    @staticmethod
    def of(snapshot: Snapshot, workloads: Workloads) -> "CachedPods":
        return CachedPods(snapshot, find_missing_pods(snapshot, workloads))

    def staying_on(self, node: str) -> tuple[Pod, ...]:
        """Return the pods on a node that do not terminate."""
        row = self.snapshot.find_row(node)
        pods = self.snapshot.pods(row) if row is not None else ()
        return tuple(pod for pod in pods if pod.metadata.deletion_timestamp is None)


class Doubt(NamedTuple):
    """Doubt about a node that looks empty: it may run pods that no list shows.

    They would be pods of ``controllers``: those that have lacked pods at each look ``since`` then (epoch seconds).
    ``is_list_wrong``: at the last look far more pods were missing than late statuses explain.
    """

    since: float
    controllers: frozenset[str]
    is_list_wrong: bool

    def holds(self, now: float) -> bool:
        """Return whether the node must stay. If the list is right, a wrong status of controllers holds it only for a while."""
        return self.is_list_wrong or (bool(self.controllers) and not self.is_old(now))

    def is_old(self, now: float) -> bool:
        """Return whether the doubt has held the node for so long that no late status or cache explains it."""
        return now >= self.since + _DOUBT_SECONDS


def doubt_after(before: Doubt | None, missing: MissingPods, now: float) -> Doubt:
    """Return the doubt about a node after one more look at its pods and at all controllers.

    A controller that lacked no pods at one of the looks has no hidden pods on the node.
    """
    lacking = frozenset(missing.by_controller)
    if before is None or before.is_list_wrong:
        return Doubt(now, lacking, missing.is_list_wrong)
    return Doubt(before.since, before.controllers & lacking, missing.is_list_wrong)


def find_missing_pods(snapshot: Snapshot, workloads: Workloads) -> MissingPods:
    """Compare the pods on nodes with what the status of their controllers counts."""
    counted = [(one, count) for one in (workloads.controllers or {}).values() if (count := _count_ready(one))]
    if not counted:
        return MissingPods()
    rows = [row for row, _ in snapshot.nodes()]
    listed = Counter(chain.from_iterable(snapshot.of_pods(_KEY, rows, _find_owners)))
    missing = {_name(one): count - listed[one.metadata.uid] for one, count in counted}
    return MissingPods(
        ready=sum(count for _, count in counted),
        by_controller={name: lost for name, lost in missing.items() if lost > 0},
    )


def hold_if_pods_are_missing(report: ScaleDownReport, state: ClusterState) -> ScaleDownReport:
    """Return the report without removals if the list of pods is wrong, until the list or the status of controllers changes."""
    seen = state.observation
    if not report.removals:
        return report
    missing = find_missing_pods(seen.snapshot, seen.workloads)
    if not missing.is_list_wrong:
        return report
    why = Unremovable(code=UnremovableCode.PODS_MISSING, message=str(missing))
    held = {removal.node: why for removal in report.removals}
    return replace(
        report,
        result=ScaleDownResult.NO_NODE_DELETED,
        removals=(),
        passed_over={**report.passed_over, **held},
        next_change=state.now,
        missing_pods=str(missing),
    )


def _count_ready(controller: Controller) -> int:
    """Return how many ready pods the controller counts; 0 where another controller writes its status."""
    if isinstance(controller, DaemonSet):
        return controller.status.number_ready
    if isinstance(controller, Job):
        return controller.status.ready if controller.spec.managed_by in (None, _JOB_CONTROLLER) else 0
    return controller.status.ready_replicas


def _name(controller: Controller) -> str:
    return f"{type(controller).__name__} {controller.key}"


def _find_owners(pods: Iterable[Pod]) -> Sequence[str]:
    """Return the uid of the controller of each pod that has one."""
    return tuple(owner.uid for pod in pods if (owner := pod.metadata.controller) is not None)
