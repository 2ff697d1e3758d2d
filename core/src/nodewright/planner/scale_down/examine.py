"""Which candidates could go, one after the other, each as if those before it were gone (behaviour/down.md A3)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nodewright.model.pod import Pod
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.buffers.pods import is_virtual
from nodewright.planner.deadline import deadline
from nodewright.planner.scale_down.atomic import is_atomic
from nodewright.planner.scale_down.disruption import DisruptionBudgets
from nodewright.planner.scale_down.drain_rules import Court
from nodewright.planner.scale_down.drainability import judge_load
from nodewright.planner.scale_down.load import Load, is_replaced
from nodewright.planner.scale_down.simulation import Simulation
from nodewright.registry.state import ClusterState, ScaleDownMemory
from nodewright.snapshot.column import Mask
from nodewright.snapshot.snapshot import Snapshot

_NOT_EXAMINED = Unremovable(
    code=UnremovableCode.NOT_EXAMINED, message="as many nodes as are looked at in one loop came before it"
)
_NONE_AT_A_TIME = Unremovable(
    code=UnremovableCode.SWITCHED_OFF, message="no node is removed while --max-scale-down-parallelism is 0"
)
_NO_TIME = Unremovable(
    code=UnremovableCode.NOT_EXAMINED,
    message="time was up (--scale-down-simulation-timeout) before it was looked at: it is in the next loop",
)
# So many searches for places may fail in one loop, long before time is up: pods that wait are not to wait for these.
_MOST_FAILURES = 500


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


@dataclass(kw_only=True)
class Examination:
    """What became of each candidate; ``skipped`` were not looked at for the number of others, or for lack of time:
    ``partial`` says so.
    """

    removable: list[Removable] = field(default_factory=list)
    unremovable: dict[str, Unremovable] = field(default_factory=dict)
    skipped: dict[str, Unremovable] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    partial: str = ""


def takes_pods(snapshot: Snapshot, state: ClusterState) -> Mask:
    """The rows of nodes that are there and not on their way out."""
    names = (node.metadata.name for node in state.observation.snapshot.live_nodes())
    found = np.zeros(len(snapshot), dtype=np.bool_)
    found[[snapshot.row(name) for name in names if name in snapshot and name not in state.observation.removing]] = True
    return found


def examine(
    snapshot: Snapshot, names: Sequence[str], hints: Mapping[str, str], state: ClusterState, settings: Settings
) -> Examination:
    """Try to empty the named nodes in order; pods may go to all others that take any, those with ``hints`` there first.

    ``snapshot`` stays as it is.
    """
    found, memory = Examination(), state.memory.scale_down
    if not names:
        return found
    budgets = DisruptionBudgets.of(state.observation.workloads, settings)
    simulation = Simulation(snapshot.fork(), takes_pods(snapshot, state), hints, state.now)
    most, counted, failed = most_removable(memory, settings, state.now), 0, 0
    is_over = deadline(state.elapsed, settings.scale_down.scale_down_simulation_timeout)
    for index, name in enumerate(names):
        if index and is_over():
            found.skipped = dict.fromkeys(names[index:], _NO_TIME)
            found.partial = f"time was up: {len(found.skipped)} nodes were not looked at"
            break
        if counted >= most or (failed >= _MOST_FAILURES and not settings.is_ca):
            none_at_all = not settings.scale_down.max_scale_down_parallelism
            found.skipped = dict.fromkeys(names[index:], _NONE_AT_A_TIME if none_at_all else _NOT_EXAMINED)
            break
        verdict = _try(simulation, name, budgets, state, settings)
        if isinstance(verdict, Unremovable):
            found.unremovable[name] = verdict
            failed += verdict.code == UnremovableCode.NO_PLACE
        else:
            found.removable.append(verdict)
            counted += not is_atomic(state, state.group_of_node[name])
    found.hints = simulation.conclude()
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
    """After how many removable nodes of ordinary groups the others are not looked at: more could not go in time."""
    step, interval = settings.scale_down.max_scale_down_parallelism, update_interval(memory, settings, now)
    rounds = max(settings.scale_down.scale_down_unneeded_time, interval) // interval
    return min(len(memory.unneeded_since) + 2 * step, int(step * rounds) + step)


def _try(
    simulation: Simulation, name: str, budgets: DisruptionBudgets, state: ClusterState, settings: Settings
) -> Removable | Unremovable:
    """Take a node out of the simulated cluster, or say why it must stay in it."""
    board = simulation.board
    row = board.find_row(name)
    if row is None:
        return Unremovable(code=UnremovableCode.NO_NODE_INFO, message="it is no longer in the picture of the cluster")
    load = simulation.load(row)
    verdict = judge_load(load, Court(state.observation.workloads, budgets, settings.drain, state.now))
    if verdict.blocking is not None:
        blocking = verdict.blocking
        return Unremovable(
            code=UnremovableCode.BLOCKED_BY_POD, pod=blocking.pod, pod_code=blocking.code, message=blocking.message
        )
    needing = verdict.moving if settings.is_ca else _without_replaced(verdict.moving)
    stuck = simulation.empty(row, load, needing)
    if stuck is not None:
        text = f"pod {stuck.key} would find no other node"
        return Unremovable(code=UnremovableCode.NO_PLACE, pod=stuck.key, message=text)
    going = _real(needing).pods
    risky = not budgets.can_remove(going).in_parallel
    budgets.remove(going)
    return Removable(name=name, moving=_real(verdict.moving), awaited=verdict.on_completion, risky=risky)


def _real(load: Load) -> Load:
    """Those that run; not those of buffers."""
    return load.only({kind for kind in load.variety if not is_virtual(kind.pod)})


def _without_replaced(moving: Load) -> Load:
    """Those that need a place: not those that are ending, for which their controllers have made others already.

    They are waited for all the same. CA keeps a place for both, so that a node half emptied finds none (ADR 9).
    """
    return moving.only({kind for kind in moving.variety if not is_replaced(kind.pod)})
