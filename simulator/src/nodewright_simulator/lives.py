"""The lives of nodes and pods in a run: when each came, why, where it was, and what ended it."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from nodewright.model.removal import RemovalResult
from nodewright_simulator.journal import What
from nodewright_simulator.result import Decision, SimulationResult

_ENDS = {What.POD_ENDED: "ended", What.POD_EVICTED: "evicted", What.POD_LOST: "lost"}


@dataclass(kw_only=True)
class NodeLife:
    """One life of a node; times in epoch seconds."""

    name: str
    group: str
    added: float
    ready: float | None = None
    gone: float | None = None
    pods: dict[str, tuple[float, float | None]] = field(default_factory=dict)


@dataclass(kw_only=True)
class PodLife:
    """A pod; times in epoch seconds. ``owner`` is the kind of its owner, ``end`` is ended, evicted, lost, or empty at the end of the run."""

    name: str
    owner: str
    arrived: float
    started: float | None = None
    node: str = ""
    ended: float | None = None
    end: str = ""


def list_nodes(result: SimulationResult) -> Iterator[NodeLife]:
    """Yield the nodes in the order in which they came."""
    alive: dict[str, NodeLife] = {}
    found: list[NodeLife] = []
    for fact in result.journal:
        match fact.what:
            case What.NODE_ADDED:
                alive[fact.name] = NodeLife(name=fact.name, group=fact.where, added=fact.at)
                found.append(alive[fact.name])
            case What.NODE_READY if fact.name in alive:
                alive[fact.name].ready = alive[fact.name].ready or fact.at
            case What.NODE_REMOVED if fact.name in alive:
                alive.pop(fact.name).gone = fact.at
            case What.POD_STARTED if fact.where in alive:
                alive[fact.where].pods[fact.name] = fact.at, None
            case What.POD_EVICTED | What.POD_ENDED | What.POD_LOST if fact.where in alive:
                pods = alive[fact.where].pods
                if fact.name in pods and pods[fact.name][1] is None:
                    pods[fact.name] = pods[fact.name][0], fact.at
    yield from found


class NodeCauses:
    """Why nodes came and went, from the decisions and removals of the run."""

    def __init__(self, result: SimulationResult) -> None:
        self._start = result.start
        self._grown = defaultdict[str, list[Decision]](list)
        for step in result.decisions:
            if step.what == "increase" and step.after > step.before:
                self._grown[step.group].append(step)
        self._removed = {(over.removal.node, over.result): over for over in result.removals}

    def of_coming(self, node: NodeLife) -> str:
        if node.added <= self._start:
            return "there from the start"
        grown = self._grown[node.group]
        place = bisect_right([step.at for step in grown], node.added) - 1
        return (grown[place].why or grown[place].message) if place >= 0 else ""

    def of_going(self, node: NodeLife) -> str:
        over = self._removed.get((node.name, RemovalResult.OK))
        if over is not None:
            evicted = f", {len(over.evicted)} pods evicted" if over.evicted else ""
            return f"{over.removal.reason}{evicted}"
        return "its machine was gone"


def list_pods(result: SimulationResult) -> Iterator[PodLife]:
    """Yield the pods in the order in which they came."""
    pods: dict[str, PodLife] = {}
    for fact in result.journal:
        if fact.what == What.POD_ARRIVED:
            pods[fact.name] = PodLife(name=fact.name, owner=fact.where, arrived=fact.at)
        elif fact.what == What.POD_STARTED and fact.name in pods:
            pods[fact.name].started, pods[fact.name].node = fact.at, fact.where
        elif fact.what in _ENDS and fact.name in pods and not pods[fact.name].end:
            pods[fact.name].ended, pods[fact.name].end = fact.at, _ENDS[fact.what]
    yield from pods.values()
