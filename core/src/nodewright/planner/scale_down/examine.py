"""Which candidates could go, one after the other, each as if those before it were gone (behaviour/down.md A3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nodewright.clusterstate.state import ClusterState, ScaleDownMemory
from nodewright.estimator.limits import IsOver
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.atomic import is_atomic
from nodewright.planner.scale_down.simulation import Simulation
from nodewright.planner.scale_down.trial import LOOK_AHEAD, Removable, Trial
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_places import PodPlaces
from nodewright.snapshot.snapshot import Snapshot

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
# So many searches for places may fail in one loop, long before time is up: pods that wait are not to wait for these.
_MOST_FAILURES = 500


@dataclass(kw_only=True)
class Examination:
    """What became of each candidate; ``skipped`` were not looked at for the number of others, or for lack of time:
    ``partial`` says so.
    """

    removable: list[Removable] = field(default_factory=list)
    unremovable: dict[str, Unremovable] = field(default_factory=dict)
    skipped: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)
    partial: str = ""


def takes_pods(snapshot: Snapshot, state: ClusterState) -> Mask:
    """The rows of nodes that are there and not on their way out."""
    names = (node.metadata.name for node in state.observation.snapshot.live_nodes())
    found = np.zeros(len(snapshot), dtype=np.bool_)
    found[[snapshot.row(name) for name in names if name in snapshot and name not in state.observation.removing]] = True
    return found


def examine(
    snapshot: Snapshot,
    names: Sequence[str],
    hints: PodPlaces,
    state: ClusterState,
    settings: Settings,
    is_over: IsOver,
) -> Examination:
    """Try to empty the named nodes in order; pods may go to all others that take any, those with ``hints`` there first.

    When time ``is_over``, the first is looked at all the same. ``snapshot`` stays as it is.
    """
    found = Examination()
    if not names:
        return found
    simulation = Simulation(snapshot.fork(), takes_pods(snapshot, state), hints, state.now)
    trial = Trial(simulation, state, settings)
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
        verdict = trial.take_out(name, names[index : index + LOOK_AHEAD])
        if isinstance(verdict, Unremovable):
            found.unremovable[name] = verdict
            failed += verdict.code == UnremovableCode.NO_PLACE
        else:
            found.removable.append(verdict)
            counted += (settings.is_ca or bool(verdict.moving)) and not is_atomic(state, state.group_of_node[name])
    found.hints = trial.conclude()
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
