"""The calls that delete the machines of removed nodes, with what is known of target sizes."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from nodewright.actuation.actor import Ended
from nodewright.actuation.audit import Write
from nodewright.actuation.removals.batch import Batch
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import DeleteInstances, Done, Failed, GroupWrite, IncreaseSize, SizeWrite, Unknown
from nodewright.model.errors import TargetChanged
from nodewright.model.group import GroupRef
from nodewright.model.removal import NodeRemoval

# How the reason of a deletion begins that removes a node.
REMOVAL = "scale-down: "


class Calls(Protocol):
    """As ``Actor``."""

    def act(self, actions: Sequence[Write], loop: str = "") -> tuple[Ended, ...]: ...


class Deleter:
    """Deletes machines by id. A target that somebody else wrote, or that nobody can read, is waited for: the next
    loop reads it.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._targets: dict[GroupRef, int] = {}

    def learn(self, state: ClusterState, outcomes: Iterable[Ended]) -> None:
        """The targets as the last loop read them, and as its own writes have changed them since."""
        seen = state.observation.groups
        self._targets = {ref: group.target for ref, group in seen.items() if group.target is not None}
        for outcome in outcomes:
            self._account(outcome)

    def knows(self, group: GroupRef) -> bool:
        return group in self._targets

    def delete(self, batch: Batch, label: str) -> Ended:
        """One call for all of them; ``label`` names it in the audit."""
        action = as_deletion([going.removal for going in batch.members], self._targets[batch.group])
        (outcome,) = self._calls.act([action], label)
        self._account(outcome)
        return outcome

    def _account(self, outcome: Ended) -> None:
        group, held = outcome.action.group, self._targets.get(outcome.action.group)
        match outcome:
            case Done() if held is not None:
                self._targets[group] = held + _sign(outcome.action) * outcome.accepted
            case Unknown() | Failed(code=TargetChanged.code):
                self._targets.pop(group, None)


def as_deletion(removals: Sequence[NodeRemoval], expected_target: int) -> DeleteInstances:
    """The call that ends removals of one group."""
    reasons = dict.fromkeys(str(removal.reason) for removal in removals)
    return DeleteInstances(
        group=removals[0].group,
        expected_target=expected_target,
        instance_ids=tuple(removal.instance_id for removal in removals),
        reason=f"{REMOVAL}{', '.join(reasons)}",
    )


def _sign(action: SizeWrite | GroupWrite) -> int:
    if isinstance(action, GroupWrite):
        return 0
    return 1 if isinstance(action, IncreaseSize) else -1
