"""The report of one loop."""

import math
from dataclasses import dataclass

from nodewright.actuation.cloud_writes import WriteOutcome
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import CreateNodeGroup, Done, Failed, IncreaseSize
from nodewright.model.errors import TargetChanged
from nodewright.model.plan import Plan
from nodewright.model.removal import NodeRemoval, Removing
from nodewright.validate import PlanViolation


@dataclass(frozen=True, kw_only=True)
class LoopReport:
    """The record of one loop: what it saw, decided and did; times in epoch seconds.

    ``state`` and ``plan`` are None when the cluster could not be read. ``problem`` says why nothing was done
    although something was planned, or why nothing could be planned. ``next_timer`` is the moment after which
    time alone may change a decision. The next loop starts at ``wake_at``, even within the scan interval, because a deadline
    has passed that pods wait for (inf: there is none). ``begun`` are removals that started in this loop,
    ``removing`` all that are under way after it. ``loop`` names it, as in the audit.
    """

    started: float
    finished: float
    loop: str = ""
    state: ClusterState | None = None
    plan: Plan | None = None
    outcomes: tuple[WriteOutcome, ...] = ()
    violations: tuple[PlanViolation, ...] = ()
    problem: str = ""
    begun: tuple[NodeRemoval, ...] = ()
    removing: tuple[Removing, ...] = ()
    next_timer: float = math.inf
    wake_at: float = math.inf

    @property
    def was_refused(self) -> bool:
        """Return whether an increase or the creation of a group failed: its pods are planned again at once.

        A size that another writer changed does not count: nothing is backed off, and the retries might never end.
        """
        growth = (outcome for outcome in self.outcomes if isinstance(outcome.action, (IncreaseSize, CreateNodeGroup)))
        return any(
            (isinstance(outcome, Failed) and outcome.code != TargetChanged.code)
            or (isinstance(outcome, Done) and isinstance(outcome.action, IncreaseSize) and not outcome.accepted)
            for outcome in growth
        )

    @property
    def increases(self) -> int:
        """Return how many increases this loop requested, including those that failed."""
        return sum(isinstance(ended.action, IncreaseSize) for ended in self.outcomes)

    @property
    def grew(self) -> bool:
        """Return whether the cloud accepted an increase."""
        return any(isinstance(ended, Done) and isinstance(ended.action, IncreaseSize) for ended in self.outcomes)

    @property
    def binds_pods(self) -> bool:
        """Return whether pending pods fit on existing or upcoming nodes, so that kube-scheduler will bind them."""
        return self.plan is not None and bool(self.plan.fitting)

    @property
    def upcoming_machines(self) -> int:
        """Return how many machines were on their way when this loop read the cluster; 0 if it could not be read."""
        return sum(group.upcoming for group in self.state.groups.values()) if self.state is not None else 0

    @property
    def awaited_machines(self) -> int:
        """Return how many machines are on their way after this loop while pods wait for some; 0: none wait."""
        if not (self.grew or self.binds_pods):
            return 0
        bought = (
            ended for ended in self.outcomes if isinstance(ended, Done) and isinstance(ended.action, IncreaseSize)
        )
        return self.upcoming_machines + sum(ended.accepted for ended in bought)

    @property
    def did_something(self) -> bool:
        """Return whether a group grew, a removal began or a request was examined: CA's loop trigger needs it."""
        return self.grew or bool(self.begun) or (self.plan is not None and self.plan.provisioning.examined)

    @property
    def leaves_pods(self) -> bool:
        """Return whether a group grew and another one helps the remaining pods: the next loop plans for these."""
        if not self.grew or self.plan is None:
            return False
        awaiting = set[int]()  # by the last report on each pod; the very last report may be on a gang
        for report in (self.plan.scale_up, *self.plan.salvo):
            awaiting.difference_update(map(id, report.triggered), (id(one.pod) for one in report.unhelped))
            awaiting.update(map(id, report.awaiting))
        return bool(awaiting)

    @property
    def plans_anew(self) -> bool:
        """Return whether the next loop is due at once, for pods of this one."""
        return self.was_refused or self.leaves_pods

    @property
    def is_settled(self) -> bool:
        """Return whether the next loop would do nothing new before ``next_timer`` if nothing changes."""
        if self.state is None or self.problem or self.violations or self.outcomes or self.begun:
            return False
        if self.plan is not None and (
            self.plan.provisioning.has_writes or self.plan.quotas or self.plan.buffers.writes
        ):
            return False
        seen = self.state.observation
        troubled = any(group.problem for group in seen.groups.values())
        return not troubled and not any(provider.problem for provider in seen.providers.values())
