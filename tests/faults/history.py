"""A run as it was seen from outside: what the cloud answered, what was written, how things stood."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from nodewright.spec import FailedInstance
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import Scenario

# A node whose condition changed so soon after it registered may never have been Ready, as far as it tells.
CLOSE = 60.0


def group_of(machine: str) -> str:
    """Return the group of a machine of that id."""
    return machine.split("/")[-2]


def is_of(pod: str, deployment: str) -> bool:
    """Return whether the pod with that key belongs to the deployment."""
    return pod.rpartition("-")[0] == f"default/{deployment}"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the cloud answered about a group in one loop.

    A machine that was listed as running before, or became a Ready node, is no failed creation, independent of what is reported of
    it: such machines are ``disputed``. ``least`` and ``most`` are the limits of its size.
    """

    target: int
    least: int
    most: int
    instances: Mapping[str, str]
    failed: Mapping[str, FailedInstance]
    disputed: frozenset[str] = frozenset()

    @cached_property
    def there(self) -> frozenset[str]:
        """Ids of machines that are not on their way out."""
        failed = {failure.instance_id for failure in self.failed.values()}
        return frozenset(i for i, state in self.instances.items() if state != "deleting" and i not in failed)

    @cached_property
    def without_machine(self) -> int:
        """Places of the target that nothing fills."""
        return self.target - len(self.there) - sum(failure.count for failure in self.failed.values())


@dataclass(frozen=True, kw_only=True)
class NodeSeen:
    """A node; times in seconds. ``last_ready`` is when it was last seen ready (-inf: never).

    ``pods`` counts those that were not deleted, ``slots`` is how many it has room for in all; ``marked``: the node
    carries the taint of a node on its way out; ``cordoned`` and ``tainted``: it is cordoned, or has a taint that a person set.
    """

    instance_id: str
    since: float
    ready: bool
    last_ready: float
    pods: int = 0
    slots: int = 0
    marked: bool = False
    cordoned: bool = False
    tainted: bool = False

    @property
    def ever_ready(self) -> bool:
        return self.last_ready > float("-inf")


@dataclass(kw_only=True)
class Write:
    """One call that changes the cloud; ``accepted`` is what it truly did, independent of its answer.

    ``nodes`` are the machines that were nodes, ``occupied`` those of ``ids`` where pods ran, ``marked`` the nodes that
    carried the taint of a node on its way out.
    """

    at: float
    hook: str
    group: str
    expected: int
    target: int = 0
    ids: tuple[str, ...] = ()
    phases: Mapping[str, str] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    occupied: frozenset[str] = frozenset()
    marked: frozenset[str] = frozenset()
    accepted: int = 0
    answered: int | None = None
    error: str = ""

    @property
    def is_granted(self) -> bool:
        """Was the call answered, and not by nothing?"""
        return not self.error and bool(self.answered)


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One loop: what the cloud answered, how things stood, and what was written. ``seen`` lacks what is unknown.

    ``waiting`` are the pending pods; ``requests`` are those for capacity, each ``waiting``, ``granted`` or ``over``.
    ``running`` is how many pods of each gang run that are not being deleted.
    ``hedged`` is how many of the machines that each group is asked for the plan calls hedges. ``moved`` is how many of them it
    asks for to give up other machines; ``given_up`` are those, ``renewed`` the ones that are too old, ``in_moves`` they and the nodes that came for them, as long as the
    move is under way. ``leaving`` are the machines that are to be replaced because the cloud gave notice of them, each with the time at which it is taken (inf: not told). ``backed_off`` is what the engine says of itself: until when (epoch seconds) each group is left alone.
    """

    at: float
    ends_reads: float
    pending: int
    nodes: Mapping[str, NodeSeen]
    seen: Mapping[str, Seen]
    waiting: frozenset[str] = frozenset()
    running: Mapping[str, int] = field(default_factory=dict)
    requests: Mapping[str, str] = field(default_factory=dict)
    leaving: Mapping[str, float] = field(default_factory=dict)
    backed_off: Mapping[str, float] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)
    hedged: dict[str, int] = field(default_factory=dict)
    moved: dict[str, int] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)
    in_moves: set[str] = field(default_factory=set)
    renewed: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Asked:
    """Machines were asked for, by us (``at`` is when the loop began) or by another writer, who may ask for fewer."""

    at: float
    group: str
    count: int
    ours: bool


@dataclass
class History:
    """A run as it was seen from outside, and what there is at its end: machines with their group and phase, by id."""

    scenario: Scenario
    result: SimulationResult | None = None
    loops: list[Loop] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    machines: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    nodes: Mapping[str, NodeSeen] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)
