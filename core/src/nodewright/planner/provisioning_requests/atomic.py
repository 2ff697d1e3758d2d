"""All-or-nothing scale-up: it never adds fewer nodes than the pods need, and never probes a group with a part of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random

from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import allowance
from nodewright.estimator.new_nodes import UNLIMITED
from nodewright.expander import Option
from nodewright.model.action import ForRequest, IncreaseSize
from nodewright.model.capability import Capability
from nodewright.model.group import GroupRef
from nodewright.model.plan import Expansion, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.provisioning_request import ProvisioningRequest
from nodewright.model.reason import Rejection, ScaleUpResult
from nodewright.planner.context import PlanningContext
from nodewright.planner.limits import CLUSTER_WIDE, Exceeded
from nodewright.planner.provisioning_requests.classes import ClassNodeLimit
from nodewright.planner.scale_up.balancing import balance_over, find_similar
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.options import make_option
from nodewright.planner.scale_up.orchestrator import ScaleUp, increases

NOT_WHOLE = Rejection(
    predicate="AllOrNothing", reasons=("not all pods would fit and scale-up is using all-or-nothing strategy",)
)


class AllOrNothingScaleUp(ScaleUp):
    """One scale-up that helps all of its pods or none, as CA plans it: limits cut the options before they are compared."""

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
        atomic = [changed(action, atomic=self._is_atomic(action.group)) for action in actions]
        return atomic, self._report(ScaleUpResult.SUCCESSFUL, options, chosen, expansions)

    def _options(self) -> list[Option]:
        """Return the options that help every pod."""
        return [option for option in super()._options() if len(option.pods) == self._wanted]

    @property
    def _wanted(self) -> int:
        return sum(len(group.pods) for group in self._groups)

    def _make_probation(self, may_grow: Collection[GroupRef]) -> Probation:  # noqa: ARG002 - a part of it proves nothing
        return Probation(self._context, (), self._fit)

    def _is_atomic(self, ref: GroupRef) -> bool:
        """Return whether the group's cloud resizes atomically: all of an increase or nothing."""
        return Capability.ATOMIC_RESIZE in self._context.state.groups[ref].seen.capabilities


class AtomicScaleUp(AllOrNothingScaleUp):
    """One scale-up for a request, as nodewright plans it: first sized without limits, then allowed or refused by them.

    ``refusals`` says for each group why it is refused. Nodes are spread over similar groups if groups are balanced, or if
    one group alone has not enough room.
    """

    def __init__(
        self, context: PlanningContext, pods: Sequence[Pod], random: Random, limit: ClassNodeLimit | None
    ) -> None:
        super().__init__(context, pods, random)
        self.refusals: Mapping[GroupRef, str] = {}
        self._limit = limit

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

        A request cannot probe a group with a part of it. Two groups that fail in turn would keep it from a healthy one.
        """
        state = self._context.state
        return [option for option in options if allowance(state.groups[option.group].backoff, state.now) is None]

    def _size_up(self, ref: GroupRef) -> tuple[Option | None, str]:
        """Return the option of a group (None: the pods do not fit its nodes), and why it is refused (empty: it is allowed)."""
        for group in self._groups:
            rejection = self._fit.rejection(group.pod_class, ref)
            if rejection is not None:
                return None, f"pod {group.pods[0].name} does not fit its nodes: {rejection}"
        estimate = self._fit.estimate(ref, self._groups, UNLIMITED, fastpath=False)
        option = make_option(self._context, ref, estimate)
        if option is None or len(option.pods) < self._wanted:
            return None, "not all pods fit on its nodes together"
        return option, self._limit_in_the_way(option)

    def _limit_in_the_way(self, option: Option) -> str:
        context, wanted = self._context, option.node_count
        if self._limit is not None and self._limit.left < wanted:
            return f"it takes {wanted} nodes, and {self._limit}"
        rooms = {ref: context.room(ref) for ref in (option.group, *self._similar_groups(option.group))}
        if sum(rooms.values()) < wanted:
            return f"it takes {wanted} nodes, and the maximum size leaves {sum(rooms.values())}"
        left = context.nodes_left
        if left is not None and left < wanted:
            return f"it takes {wanted} nodes, and --max-nodes-total leaves {max(0, left)}"
        allowed, exceeded = context.quota.allowed(option.node, wanted)
        if allowed < wanted:
            return f"it takes {wanted} nodes, and {_name(exceeded)} leave {allowed}"
        expansions = balance_over(replace(context, quota=context.quota.fork()), self._refs(option), wanted, {})
        dealt = sum(expansion.added for expansion in expansions)
        return "" if dealt == wanted else f"it takes {wanted} nodes, and the cluster's limits leave {dealt}"

    def _spread(self, chosen: Option) -> tuple[tuple[Expansion, ...], bool]:
        return balance_over(self._context, self._refs(chosen), chosen.node_count, {}), False

    def _refs(self, option: Option) -> list[GroupRef]:
        """Return the group, and the similar ones if groups are balanced or it has not enough room for all nodes."""
        balances = self._context.settings.scale_up.balance_similar_node_groups
        alone = not balances and self._context.room(option.group) >= option.node_count
        refs = [option.group] if alone else [option.group, *self._similar_groups(option.group)]
        return sorted(refs, key=list(self._context.state.groups).index)

    def _similar_groups(self, ref: GroupRef) -> list[GroupRef]:
        settings = self._context.settings
        balancing = changed(settings, scale_up=changed(settings.scale_up, balance_similar_node_groups=True))
        context = replace(self._context, settings=balancing)
        return [other for other in find_similar(context, ref, self._groups, self._fit) if other not in self._skipped]


def _name(exceeded: Iterable[Exceeded]) -> str:
    """Return the exceeded limits by name, with where each is set."""
    said = []
    for quota, resources in exceeded:
        where = "the cluster's limits" if quota == CLUSTER_WIDE else f"the limits of {quota}"
        said.append(f"{where} ({', '.join(resources)})")
    return " and ".join(said)


def as_whole(request: ProvisioningRequest, actions: Iterable[IncreaseSize]) -> list[IncreaseSize]:
    """Return the increases marked as parts of one request, which needs all of them together."""
    parts = list(actions)
    whole = ForRequest(
        id=request.id, key=request.key, nodes=sum(action.target - action.expected_target for action in parts)
    )
    return [changed(action, request=whole) for action in parts]
