"""Hedging: machines that are bought twice, because a group is silent or on probation (docs/adr/0022-hedging.md)."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

import msgspec

from nodewright.clusterstate.backoff import allowance
from nodewright.clusterstate.state import GroupState
from nodewright.estimator.binpacking import Template
from nodewright.model.action import DecreaseTargetSize, IncreaseSize, SizeWrite
from nodewright.model.group import GroupRef
from nodewright.model.plan import ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.planner.context import PlanningContext, with_targets
from nodewright.planner.scale_up.orchestrator import ScaleUp
from nodewright.planner.scale_up.pending_pods import take_fitting
from nodewright.planner.scale_up.planned_nodes import fill_machines
from nodewright.planner.scale_up.templates import place_daemons
from nodewright.snapshot.snapshot import Snapshot

HEDGE_IS_OVER = "the hedge is not needed any more: its pods have a place elsewhere"

_OWES_MACHINES = SkipReason(code=SkipCode.SILENT, message="machines that it was asked for may not come")
_IN_USE = SkipReason(code=SkipCode.NOT_CHOSEN, message="its size changes in this loop already")
_NEW = SkipReason(code=SkipCode.NOT_CHOSEN, message="it does not exist yet")
_WHOLE = SkipReason(code=SkipCode.NOT_CHOSEN, message="it grows only from zero to its maximum size")


@dataclass(frozen=True, kw_only=True)
class UncertainPlacements:
    """Pods that fit only on upcoming machines that may not come.

    ``sure``: the snapshot without these machines, with the pods that fit there. ``pods``: the other pods, by the group
    whose machines take them. ``unused``: how many uncertain machines no pod needs.
    """

    sure: Snapshot
    pods: Mapping[GroupRef, Sequence[Pod]]
    unused: int


def uncertain_rows(context: PlanningContext, placed: Iterable[Pod] = ()) -> dict[GroupRef, list[int]]:
    """Return the rows of uncertain machines that hold no pods besides those of ``placed``.

    Rows on which a request or a gang holds room are left out.
    """
    found, known = {}, set(map(id, placed))
    for ref, silence in context.silent.items():
        free = [row for row in context.coming.get(ref, ()) if known.issuperset(map(id, context.snapshot.pods(row)))]
        if free:
            found[ref] = free[-silence.machines :]
    return found


def find_uncertain_placements(
    context: PlanningContext, rows: Mapping[GroupRef, Sequence[int]]
) -> UncertainPlacements | None:
    """Return which pods that fit now rely on uncertain machines; None if there are none."""
    if not rows:
        return None
    sure = context.snapshot.fork()
    waiting = [pod for held in rows.values() for row in held for pod in sure.pods(row)]
    for held in rows.values():
        for row in held:
            sure.remove_node(row)
    _, left = take_fitting(sure, waiting)
    full = sure.fork()
    again = {ref: _add_machines(full, context.templates[ref], len(held)) for ref, held in rows.items()}
    _, homeless = take_fitting(full, left)
    if homeless:
        # A new search did not find such a tight mix again: each pod stays where it was planned.
        stay = set(map(id, left))
        held_by = {ref: [_chosen(context.snapshot.pods(row), stay) for row in held] for ref, held in rows.items()}
    else:
        held_by = {ref: [list(full.pods(row)) for row in held] for ref, held in again.items()}
    pods = {
        ref: [pod for alike in nodes for pod in alike if not pod.is_daemonset_pod] for ref, nodes in held_by.items()
    }
    unused = sum(not alike for nodes in held_by.values() for alike in nodes)
    return UncertainPlacements(sure=sure, pods=pods, unused=unused)


def _chosen(pods: Iterable[Pod], chosen: Collection[int]) -> list[Pod]:
    return [pod for pod in pods if id(pod) in chosen]


def with_hedges(
    context: PlanningContext,
    uncertain: UncertainPlacements,
    growth: Sequence[ScaleUpReport],
    planned: Sequence[SizeWrite],
    random: Random,
) -> tuple[list[SizeWrite], ScaleUpReport | None]:
    """Return the planned writes with machines of other groups for pods that rely on uncertain machines.

    ``growth``: what this plan buys for other pods; its spare room is used first. A group that already grows gets more
    in the same call. If the uncertain machines come after all, at most ``--max-hedged-nodes`` are surplus, and no limit
    is exceeded.
    """
    planned = list(planned)
    pods = [pod for alike in uncertain.pods.values() for pod in alike]
    limit = _limit(context, uncertain, planned)
    if not pods or limit <= 0:
        return planned, None
    beside = _after(replace(context, snapshot=uncertain.sure.fork(), growth_limit=limit), planned)
    for report in growth:
        fill_machines(beside, report)
    _, left = take_fitting(beside.snapshot, pods)
    if not left:
        return planned, None
    increases, bought = ScaleUp(beside, left, random, _barred(context, planned)).plan()
    if not increases:
        return planned, None
    helped = set(map(id, bought.triggered))
    slow = tuple(ref for ref, alike in uncertain.pods.items() if any(id(pod) in helped for pod in alike))
    reason = f"hedged because {' and '.join(f'group {ref} {context.silent[ref].reason}' for ref in slow)}"
    for increase in increases:
        hedged = increase.target - increase.expected_target
        fresh = msgspec.structs.replace(increase, hedged=hedged, hedge_for=slow, reason=reason)
        _add(planned, fresh)
    return planned, replace(bought, awaiting=(), unhelped=())


def withdraw_surplus(
    context: PlanningContext, snapshots: Sequence[Snapshot], planned: Iterable[SizeWrite]
) -> Iterator[DecreaseTargetSize]:
    """Withdraw hedges that have no machine yet and that no pod needs in any of the snapshots."""
    if not context.settings.policy.doubts_silent_groups:
        return
    busy = {action.group for action in planned}
    pause = context.settings.failures.initial_node_group_backoff_duration
    for ref, group in context.state.groups.items():
        hedged = _hedges_under_way(group)
        rests = group.given_up or (group.withdrawn_at and group.withdrawn_at + pause > context.state.now)
        if not hedged or rests or ref in busy or not context.state.observation.groups[ref].is_known:
            continue
        unused = sum(_is_unused(row, snapshots) for row in context.coming.get(ref, ()))
        target = group.seen.target or 0
        surplus = min(hedged, unused, target - len(group.seen.staying), target - group.seen.group.min_size)
        if surplus > 0:
            yield DecreaseTargetSize(group=ref, expected_target=target, target=target - surplus, reason=HEDGE_IS_OVER)


def _is_unused(row: int, snapshots: Sequence[Snapshot]) -> bool:
    return all(snapshot.alive[row] and not snapshot.pods(row) for snapshot in snapshots)


def _add_machines(snapshot: Snapshot, template: Template, count: int) -> range:
    rows = snapshot.add_copies(template.node, count)
    place_daemons(snapshot, template, range(rows.start, rows.stop))
    return range(rows.start, rows.stop)


def _limit(context: PlanningContext, uncertain: UncertainPlacements, planned: Iterable[SizeWrite]) -> int:
    """Return how many machines may be bought as hedges now.

    Uncertain machines that no pod needs count as hedged: other machines have replaced them, perhaps more and smaller ones.
    """
    nodes = int(context.state.observation.snapshot.alive.sum())
    under_way = sum(_bought_twice(context, group) for group in context.state.groups.values())
    limit = context.settings.failures.most_hedged(nodes) - max(uncertain.unused, under_way)
    left = context.nodes_left
    if left is None:
        return limit
    bought = sum(action.target - action.expected_target for action in planned if isinstance(action, IncreaseSize))
    return min(limit, left - bought)


def _hedges_under_way(group: GroupState) -> int:
    return sum(request.owed_hedges for request in group.requests)


def _bought_twice(context: PlanningContext, group: GroupState) -> int:
    """Return how many of a group's hedges are still surplus: the hedged request is open, or no pod needs them."""
    running = over = 0
    for request in group.requests:
        firsts = [context.state.groups[ref] for ref in request.hedge_for if ref in context.state.groups]
        if any(asked.started <= request.started for first in firsts for asked in first.requests):
            running += request.owed_hedges
        else:
            over += request.owed_hedges
    if not over:
        return running
    return running + min(over, sum(_is_unused(row, [context.snapshot]) for row in context.coming.get(group.ref, ())))


def _after(context: PlanningContext, planned: Iterable[SizeWrite]) -> PlanningContext:
    """Return the context in which groups have the target sizes of the planned increases."""
    increases = (action for action in planned if isinstance(action, IncreaseSize))
    known = context.state.groups
    return with_targets(context, {action.group: action.target for action in increases if action.group in known})


def _add(planned: list[SizeWrite], hedge: IncreaseSize) -> None:
    """Add a hedge to the writes. If its group already grows, extend that call."""
    for place, action in enumerate(planned):
        if isinstance(action, IncreaseSize) and action.group == hedge.group:
            planned[place] = msgspec.structs.replace(
                action, target=hedge.target, hedged=hedge.hedged, hedge_for=hedge.hedge_for, reason=hedge.reason
            )
            return
    planned.append(hedge)


def _barred(context: PlanningContext, planned: Iterable[SizeWrite]) -> dict[GroupRef, SkipReason]:
    """Return the groups from which no hedge is bought."""
    reasons = {action.group: _IN_USE for action in planned if not _may_grow_more(action)}
    for ref, group in context.state.groups.items():
        if group.seen.options.zero_or_max_node_scaling or ref in context.new_groups:
            reasons[ref] = _WHOLE if ref not in context.new_groups else _NEW
    return reasons | dict.fromkeys(_find_doubtful(context), _OWES_MACHINES)


def _may_grow_more(action: SizeWrite) -> bool:
    """Return whether the write is growth for pods. Growth for a request is all or nothing."""
    return isinstance(action, IncreaseSize) and action.request is None and not action.atomic


def _find_doubtful(context: PlanningContext) -> Collection[GroupRef]:
    probation = context.settings.policy.probes_after_backoff
    groups = context.state.groups.items()
    on_probation = {
        ref for ref, group in groups if probation and allowance(group.backoff, context.state.now) is not None
    }
    return context.silent.keys() | on_probation
