"""Returns: move pods back to groups that are preferred to those where they run, once these may grow (docs/consolidation.md).

With the expander ``priority`` groups of a higher priority are preferred; otherwise spot groups to those that are not spot.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from random import Random
from typing import NamedTuple

from nodewright.expander import PRIORITY, find_priorities
from nodewright.model.disruption import DisruptionReason
from nodewright.model.group import GroupRef
from nodewright.model.plan import OutdatedNode
from nodewright.model.reason import SkipCode, SkipReason
from nodewright.planner.consolidation.find_moves import Proposal
from nodewright.planner.consolidation.sources import SourceRules, why_outside
from nodewright.planner.consolidation.unpriced import find_unpriced
from nodewright.planner.context import PlanningContext
from nodewright.planner.renewal import RenewalSearch
from nodewright.planner.scale_down.node_removal import destination_rows
from nodewright.planner.scale_up.options import skip_reason
from nodewright.planner.scale_up.orchestrator import expanders_in_force

# How many nodes one search looks at.
_MOST_EXAMINED = 10
_NOT_PREFERRED = SkipReason(code=SkipCode.NOT_CHOSEN, message="it is not preferred to the group of the node")
_NO_PRICE = SkipReason(code=SkipCode.NOT_CHOSEN, message="it has no price (--consolidation-policy=auto)")
_RESTS = SkipReason(code=SkipCode.NOT_CHOSEN, message="a move to it failed lately")


class FoundReturn(NamedTuple):
    """The result of a search for a return.

    ``proposal``: a move of a node's pods to new nodes of preferred groups (None: none costs no more than the node).
    ``unreturned``: the nodes that searches examined in vain, in their order. ``has_more``: whether others were not examined.
    ``savings``: what the move saves, in USD an hour (None: a price is not known).
    """

    proposal: Proposal | None = None
    unreturned: tuple[str, ...] = ()
    has_more: bool = False
    savings: float | None = None


NO_RETURN = FoundReturn()


def find_return(
    context: PlanningContext,
    consolidate_after: float,
    settled: Mapping[str, str],
    random: Random,
    unreturned: Sequence[str] = (),
    *,
    only_priced: bool,
) -> FoundReturn:
    """Find a return of one node's pods.

    ``consolidate_after``: for how many seconds no pod has come to the node. ``settled``: nodes that must stay, and groups
    (``provider/group``) to which pods must not go back, and why. ``unreturned``: nodes that are examined after all others,
    in this order. ``only_priced``: pods go only from a node with a known price to nodes with one.
    """
    ranks, unpriced = find_ranks(context), find_unpriced(context.state)
    groups = context.state.groups
    closed = {ref for ref, group in groups.items() if only_priced and not group.seen.hourly_price}
    growing = [
        ref
        for ref in context.templates
        if ref in ranks and ref not in closed and str(ref) not in settled and skip_reason(context, ref) is None
    ]
    highest = max((ranks[ref] for ref in growing), default=None)
    if highest is None or all(rank >= highest for rank in ranks.values()):
        return FoundReturn(unreturned=tuple(unreturned))
    rules = SourceRules(context, consolidate_after, settled)
    below = _below(context, ranks, highest, rules, {name: turn for turn, name in enumerate(unreturned, start=1)})
    tried = list[str]()
    if only_priced:
        below = ((name, ref) for name, ref in below if name not in unpriced and not why_outside(context.state, ref))
    for name, ref in islice(below, _MOST_EXAMINED):
        tried.append(name)
        barred = {
            other: why
            for other in context.templates
            if (why := _why_barred(other, ranks, ranks[ref], settled, closed)) is not None
        }
        node = OutdatedNode(node=name, group=ref, reason=DisruptionReason.PREFERRED, why="a preferred group may grow")
        search = RenewalSearch(context, [node], random, barred=barred)
        search.take([node])
        proposal, _ = search.result()
        if proposal is None or not proposal.new_nodes:
            continue
        before = groups[ref].seen.hourly_price if name not in unpriced else None
        savings = _savings(context, before, (new.group for new in proposal.new_nodes))
        if savings is None or savings >= 0:
            return FoundReturn(replace(proposal, savings=savings or 0.0), tuple(unreturned), savings=savings)
    has_more = next(below, None) is not None
    known = [name for name in unreturned if name in context.snapshot and name not in tried]
    return FoundReturn(None, (*known, *tried), has_more)


def _why_barred(
    ref: GroupRef, ranks: Mapping[GroupRef, int], rank: int, settled: Mapping[str, str], closed: Collection[GroupRef]
) -> SkipReason | None:
    """Return why pods of a node whose group has ``rank`` do not go back to a group; None: they may."""
    if ranks.get(ref, -1) <= rank:
        return _NOT_PREFERRED
    if ref in closed:
        return _NO_PRICE
    return _RESTS if str(ref) in settled else None


def find_ranks(context: PlanningContext) -> Mapping[GroupRef, int]:
    """Return the rank of each group that has one; a group of a higher rank is preferred."""
    groups = context.state.groups
    if PRIORITY in expanders_in_force(context):
        priorities = find_priorities((ref.group_id for ref in groups), context.state.observation.priorities)
        return {ref: priorities.get(ref.group_id, -1) for ref in groups} if priorities else {}
    prices = {ref: group.seen.price for ref, group in groups.items()}
    return {ref: int(price.spot) for ref, price in prices.items() if price is not None}


def _below(
    context: PlanningContext,
    ranks: Mapping[GroupRef, int],
    highest: int,
    rules: SourceRules,
    turns: Mapping[str, int],
) -> Iterator[tuple[str, GroupRef]]:
    """Yield the nodes that may go and whose group is not of the highest rank: in their turns, then those of the lowest rank first."""
    state, snapshot = context.state, context.snapshot
    names = ((int(row), snapshot.name(int(row))) for row in destination_rows(snapshot, state).nonzero()[0])
    refs = ((row, name, state.group_of_node.get(name)) for row, name in names)
    below = [(row, name, ref) for row, name, ref in refs if ref is not None and ranks.get(ref, highest) < highest]
    for row, name, ref in sorted(below, key=lambda one: (turns.get(one[1], 0), ranks[one[2]], one[1])):
        if not rules.why_stays(row, name, ref) and not rules.why_pods_stay(row):
            yield name, ref


def _savings(context: PlanningContext, before: float | None, new: Iterable[GroupRef]) -> float | None:
    """Return how much more a node costs than new nodes of these groups, in USD an hour; None: that is not known.

    ``before``: the price of the node.
    """
    after = [context.state.groups[one].seen.hourly_price for one in new]
    known = [price for price in after if price is not None]
    if before is None or len(known) < len(after):
        return None
    # Sums of floats: three nodes at 0.1 cost as much as one at 0.3.
    return 0.0 if math.isclose(before, sum(known)) else before - sum(known)
