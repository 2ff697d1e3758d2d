"""A story in which nodes are removed by hand: a test plans it, independent of the planner."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tests.scenario.story import Story

from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.plan import Plan, ScaleDownReport
from nodewright.model.reason import ScaleDownResult
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalReason
from nodewright.model.settings import Settings
from nodewright_simulator.journal import What

# The planner's own removals are of no interest here.
_NONE = {"scale-down-unneeded-time": "1000h", "scale-down-unready-time": "1000h", "max-bulk-soft-taint-count": 0}


class Removing(Story):
    """``remove`` puts removals into the first plan from a moment on. The pods to move are those that are there then."""

    def __init__(self, *groups: Mapping[str, Any], settings: Mapping[str, Any] | None = None, **rest: Any) -> None:
        super().__init__(*groups, settings={**_NONE, **(settings or {})}, **rest)
        self._wanted: list[tuple[float, frozenset[str], int, bool]] = []

    def remove(self, *nodes: str, at: float, batch: int = 1, empty: bool = False) -> None:
        """``empty``: planned as if no pod had to be moved."""
        self._wanted.append((at, frozenset(nodes), batch, empty))
        self.at(at, lambda: None)  # worth a look

    def ended(self) -> list[RemovalEnded]:
        return list(self.result.removals)

    def facts(self, what: What) -> list[tuple[float, str]]:
        return [(fact.at, fact.name) for fact in self.result.journal if fact.what == what]

    def node(self, name: str) -> Any:
        """The node at the end."""
        live = self.simulation.cluster.live
        return live.node(live.row(name))

    def _planning(self, settings: Settings) -> Planning:
        """Return no places for the pods: they are not the question here."""
        return replace(super()._planning(settings), check_removals=lambda *_: ())

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        plan, after = super()._plan(state, settings, random)
        due = [wanted for wanted in self._wanted if wanted[0] <= state.now]
        self._wanted = [wanted for wanted in self._wanted if wanted[0] > state.now]
        removals = [r for _, names, batch, empty in due for r in _removals(state, names, batch, empty=empty)]
        report = ScaleDownReport(
            result=ScaleDownResult.STARTED if removals else ScaleDownResult.NO_NODE_DELETED,
            removals=tuple(removals),
        )
        return replace(plan, scale_down=report), after


def _removals(state: ClusterState, names: frozenset[str], batch: int, *, empty: bool) -> Iterable[NodeRemoval]:
    snapshot = state.observation.snapshot
    for row, node in snapshot.nodes():
        if node.name in names:
            pods = [pod.key for pod in snapshot.pods(row) if not pod.is_daemonset_pod]
            yield NodeRemoval(
                node=node.name,
                group=state.group_of_node[node.name],
                instance_id=node.spec.provider_id,
                reason=RemovalReason.UNDERUTILIZED if pods and not empty else RemovalReason.EMPTY,
                pods=() if empty else tuple(pods),
                batch=batch,
                utilization=0.25,
            )
