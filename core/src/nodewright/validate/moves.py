"""Check moves: a node is in one move, new nodes cost less than the old ones, and nothing is drained before they are ready.

The check is written from the rules alone. It shares no code with the planner. Sizes and quotas of the new nodes are
checked like those of all growth (``actions.py``), the places of pods like those of all removals (``removals.py``).
"""

from collections.abc import Iterator, Sequence

from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.move import Move, MoveStage
from nodewright.model.plan import PlannedAction
from nodewright.model.removal import NodeRemoval
from nodewright.snapshot.observation import Observation
from nodewright.validate.actions import PlanViolation

_COSTS_LESS = (DisruptionReason.UNDERUSED, DisruptionReason.REPLACED)
_DRAINS = (MoveStage.READY, MoveStage.DRAINING)


def check_moves(
    seen: Observation, moves: Sequence[Move], actions: Sequence[PlannedAction], removals: Sequence[NodeRemoval]
) -> tuple[PlanViolation, ...]:
    """Return every removal that comes too early, and the growth of every move that must not begin."""
    found = list[PlanViolation]()
    live = [move for move in moves if not move.stage.is_over]
    held = {name: move for move in live for name in move.left if move.stage not in _DRAINS}
    for removal in removals:
        move = held.get(removal.node)
        if move is not None and move.added:
            text = f"node {removal.node} is drained before the new nodes of move {move.id} are ready ({move.stage})"
            found.append(PlanViolation(removal, text))
    for move in live:
        if move.stage != MoveStage.PROPOSED:
            continue
        rules = list(_broken(seen, move, [other for other in live if other is not move]))
        groups = {one.group for one in move.added}
        growth = [action for action in actions if isinstance(action, IncreaseSize) and action.group in groups]
        found += [PlanViolation(action, rule) for action in growth for rule in rules]
    return tuple(found)


def _broken(seen: Observation, move: Move, others: Sequence[Move]) -> Iterator[str]:
    taken = {name for other in others for name in other.sources}
    for name in move.sources:
        if name in taken or move.sources.count(name) > 1:
            yield f"node {name} is in two moves"
        if name not in seen.snapshot:
            yield f"move {move.id} gives up node {name}, which is not there"
        if name in seen.removing:
            yield f"move {move.id} gives up node {name}, which is being removed"
    price = {group.group: (seen.groups[group.group].hourly_price or 0.0) * group.nodes for group in move.added}
    before = _price_of(seen, move.sources)
    if move.reason in _COSTS_LESS and before is not None and sum(price.values()) >= before:
        yield f"the new nodes of move {move.id} cost ${sum(price.values()):.4f} an hour, and the old ones ${before:.4f}"


def _price_of(seen: Observation, names: Sequence[str]) -> float | None:
    """Return what nodes cost, in USD an hour; None if the machine or the price of one is not known."""
    group_of = {instance.id.lower(): ref for ref, group in seen.groups.items() for instance in group.instances or ()}
    total = 0.0
    for name in names:
        row = seen.snapshot.find_row(name)
        ref = group_of.get(seen.snapshot.node(row).spec.provider_id.lower()) if row is not None else None
        price = seen.groups[ref].hourly_price if ref is not None else None
        if price is None:
            return None
        total += price
    return total
