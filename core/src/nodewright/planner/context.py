"""The values that the steps of one plan share."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nodewright.clusterstate.accelerators import NO_ACCELERATORS, Accelerators
from nodewright.clusterstate.memory import Purchases
from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.binpacking import Template
from nodewright.estimator.new_nodes import IsOver
from nodewright.model.group import GroupRef, NewNodeGroup
from nodewright.model.reason import SkipReason, Unremovable
from nodewright.model.settings import Settings
from nodewright.planner.late_machines import Silence
from nodewright.planner.limits import Quota
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


def deadline(elapsed: Callable[[], float], seconds: float) -> IsOver:
    """Return a function that returns whether more than ``seconds`` have passed since now; with 0 it returns False."""
    began = elapsed()
    return lambda: 0 < seconds < elapsed() - began


@dataclass(frozen=True, kw_only=True)
class PlanningContext:
    """The values that all steps of one plan share.

    ``snapshot``: the cluster with pending pods that fit and upcoming nodes. ``corrected``: groups whose size this plan
    corrects. ``new_groups``: groups that do not exist yet and are created when they grow. ``coming``: the rows of
    upcoming nodes. ``silent``: groups whose upcoming machines are not counted on. ``hedges_left``: how many more
    machines may be bought twice. ``growth_limit``: how many nodes may be added at most (None: no limit besides the
    others). ``room_by``: the plan counts on the room of preempted pods that must have ended by then (epoch seconds).
    ``barred``: groups that are not grown for a class of pods, because their nodes did not take such pods. ``purchases``:
    which groups were grown for which kinds of pods, and which of these machines did not take them. ``at_risk``: groups
    whose machines the cloud takes away: they grow only where no other group helps. ``in_moves``: nodes that scale-down
    leaves alone because they are part of a move, and why. ``marked``: nodes with the soft taint because a move removes them.
    """

    state: ClusterState
    settings: Settings
    snapshot: Snapshot
    templates: Mapping[GroupRef, Template]
    quota: Quota
    accelerators: Accelerators = NO_ACCELERATORS
    corrected: frozenset[GroupRef] = frozenset()
    new_groups: Mapping[GroupRef, NewNodeGroup] = field(default_factory=dict)
    coming: Mapping[GroupRef, Sequence[int]] = field(default_factory=dict)
    silent: Mapping[GroupRef, Silence] = field(default_factory=dict)
    hedges_left: int = 0
    growth_limit: int | None = None
    room_by: float = math.inf
    barred: Mapping[PodClass, Mapping[GroupRef, SkipReason]] = field(default_factory=dict)
    purchases: Purchases = field(default_factory=dict)
    at_risk: frozenset[GroupRef] = frozenset()
    in_moves: Mapping[str, Unremovable] = field(default_factory=dict)
    marked: frozenset[str] = frozenset()

    @property
    def node_count(self) -> int:
        return int(self.snapshot.alive.sum())

    def room(self, ref: GroupRef) -> int:
        """Return how many machines a group may still get by its maximum size."""
        seen = self.state.groups[ref].seen
        return max(0, seen.group.max_size - (seen.target or 0))

    @property
    def nodes_left(self) -> int | None:
        """Return how many nodes the cluster may still get; None without a limit."""
        limit = self.settings.limits.max_nodes_total
        left = limit - self.node_count if limit else None
        if left is None or self.growth_limit is None:
            return self.growth_limit if left is None else left
        return min(left, self.growth_limit)

    def allows(self, counts: Mapping[GroupRef, int]) -> bool:
        """Return whether the limits of the cluster allow these many new nodes of each group, all together."""
        left, quota = self.nodes_left, self.quota.fork()
        if left is not None and sum(counts.values()) > left:
            return False
        for ref, count in counts.items():
            node = self.templates[ref].node
            if quota.allowed(node, count)[0] < count:
                return False
            quota.consume(node, count)
        return True

    @property
    def new_groups_left(self) -> int:
        """Return how many groups may still be created, after those that this plan creates."""
        groups, listed = self.state.groups, self.state.observation.groups
        made = sum(bool(seen.group.autoprovisioned) for ref, seen in listed.items() if ref not in self.new_groups)
        planned = sum(bool(groups[ref].seen.target) for ref in self.new_groups)
        return self.settings.autoprovisioning.max_autoprovisioned_node_group_count - made - planned


def with_targets(context: PlanningContext, targets: Mapping[GroupRef, int]) -> PlanningContext:
    """Return the context in which these groups have these target sizes."""
    groups = dict(context.state.groups)
    for ref, target in targets.items():
        groups[ref] = replace(groups[ref], seen=replace(groups[ref].seen, target=target))
    return replace(context, state=replace(context.state, groups=groups))
