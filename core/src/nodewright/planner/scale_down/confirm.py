"""Would those that go now be missed if all others stayed?

The candidates were simulated as a chain, each as if those before it were gone. Only some of them go now; pods that the
others keep may be in the way of those that move (zone anti-affinity, spread). CA does not ask.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace as changed

from nodewright.clusterstate.state import ClusterState
from nodewright.model.reason import Unremovable, UnremovableCode
from nodewright.planner.scale_down.examine import Examination
from nodewright.planner.scale_down.trial import Removable
from nodewright.snapshot.pod_places import PodPlaces

# Simulates the removal of some nodes, in order, while all others stay.
Simulate = Callable[[Sequence[str]], Examination]


@dataclass(kw_only=True)
class Confirmed:
    """``nodes`` may go, with their pods as they are now, and ``batches`` say how many go together; the others ``stay``.

    ``hints`` are where the pods find room. For those that are ``late`` there was no time.
    """

    batches: dict[str, int]
    nodes: dict[str, Removable]
    stay: dict[str, Unremovable] = field(default_factory=dict)
    late: dict[str, Unremovable] = field(default_factory=dict)
    hints: PodPlaces = field(default_factory=PodPlaces)

    @property
    def partial(self) -> str:
        """What there was no time for; empty: for everything."""
        return f"time was up: {len(self.late)} nodes were not looked at once more" if self.late else ""


def confirm(
    state: ClusterState, batches: Mapping[str, int], found: Mapping[str, Removable], simulate: Simulate
) -> Confirmed:
    """Those of the chosen nodes that can go while everything else stays.

    When time is up, those that were found by then go. If none was, the others are looked at all the same: a loop that
    begins with the same nodes would come no further.
    """
    left = Confirmed(batches=dict(batches), nodes={name: found[name] for name in batches})
    if len(batches) == len(found) or not any(node.moving for node in left.nodes.values()):
        return left
    while left.batches:
        again = simulate(list(left.batches))
        nodes, failed = {node.name: node for node in again.removable}, again.unremovable
        left.stay |= {name: _reason(why) for name, why in failed.items()}
        late = again.skipped if nodes or not failed else {}
        left.late |= late
        _drop(left, [*failed, *late], state)
        if not failed and nodes.keys() == left.batches.keys():
            left.nodes, left.hints = nodes, again.hints
            break
    return left


def _drop(left: Confirmed, failed: Sequence[str], state: ClusterState) -> None:
    """A zero-or-max group stays as a whole."""
    whole = {state.group_of_node[name] for name in failed if left.batches[name] > 1}
    for name in list(left.batches):
        ref = state.group_of_node[name]
        if name in failed or ref in whole:
            text = f"group {ref} goes as a whole, and not all of its nodes can now"
            if name not in left.late:
                left.stay.setdefault(name, Unremovable(code=UnremovableCode.ATOMIC_FAILED, message=text))
            del left.batches[name]


def _reason(why: Unremovable) -> Unremovable:
    return changed(why, message=f"{why.message}, as long as nodes stay that could go before it")
