"""Checks a simulation from its journal alone, in plain sums: nothing of nodewright takes part in the arithmetic."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping

import pytest

Amounts = Mapping[str, int]
Fact = tuple[float, str, str, str]  # when, what, who, where
_RETRIED = re.compile(r"-r[0-9]+$")


class Audit:
    """What the journal of a run proves, given what each pod asks and what a node of each group offers.

    A pod that was moved runs on under a name of its own (``p-r1``) and counts as the one that it was.
    ``overcommitted`` holds moment, node and resource; ``misplaced`` moment, pod and node for pods that run where
    no ready node is.
    """

    def __init__(self, pods: Mapping[str, Amounts], groups: Mapping[str, Amounts]) -> None:
        self.started: set[str] = set()
        self.ended: set[str] = set()
        self.overcommitted: list[tuple[float, str, str]] = []
        self.misplaced: list[tuple[float, str, str]] = []
        self.most_nodes: dict[str, int] = {}
        self._pods, self._groups = pods, groups
        self._group_of: dict[str, str] = {}
        self._ready: set[str] = set()
        self._used: dict[str, Counter[str]] = defaultdict(Counter)
        self._place: dict[str, str] = {}
        self._last = float("-inf")

    def read(self, fact: Fact) -> None:
        at, what, name, where = fact
        assert at >= self._last, "the journal runs backwards"
        self._last = at
        if what.startswith("node"):
            self._node(what, name, where)
        elif what == "pod started":
            self._start(at, name, where)
        elif what in ("pod ended", "pod lost") and name in self._place:
            base = _RETRIED.sub("", name)
            self._used[self._place.pop(name)].subtract(self._pods[base])
            if what == "pod ended":
                self.ended.add(base)

    def _node(self, what: str, name: str, group: str) -> None:
        if what == "node added":
            self._group_of[name] = group
            nodes = sum(other == group for other in self._group_of.values())
            self.most_nodes[group] = max(nodes, self.most_nodes.get(group, 0))
        elif what == "node ready":
            self._ready.add(name)
        elif what == "node removed":
            del self._group_of[name]
            self._ready.discard(name)

    def _start(self, at: float, pod: str, node: str) -> None:
        base = _RETRIED.sub("", pod)
        self.started.add(base)
        self._place[pod] = node
        if node not in self._ready:
            self.misplaced.append((at, pod, node))
            return
        self._used[node].update(self._pods[base])
        offered = self._groups[self._group_of[node]]
        self.overcommitted += [
            (at, node, resource) for resource, used in self._used[node].items() if used > offered.get(resource, 0)
        ]


MakeAudit = Callable[[Iterable[Fact], Mapping[str, Amounts], Mapping[str, Amounts]], Audit]


@pytest.fixture
def audit() -> MakeAudit:
    def make(journal: Iterable[Fact], pods: Mapping[str, Amounts], groups: Mapping[str, Amounts]) -> Audit:
        made = Audit(pods, groups)
        for fact in journal:
            made.read(fact)
        return made

    return make
