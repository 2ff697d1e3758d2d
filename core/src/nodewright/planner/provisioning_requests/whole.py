"""Growth of all or nothing (behaviour/up.md §4.3 with all-or-nothing): never less than what was asked for, never probed."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import allowance
from nodewright.estimator.limits import UNLIMITED
from nodewright.expander.option import Option
from nodewright.model.action import IncreaseSize
from nodewright.model.capability import Capability
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.reason import Rejection, ScaleUpResult
from nodewright.planner.plan import Expansion, ScaleUpReport
from nodewright.planner.provisioning_requests.class_rules import NodeCap
from nodewright.planner.scale_up.balancing import balance_over, find_similar
from nodewright.planner.scale_up.context import ScaleUpContext
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.limits import CLUSTER_WIDE, Exceeded
from nodewright.planner.scale_up.options import option_of
from nodewright.planner.scale_up.orchestrator import ScaleUp, increases

NOT_WHOLE = Rejection(
    predicate="AllOrNothing", reasons=("not all pods would fit and scale-up is using all-or-nothing strategy",)
)


class WholeScaleUp(ScaleUp):
    """One scale-up that helps all of its pods, or none: CA's way, in which each limit cuts before the sum is looked at."""

    def plan(self) -> tuple[list[IncreaseSize], ScaleUpReport]:
        options = self._options()
        chosen = self._choose(options)
        if chosen is None:
            return [], self._report(ScaleUpResult.NO_OPTIONS, options)
        expansions, _ = self._spread(chosen)
        if sum(expansion.added for expansion in expansions) < chosen.node_count:
            self._postponed = NOT_WHOLE
            return [], self._report(ScaleUpResult.NO_OPTIONS, options)
        actions = increases(expansions, chosen.pods)
        whole = [changed(action, atomic=self._is_atomic(action.group)) for action in actions]
        return whole, self._report(ScaleUpResult.SUCCESSFUL, options, chosen, expansions)

    def _options(self) -> list[Option]:
        """Those that help every pod."""
        return [option for option in super()._options() if len(option.pods) == self._wanted]

    @property
    def _wanted(self) -> int:
        return sum(len(group.pods) for group in self._groups)

    def _make_probation(self, may_grow: Collection[GroupRef]) -> Probation:  # noqa: ARG002 - a part of a whole proves nothing
        return Probation(self._context, (), self._fit)

    def _is_atomic(self, ref: GroupRef) -> bool:
        """Does its cloud grant all of an increase or nothing?"""
        return Capability.ATOMIC_RESIZE in self._context.state.groups[ref].seen.capabilities


class SizedScaleUp(WholeScaleUp):
    """One that is sized without any limit, and then granted or refused by them; ``refusals`` says why, group by group.

    It is spread over groups alike where those are balanced, and also where one alone has not room enough.
    """

    def __init__(self, ground: ScaleUpContext, pods: Sequence[Pod], random: Random, cap: NodeCap | None) -> None:
        super().__init__(ground, pods, random)
        self.refusals: Mapping[GroupRef, str] = {}
        self._cap = cap

    def _options(self) -> list[Option]:
        self.refusals = {ref: str(reason) for ref, reason in self._skipped.items()}
        found = []
        for ref in self._context.state.groups:
            if ref in self._skipped:
                continue
            option, problem = self._size_up(ref)
            if option is not None and not problem:
                found.append(option)
            else:
                self.refusals[ref] = problem
        return self._proven(found) or found

    def _proven(self, options: Sequence[Option]) -> list[Option]:
        """Return the options of groups that are not on probation.

        A request cannot be tried with a part of it. Two groups that fail by turns would keep it from a sound one.
        """
        state = self._context.state
        return [option for option in options if allowance(state.groups[option.group].backoff, state.now) is None]

    def _size_up(self, ref: GroupRef) -> tuple[Option | None, str]:
        """What it takes, and the limit that is in the way."""
        for group in self._groups:
            rejection = self._fit.rejection(group.pod_class, ref)
            if rejection is not None:
                return None, f"pod {group.pods[0].name} does not fit its nodes: {rejection}"
        estimate = self._fit.estimate(ref, self._groups, UNLIMITED, fastpath=False)
        option = option_of(self._context, ref, estimate)
        if option is None or len(option.pods) < self._wanted:
            return None, "not all pods fit on its nodes together"
        return option, self._limit_in_the_way(option)

    def _limit_in_the_way(self, option: Option) -> str:
        ground, wanted = self._context, option.node_count
        if self._cap is not None and self._cap.left < wanted:
            return f"it takes {wanted} nodes, and {self._cap}"
        rooms = {ref: ground.room(ref) for ref in (option.group, *self._alike(option.group))}
        if sum(rooms.values()) < wanted:
            return f"it takes {wanted} nodes, and the maximum size leaves {sum(rooms.values())}"
        left = ground.nodes_left
        if left is not None and left < wanted:
            return f"it takes {wanted} nodes, and --max-nodes-total leaves {max(0, left)}"
        allowed, exceeded = ground.quota.allowed(option.node, wanted)
        if allowed < wanted:
            return f"it takes {wanted} nodes, and {_name(exceeded)} leave {allowed}"
        expansions = balance_over(replace(ground, quota=ground.quota.fork()), self._refs(option), wanted, {})
        dealt = sum(expansion.added for expansion in expansions)
        return "" if dealt == wanted else f"it takes {wanted} nodes, and the cluster's limits leave {dealt}"

    def _spread(self, chosen: Option) -> tuple[tuple[Expansion, ...], bool]:
        return balance_over(self._context, self._refs(chosen), chosen.node_count, {}), False

    def _refs(self, option: Option) -> list[GroupRef]:
        """The group, with those alike if they are balanced or it has not room enough for all."""
        balances = self._context.settings.scale_up.balance_similar_node_groups
        alone = not balances and self._context.room(option.group) >= option.node_count
        refs = [option.group] if alone else [option.group, *self._alike(option.group)]
        return sorted(refs, key=list(self._context.state.groups).index)

    def _alike(self, ref: GroupRef) -> list[GroupRef]:
        settings = self._context.settings
        balancing = changed(settings, scale_up=changed(settings.scale_up, balance_similar_node_groups=True))
        ground = replace(self._context, settings=balancing)
        return [other for other in find_similar(ground, ref, self._groups, self._fit) if other not in self._skipped]


def _name(exceeded: Iterable[Exceeded]) -> str:
    """The limits in the way, in words that say where each is set."""
    said = []
    for quota, resources in exceeded:
        where = "the cluster's limits" if quota == CLUSTER_WIDE else f"the limits of {quota}"
        said.append(f"{where} ({', '.join(resources)})")
    return " and ".join(said)
