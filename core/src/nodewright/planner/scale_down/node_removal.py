"""One candidate after the other taken out of a simulated cluster, or left in it.

What was found out in the last loop mostly holds in the next. So a run of nodes that could go then is looked at ahead: if
all their pods have room together where the last loop had them, none of these nodes is searched for places, and all leave
the picture at once. Where all have room together, each has in its turn: the result is the same.


Which candidates could go, one after the other, each as if those before it were gone (behaviour/down.md A3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile

import numpy as np

from nodewright.clusterstate.memory import ScaleDownMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.limits import IsOver
from nodewright.model.pod import Pod
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.capacity_buffers.pods import is_virtual
from nodewright.planner.scale_down.drainability import DrainabilityCache, DrainabilityRules, evaluate_subset
from nodewright.planner.scale_down.limits import is_atomic
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.planner.scale_down.pod_index import PodSubset, is_being_replaced
from nodewright.planner.scale_down.simulation import DrainSimulation, HintedNode
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.snapshot import Snapshot

# So many nodes are looked at ahead; what has changed for one costs these their ease.
LOOK_AHEAD = 64
# So many searches for places may fail in one loop, long before time is up: pods that wait are not to wait for these.
_MOST_FAILURES = 500
_NOT_EXAMINED = Unremovable(
    code=UnremovableCode.NOT_EXAMINED, message="as many nodes as are looked at in one loop came before it"
)
_NONE_AT_A_TIME = Unremovable(
    code=UnremovableCode.SWITCHED_OFF, message="no node is removed while --max-scale-down-parallelism is 0"
)
_NO_TIME = Unremovable(
    code=UnremovableCode.NOT_EXAMINED,
    message="time was up (--scale-down-simulation-timeout) before its turn came: it is looked at in the next loop",
)


@dataclass(frozen=True, kw_only=True)
class RemovableNode:
    """A node that could go now: the pods to move and those to wait for first.

    ``places`` are the nodes that take those to move, once the node is chosen; empty for a pod that needs none.
    ``risky`` says that its pods may not all go at the same time.
    """

    name: str
    moving: PodSubset
    places: tuple[str, ...] = ()
    awaited: tuple[Pod, ...] = ()
    risky: bool = False


@dataclass(kw_only=True)
class SimulatedRemovals:
    """What became of each candidate; ``skipped`` were not looked at for the number of others, or for lack of time:
    ``partial`` says so.
    """

    removable: list[RemovableNode] = field(default_factory=list)
    unremovable: dict[str, Unremovable] = field(default_factory=dict)
    skipped: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)
    partial: str = ""


def simulate_removals(
    snapshot: Snapshot,
    names: Sequence[str],
    hints: PodPlaces,
    state: ClusterState,
    settings: Settings,
    is_over: IsOver,
) -> SimulatedRemovals:
    """Try to empty the named nodes in order; pods may go to all others that take any, those with ``hints`` there first.

    When time ``is_over``, the first is looked at all the same. ``snapshot`` stays as it is.
    """
    found = SimulatedRemovals()
    if not names:
        return found
    simulation = DrainSimulation(snapshot.fork(), destination_rows(snapshot, state), hints, state.now)
    simulator = RemovalSimulator(simulation, state, settings)
    most, counted, failed = most_removable(state.memory.scale_down, settings, state.now), 0, 0
    for index, name in enumerate(names):
        if index and is_over():
            found.skipped = dict.fromkeys(names[index:], _NO_TIME)
            found.partial = f"time was up: {len(found.skipped)} nodes were not looked at"
            break
        if counted >= most or (failed >= _MOST_FAILURES and not settings.is_ca):
            none_at_all = not settings.scale_down.max_scale_down_parallelism
            found.skipped = dict.fromkeys(names[index:], _NONE_AT_A_TIME if none_at_all else _NOT_EXAMINED)
            break
        status = simulator.try_removal(name, names[index : index + LOOK_AHEAD])
        if isinstance(status, Unremovable):
            found.unremovable[name] = status
            failed += status.code == UnremovableCode.NO_PLACE
        else:
            found.removable.append(status)
            counted += (settings.is_ca or bool(status.moving)) and not is_atomic(state, state.group_of_node[name])
    found.hints = simulator.finish()
    return found


def destination_rows(snapshot: Snapshot, state: ClusterState) -> Mask:
    """The rows of nodes that are there and not on their way out."""
    names = (node.metadata.name for node in state.observation.snapshot.live_nodes())
    found = np.zeros(len(snapshot), dtype=np.bool_)
    found[[snapshot.row(name) for name in names if name in snapshot and name not in state.observation.removing]] = True
    return found


def update_interval(memory: ScaleDownMemory, settings: Settings, now: float) -> float:
    """The shortest time between two loops so far, in seconds; before the second, the time a node must be unneeded.

    CA measures it. Here loops that would change nothing are left out, so that it is the interval that was asked for.
    """
    longest = settings.scale_down.scale_down_unneeded_time or 1e-9
    if not memory.updated_at:
        return longest
    latest = now - memory.updated_at if settings.is_ca else settings.loop.scan_interval
    return max(1e-9, min(memory.interval, latest))


def most_removable(memory: ScaleDownMemory, settings: Settings, now: float) -> int:
    """After how many removable nodes of ordinary groups the others are not looked at: more could not go in time.

    Only under profile "ca" do empty nodes count.
    """
    step, interval = settings.scale_down.max_scale_down_parallelism, update_interval(memory, settings, now)
    rounds = max(settings.scale_down.scale_down_unneeded_time, interval) // interval
    return min(len(memory.unneeded_since) + 2 * step, int(step * rounds) + step)


class RemovalSimulator:
    """The cluster as the candidates so far leave it, and what disruption budgets still allow."""

    def __init__(self, simulation: DrainSimulation, state: ClusterState, settings: Settings) -> None:
        self._simulation = simulation
        self._budgets = DisruptionBudgets.of(state.observation.workloads, settings)
        rules = DrainabilityRules(state.observation.workloads, self._budgets, settings.drain, state.now, settings.is_ca)
        self._drainability = DrainabilityCache(rules)
        self._is_ca = settings.is_ca
        self._could_go = state.memory.scale_down.unneeded_since
        # The nodes that were looked at ahead, and the routes of those that all have room.
        self._seen: set[str] = set()
        self._routes: dict[str, HintedNode] = {}
        # What has left, but for the picture.
        self._leaving: list[tuple[HintedNode, PodSubset]] = []

    def try_removal(self, name: str, ahead: Sequence[str]) -> RemovableNode | Unremovable:
        """Take a node out, or say why it must stay; ``ahead`` are the next ones, itself the first."""
        if name not in self._seen:
            self._look_ahead(ahead)
        row = self._simulation.snapshot.find_row(name)
        if row is None:
            return Unremovable(
                code=UnremovableCode.NO_NODE_INFO, message="it is no longer in the picture of the cluster"
            )
        subset = self._simulation.subset(row)
        status = evaluate_subset(subset, self._drainability)
        if status.blocking is not None:
            blocking = status.blocking
            return Unremovable(
                code=UnremovableCode.BLOCKED_BY_POD, pod=blocking.pod, pod_code=blocking.code, message=blocking.message
            )
        needing = status.moving if self._is_ca else _without_replaced(status.moving)
        unplaced = self._empty(name, row, subset, needing)
        if unplaced is not None:
            text = f"pod {unplaced.key} would find no other node"
            return Unremovable(code=UnremovableCode.NO_PLACE, pod=unplaced.key, message=text)
        risky = self._spend(_real(needing))
        return RemovableNode(name=name, moving=_real(status.moving), awaited=status.on_completion, risky=risky)

    def finish(self) -> PodPlaces:
        """Where pods have gone, once all candidates were looked at."""
        self._settle()
        return self._simulation.finish()

    def _look_ahead(self, names: Sequence[str]) -> None:
        self._settle()
        routes: dict[str, HintedNode] = {}
        for name in takewhile(self._could_go.__contains__, names):
            row = self._simulation.snapshot.find_row(name)
            route = self._simulation.find_hinted(row) if row is not None else None
            if route is None:
                break
            routes[name] = route
        self._seen = {*routes, names[0]}
        self._routes = routes if len(routes) > 1 and self._simulation.fit_together(routes.values()) else {}

    def _empty(self, name: str, row: int, subset: PodSubset, needing: PodSubset) -> Pod | None:
        """Take a node out of the picture unless a pod has no place, which is the answer."""
        route = self._routes.get(name)
        if route is not None and all(number in route.hinted_rows for number in needing.numbers):
            self._leaving.append((route, needing))
            return None
        self._settle()
        return self._simulation.drain(row, subset, needing)

    def _spend(self, going: PodSubset) -> bool:
        """Count pods as gone; the answer is whether their budgets do not let them go all at the same time."""
        if not self._budgets:
            return False
        pods = going.pods
        risky = not self._budgets.can_remove(pods).in_parallel
        self._budgets.remove(pods)
        return risky

    def _settle(self) -> None:
        """Let those that have left do so in the picture; what comes now may take the room that others counted on."""
        self._simulation.drain_together(self._leaving)
        self._leaving, self._routes = [], {}


def _real(subset: PodSubset) -> PodSubset:
    """Those that run; not those of buffers."""
    return subset.only({kind for kind in subset.distinct_kinds if not is_virtual(kind.pod)})


def _without_replaced(moving: PodSubset) -> PodSubset:
    """Those that need a place: not those that are ending, for which their controllers have made others already.

    They are waited for all the same. CA keeps a place for both, so that a node half emptied finds none (ADR 9).
    """
    return moving.only({kind for kind in moving.distinct_kinds if not is_being_replaced(kind.pod)})
