"""Scale-up: options, choice, limits, balance (behaviour/up.md §4.3)."""

from collections.abc import Iterable, Sequence
from random import Random

from nodewright.estimator.pod_group import PodGroup, group_pods
from nodewright.expander.chain import Market, choose
from nodewright.expander.option import Option
from nodewright.expander.price import find_unit_prices
from nodewright.model.action import IncreaseSize
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.model.reason import GroupReasons, Rejection, ScaleUpResult, SkipCode, SkipReason, Unhelped
from nodewright.planner.balance import balance_sizes
from nodewright.planner.candidates import Ground, find_similar, make_option, skip_reason
from nodewright.planner.gallery import Gallery
from nodewright.planner.plan import Expansion, OptionSummary, ScaleUpReport
from nodewright.snapshot.pod_class import PodClass

_NOT_CHOSEN = SkipReason(code=SkipCode.NOT_CHOSEN, message="another group was chosen in this loop")
_NO_ROOM_LEFT = SkipReason(code=SkipCode.NO_ROOM, message="the group may not grow by enough for this pod")


class ScaleUp:
    """One scale-up being planned."""

    def __init__(self, ground: Ground, pods: Sequence[Pod], random: Random) -> None:
        self._ground = ground
        self._random = random
        self._groups = group_pods(pods, ground.snapshot)
        reasons = {ref: skip_reason(ground, ref) for ref in ground.state.groups}
        self._skipped = {ref: reason for ref, reason in reasons.items() if reason is not None}
        self._gallery = Gallery(ground.snapshot, ground.templates)
        self._unhelped: dict[PodClass, GroupReasons] = {}

    def plan(self) -> tuple[list[IncreaseSize], ScaleUpReport]:
        """The increases to ask for, and the report that explains them."""
        options = self._options()
        chosen = self._choose(options)
        if chosen is None:
            return [], self._report(ScaleUpResult.NO_OPTIONS, options)
        expansions = self._spread(chosen)
        if not expansions:
            return [], self._report(ScaleUpResult.NO_OPTIONS, options)
        report = self._report(ScaleUpResult.SUCCESSFUL, options, chosen, expansions)
        helped = tuple(pod.key for pod in chosen.pods)
        return increases(expansions, helped), report

    def postpone(self, result: ScaleUpResult) -> ScaleUpReport:
        """The report when nothing may be asked for now, whatever would help."""
        return self._report(result, [])

    def _options(self) -> list[Option]:
        open_groups = (ref for ref in self._ground.state.groups if ref not in self._skipped)
        found = (make_option(self._ground, ref, self._groups, self._gallery) for ref in open_groups)
        return [option for option in found if option is not None]

    def _choose(self, options: Sequence[Option]) -> Option | None:
        ground = self._ground
        prices = []
        for ref, template in ground.templates.items():
            price, capacity = ground.state.groups[ref].seen.hourly_price, template.node.status.capacity
            if price is not None and "cpu" in capacity and "memory" in capacity:
                prices.append((price, capacity["cpu"].milli, capacity["memory"].value))
        market = Market(
            unit_prices=find_unit_prices(prices),
            cluster_nodes=ground.node_count,
            priorities=ground.state.observation.priorities,
        )
        expanders = [name.strip() for name in ground.settings.scale_up.expander.split(",")]
        return choose(options, expanders, market, self._random)

    def _spread(self, chosen: Option) -> tuple[Expansion, ...]:
        """The chosen nodes, capped by the cluster's limits and dealt to the group and those like it."""
        ground = self._ground
        left = ground.nodes_left
        wanted = chosen.node_count if left is None else min(chosen.node_count, left)
        wanted, _ = ground.quota.allowed(chosen.node, wanted)
        similar = find_similar(ground, chosen.group, self._groups, self._gallery)
        refs = [chosen.group, *(ref for ref in similar if ref not in self._skipped)]
        refs.sort(key=list(ground.state.groups).index)
        return spread_over(ground, refs, wanted)

    def _report(
        self,
        result: ScaleUpResult,
        options: Sequence[Option],
        chosen: Option | None = None,
        expansions: tuple[Expansion, ...] = (),
    ) -> ScaleUpReport:
        helped = {id(pod) for pod in chosen.pods} if chosen is not None else set()
        rest = [(group, pod) for group in self._groups for pod in group.pods if id(pod) not in helped]
        awaiting, unhelped = [], []
        for group, pod in rest:
            if chosen is not None and self._open_to(group) - {chosen.group}:
                awaiting.append(pod)
            else:
                unhelped.append(Unhelped(pod=pod, reasons=self._reasons(group.pod_class, chosen)))
        return ScaleUpReport(
            result=result,
            expansions=expansions,
            options=_summaries(options, chosen),
            triggered=chosen.pods if chosen is not None else (),
            awaiting=tuple(awaiting),
            unhelped=tuple(unhelped),
            skipped=self._skipped,
        )

    def _open_to(self, group: PodGroup) -> set[GroupRef]:
        return {ref for ref in self._gallery.fits(group.pod_class) if ref not in self._skipped}

    def _reasons(self, pod_class: PodClass, chosen: Option | None) -> GroupReasons:
        """A reason for every group; pods of a class share them."""
        held = self._unhelped.get(pod_class)
        if held is None:
            held = self._unhelped[pod_class] = {
                ref: self._reason(pod_class, ref, chosen) for ref in self._ground.state.groups
            }
        return held

    def _reason(self, pod_class: PodClass, ref: GroupRef, chosen: Option | None) -> Rejection | SkipReason:
        known = self._skipped.get(ref) or self._gallery.rejection(pod_class, ref)
        if known is not None:
            return known
        return _NO_ROOM_LEFT if chosen is None or chosen.group == ref else _NOT_CHOSEN


def spread_over(ground: Ground, refs: Sequence[GroupRef], wanted: int) -> tuple[Expansion, ...]:
    """Deal nodes to groups, smallest first, and take from each what the cluster's limits leave."""
    seen = [ground.state.groups[ref].seen for ref in refs]
    sizes = balance_sizes([(group.target or 0, group.group.max_size) for group in seen], wanted)
    expansions = []
    for ref, group, new in zip(refs, seen, sizes, strict=True):
        current = group.target or 0
        node = ground.templates[ref].node
        allowed, _ = ground.quota.allowed(node, new - current)
        if new > current and allowed > 0:
            ground.quota.consume(node, allowed)
            maximum = group.group.max_size
            expansions.append(Expansion(group=ref, current=current, target=current + allowed, maximum=maximum))
    return tuple(expansions)


def increases(expansions: Iterable[Expansion], pods: tuple[str, ...] = ()) -> list[IncreaseSize]:
    """One call per expansion."""
    return [IncreaseSize(group=e.group, expected_target=e.current, target=e.target, pods=pods) for e in expansions]


def _summaries(options: Sequence[Option], chosen: Option | None) -> tuple[OptionSummary, ...]:
    return tuple(
        OptionSummary(group=o.group, nodes=o.node_count, pods=len(o.pods), chosen=o is chosen) for o in options
    )
