"""Check moves: a node is in one move, new nodes cost less than the old ones, and nothing is drained before they are ready.

The check is written from the rules alone. It shares no code with the planner. Sizes and quotas of the new nodes are
checked like those of all growth (``actions.py``), the places of pods like those of all removals (``removals.py``).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
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
    times = Counter(name for move in live for name in move.sources)
    sources = {name: move for move in live for name in move.left}
    for removal in removals:
        if removal.node in sources:
            found += [PlanViolation(removal, rule) for rule in _broken_by_removal(seen, removal, sources, times)]
    for move in live:
        if move.stage != MoveStage.PROPOSED:
            continue
        rules = list(_broken(seen, move, times))
        wanted = _counts(move)
        for action in actions:
            if isinstance(action, IncreaseSize) and action.group in wanted:
                found += [PlanViolation(action, rule) for rule in rules]
                grown = action.target - action.expected_target
                if grown > wanted[action.group]:
                    text = f"group {action.group} grows by {grown}, and move {move.id} needs {wanted[action.group]}"
                    found.append(PlanViolation(action, text))
    return tuple(found)


def _broken_by_removal(
    seen: Observation, removal: NodeRemoval, sources: Mapping[str, Move], times: Mapping[str, int]
) -> Iterator[str]:
    """Yield what forbids to remove a source now; a machine that the cloud takes goes in any case."""
    if removal.is_forced:
        return
    move = sources[removal.node]
    if times[removal.node] > 1:
        yield f"node {removal.node} is in two moves"
    if move.added and move.stage not in _DRAINS:
        yield f"node {removal.node} is drained before the new nodes of move {move.id} are ready ({move.stage})"
    for place in dict.fromkeys(filter(None, removal.places)):
        if place in sources:
            yield f"pods of node {removal.node} are to go to node {place}, which move {sources[place].id} gives up"
        if not _is_ready(seen, place):
            yield f"pods of node {removal.node} are to go to node {place}, which is not ready"


def _is_ready(seen: Observation, name: str) -> bool:
    row = seen.snapshot.find_row(name)
    conditions = seen.snapshot.node(row).status.conditions if row is not None else ()
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def _counts(move: Move) -> Counter[GroupRef]:
    """Return how many nodes of each group the move adds."""
    found = Counter[GroupRef]()
    for one in move.added:
        found[one.group] += one.nodes
    return found


def _broken(seen: Observation, move: Move, times: Mapping[str, int]) -> Iterator[str]:
    for name in move.sources:
        if times[name] > 1:
            yield f"node {name} is in two moves"
        if name not in seen.snapshot:
            yield f"move {move.id} gives up node {name}, which is not there"
        if name in seen.removing:
            yield f"move {move.id} gives up node {name}, which is being removed"
    if move.reason not in _COSTS_LESS:
        return
    prices = {ref: seen.groups[ref].hourly_price if ref in seen.groups else None for ref in _counts(move)}
    unpriced = [ref for ref, price in prices.items() if price is None]
    yield from (f"what the nodes of group {ref} cost is not known, and move {move.id} adds some" for ref in unpriced)
    price = sum((prices[ref] or 0.0) * count for ref, count in _counts(move).items())
    before = _price_of(seen, move.sources)
    if before is None:
        yield f"what the old nodes of move {move.id} cost is not known"
    elif not unpriced and price >= before:
        yield f"the new nodes of move {move.id} cost ${price:.4f} an hour, and the old ones ${before:.4f}"


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
