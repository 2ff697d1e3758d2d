"""One candidate after the other taken out of a simulated cluster, or left in it.

What was found out in the last loop mostly holds in the next. So a run of nodes that could go then is looked at ahead: if
all their pods have room together where the last loop had them, none of these nodes is searched for places, and all leave
the picture at once. Where all have room together, each has in its turn: the result is the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from nodewright.clusterstate.state import ClusterState
from nodewright.model.pod import Pod
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.capacity_buffers.pods import is_virtual
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.planner.scale_down.drain_rules import DrainabilityRules
from nodewright.planner.scale_down.drainability import Verdicts, judge_load
from nodewright.planner.scale_down.load import Load, is_replaced
from nodewright.planner.scale_down.simulation import Route, Simulation
from nodewright.snapshot.pod_places import PodPlaces

# So many nodes are looked at ahead; what has changed for one costs these their ease.
LOOK_AHEAD = 64


@dataclass(frozen=True, kw_only=True)
class Removable:
    """A node that could go now: the pods to move and those to wait for first.

    ``places`` are the nodes that take those to move, once the node is chosen; empty for a pod that needs none.
    ``risky`` says that its pods may not all go at the same time.
    """

    name: str
    moving: Load
    places: tuple[str, ...] = ()
    awaited: tuple[Pod, ...] = ()
    risky: bool = False


class Trial:
    """The cluster as the candidates so far leave it, and what disruption budgets still allow."""

    def __init__(self, simulation: Simulation, state: ClusterState, settings: Settings) -> None:
        self._simulation = simulation
        self._budgets = DisruptionBudgets.of(state.observation.workloads, settings)
        court = DrainabilityRules(state.observation.workloads, self._budgets, settings.drain, state.now, settings.is_ca)
        self._verdicts = Verdicts(court)
        self._is_ca = settings.is_ca
        self._could_go = state.memory.scale_down.unneeded_since
        # The nodes that were looked at ahead, and the routes of those that all have room.
        self._seen: set[str] = set()
        self._routes: dict[str, Route] = {}
        # What has left, but for the picture.
        self._leaving: list[tuple[Route, Load]] = []

    def take_out(self, name: str, ahead: Sequence[str]) -> Removable | Unremovable:
        """Take a node out, or say why it must stay; ``ahead`` are the next ones, itself the first."""
        if name not in self._seen:
            self._look_ahead(ahead)
        row = self._simulation.board.find_row(name)
        if row is None:
            return Unremovable(
                code=UnremovableCode.NO_NODE_INFO, message="it is no longer in the picture of the cluster"
            )
        load = self._simulation.load(row)
        verdict = judge_load(load, self._verdicts)
        if verdict.blocking is not None:
            blocking = verdict.blocking
            return Unremovable(
                code=UnremovableCode.BLOCKED_BY_POD, pod=blocking.pod, pod_code=blocking.code, message=blocking.message
            )
        needing = verdict.moving if self._is_ca else _without_replaced(verdict.moving)
        stuck = self._empty(name, row, load, needing)
        if stuck is not None:
            text = f"pod {stuck.key} would find no other node"
            return Unremovable(code=UnremovableCode.NO_PLACE, pod=stuck.key, message=text)
        risky = self._spend(_real(needing))
        return Removable(name=name, moving=_real(verdict.moving), awaited=verdict.on_completion, risky=risky)

    def conclude(self) -> PodPlaces:
        """Where pods have gone, once all candidates were looked at."""
        self._settle()
        return self._simulation.conclude()

    def _look_ahead(self, names: Sequence[str]) -> None:
        self._settle()
        routes: dict[str, Route] = {}
        for name in takewhile(self._could_go.__contains__, names):
            row = self._simulation.board.find_row(name)
            route = self._simulation.find_route(row) if row is not None else None
            if route is None:
                break
            routes[name] = route
        self._seen = {*routes, names[0]}
        self._routes = routes if len(routes) > 1 and self._simulation.have_room(routes.values()) else {}

    def _empty(self, name: str, row: int, load: Load, needing: Load) -> Pod | None:
        """Take a node out of the picture unless a pod has no place, which is the answer."""
        route = self._routes.get(name)
        if route is not None and all(number in route.goals for number in needing.numbers):
            self._leaving.append((route, needing))
            return None
        self._settle()
        return self._simulation.empty(row, load, needing)

    def _spend(self, going: Load) -> bool:
        """Count pods as gone; the answer is whether their budgets do not let them go all at the same time."""
        if not self._budgets:
            return False
        pods = going.pods
        risky = not self._budgets.can_remove(pods).in_parallel
        self._budgets.remove(pods)
        return risky

    def _settle(self) -> None:
        """Let those that have left do so in the picture; what comes now may take the room that others counted on."""
        self._simulation.empty_together(self._leaving)
        self._leaving, self._routes = [], {}


def _real(load: Load) -> Load:
    """Those that run; not those of buffers."""
    return load.only({kind for kind in load.variety if not is_virtual(kind.pod)})


def _without_replaced(moving: Load) -> Load:
    """Those that need a place: not those that are ending, for which their controllers have made others already.

    They are waited for all the same. CA keeps a place for both, so that a node half emptied finds none (ADR 9).
    """
    return moving.only({kind for kind in moving.variety if not is_replaced(kind.pod)})
