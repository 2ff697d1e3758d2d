"""Cases of clusters that cost too much: how they are read. The schema is that of tests/data/karpenter/README.md."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from cost_cases import Amounts, Count, ExistingNode, MachineType, Name, Price, Workload, WrongFile, read_lines

SHARED = Path(__file__).parents[1] / "tests" / "data" / "karpenter" / "consolidation.jsonl.gz"
POLICIES = ("Balanced", "WhenEmptyOrUnderutilized")


class PlacedNode(ExistingNode, frozen=True):
    age_h: float = 0.0
    do_not_disrupt: bool = False


class PlacedWorkload(Workload, frozen=True):
    """``min_available`` of its disruption budget; ``deletion_cost`` and ``priority`` of its pods."""

    deletion_cost: int | None = None
    min_available: int | None = None
    do_not_disrupt: bool = False

    @property
    def pods(self) -> int:
        return sum(self.placed.values())


class KarpenterRun(msgspec.Struct, frozen=True):
    price_at_rest: Price
    commands: Count
    evictions: Count


class KarpenterRuns(msgspec.Struct, frozen=True):
    policies: dict[str, tuple[KarpenterRun, ...]]


class Cluster(msgspec.Struct, frozen=True):
    """``budget``: the share of the nodes that one command may give up. ``daemon``: what a DaemonSet pod on each node asks for."""

    name: Name
    family: Name
    types: tuple[MachineType, ...]
    nodes: tuple[PlacedNode, ...]
    workloads: tuple[PlacedWorkload, ...]
    price_before: Price
    karpenter: KarpenterRuns
    lp_bound_pinned: Price
    budget: Annotated[str, Meta(pattern="^[0-9]+%$")] = "100%"
    daemon: Amounts | None = None

    @property
    def pods(self) -> int:
        return sum(workload.pods for workload in self.workloads)

    def most_nodes(self, nodes: int) -> int:
        """Return how many of ``nodes`` nodes one command may give up."""
        return -(-nodes * int(self.budget.rstrip("%")) // 100)

    def answers(self) -> dict[str, dict[str, Any]]:
        """Return what Karpenter came to, by policy; the first of its runs."""
        return {name: msgspec.to_builtins(runs[0]) for name, runs in self.karpenter.policies.items() if runs}


def read_clusters(paths: list[Path]) -> list[Cluster]:
    """Return the cases of files of JSON lines, which may be compressed by gzip. Raise WrongFile."""
    found = []
    for path in paths:
        for where, line in read_lines(path):
            try:
                found.append(msgspec.json.decode(line, type=Cluster))
            except msgspec.DecodeError as error:
                raise WrongFile(f"{where}: {error}.") from error
    return found
