"""What is laid before the judge of one group, whichever the rule of size correction."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from nodewright.clusterstate.provisioning import Shortfall
from nodewright.clusterstate.requests import Increase
from nodewright.clusterstate.state import GroupState, Memory, Readiness, ScaleUpRequest
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.group import FailedInstance, GroupRef
from nodewright.model.settings import Settings
from nodewright.snapshot.observation import GroupSeen


@dataclass(frozen=True, kw_only=True)
class GroupContext:
    """One group now (``seen``, ``readiness``), how our calls to it ended since, and what was known before.

    ``arrived`` are machines that became nodes since, but for those that had been given up, told by their ids.
    ``shortfall`` is what the group is found to owe a reservation for good.
    """

    seen: GroupSeen
    readiness: Readiness
    outcomes: tuple[Outcome, ...]
    memory: Memory
    settings: Settings
    now: float
    arrived: int = 0
    shortfall: Shortfall | None = None

    @property
    def ref(self) -> GroupRef:
        return self.seen.ref

    @property
    def target(self) -> int:
        """The group's size as wanted; 0 for one that could never be read."""
        return self.seen.target or 0

    @property
    def patience(self) -> float:
        """Seconds that a machine may take to become a node."""
        return self.seen.options.max_node_provision_seconds

    @property
    def requests(self) -> tuple[ScaleUpRequest, ...]:
        """The requests known before, oldest first."""
        return self.memory.requests.get(self.ref, ())

    @property
    def increases(self) -> list[Increase]:
        """What was asked for since."""
        return find_increases(self.outcomes)

    @cached_property
    def new_failures(self) -> tuple[FailedInstance, ...]:
        """Failures that are reported for the first time."""
        known = self.memory.seen_failures
        return tuple(f for f in self.seen.failed or () if (self.ref, f.failure_id) not in known)

    @cached_property
    def newly_disputed(self) -> tuple[FailedInstance, ...]:
        """Reports of failed creations that are told for the first time of machines that ran."""
        return tuple(one for one in self.seen.disputed if (self.ref, one.instance_id) not in self.memory.ran)

    @property
    def doubtful(self) -> int:
        """Return how many machines are called failed and have lost their node: nobody waits for them.

        One that has run and never was a node is still on its way.
        """
        disputed = {one.instance_id for one in self.seen.disputed}
        lost = disputed.intersection(self.readiness.unregistered)
        return sum((self.ref, instance_id) not in self.memory.never_ran for instance_id in lost)


def find_increases(outcomes: Iterable[Outcome]) -> list[Increase]:
    """What was asked for. Without an answer it counts in full."""
    found = []
    for outcome in outcomes:
        action = outcome.action
        if isinstance(action, IncreaseSize) and not isinstance(outcome, Failed):
            asked = action.target - action.expected_target
            machines = outcome.accepted if isinstance(outcome, Done) else asked
            found.append(
                Increase(
                    machines,
                    outcome.started,
                    accepted=isinstance(outcome, Done),
                    atomic=action.request is not None,
                    hedged=action.hedged,
                    hedge_for=action.hedge_for,
                )
            )
    return [increase for increase in found if increase.machines > 0]


Judge = Callable[[GroupContext], GroupState]
