"""Explain for one node what giving it up for cheaper nodes would save and disrupt, and which rule keeps it."""

from collections import Counter
from math import isfinite
from random import Random

from msgspec.structs import replace

from nodewright.clusterstate.memory import MoveMemory
from nodewright.model.duration import format_moment
from nodewright.model.plan import Plan
from nodewright.model.settings import ConsolidationSettings
from nodewright.planner.consolidation import find_moves
from nodewright.planner.consolidation.score import LEAST_SCORE, NODE_DISRUPTION, disruption_of
from nodewright.planner.consolidation.sources import find_sources
from nodewright.planner.context import PlanningContext
from nodewright.planner.new_moves import find_held

_OTHERS = "only one node is looked at"


def explain_move(
    context: PlanningContext, held: MoveMemory, settings: ConsolidationSettings, plan: Plan, name: str, paused: str = ""
) -> str:
    """Return what it would save and disrupt to give up this node alone, and which rule keeps it.

    Empty: scale-down decides about the node. ``context`` is the cluster in which growth is planned, ``settings`` have the policy
    in force. ``paused``: which pause the node has, as a sentence (empty: none).
    """
    snapshot, row = context.snapshot, context.snapshot.find_row(name)
    if row is None or name in plan.scale_down.unneeded or name in context.state.observation.removing:
        return paused
    why = paused or _find_rule(context, held, settings, name)
    others = {node: _OTHERS for node in context.state.group_of_node if node != name}
    # This also finds the savings of a node that is held for now, and savings that are too small for the policy.
    eager = replace(settings, consolidation_policy="when-cheaper", consolidate_after=0.0, consolidation_budget=0.0)
    found = find_moves(context, eager, Random(0), settled=others)
    proposal = next(iter(found.proposals), None)
    if proposal is None and found.rejected is None:
        lacks = "no other or new nodes would take its pods for less"
        return paused or f"none gives it up for cheaper nodes: {why or lacks}"
    rejected = found.rejected
    savings = proposal.savings if proposal is not None else rejected.savings if rejected is not None else 0.0
    (disruption,) = snapshot.of_pods(disruption_of, [row], disruption_of)
    disruption += NODE_DISRUPTION
    score = found.pool.score(savings, disruption)
    if not why and rejected is not None:
        why = rejected.why
    if not why and settings.consolidation_policy == "balanced" and score < LEAST_SCORE:
        why = f"its score is below {LEAST_SCORE}"
    bought = Counter(str(node.group) for node in proposal.new_nodes) if proposal is not None else {}
    new = f" (new nodes: {', '.join(f'{count} of group {ref}' for ref, count in bought.items())})" if bought else ""
    said = f"giving it up alone would save ${savings:.4f} an hour{new}, disruption {disruption:.2f}, score {score:.2f}"
    return f"{said}; {f'it stays: {why}' if why else _when_searched(plan)}"


def _find_rule(context: PlanningContext, held: MoveMemory, settings: ConsolidationSettings, name: str) -> str:
    """Return the rule that keeps the node in place, whatever it would save; empty: none does."""
    sources = find_sources(context, settings.consolidate_after, find_held(context, held))
    if settings.consolidation_policy == "when-empty":
        sources = sources.only_empty()
    return next((node.held for node in sources.nodes if node.name == name), sources.outside.get(name, ""))


def _when_searched(plan: Plan) -> str:
    """Return that a move of the node pays, and when the next search for moves is made."""
    under_way = next((move.id for move in plan.moves if not move.stage.is_over), "")
    if under_way:
        return f"this pays, and waits for the end of move {under_way}"
    at = f"; the next search is at {format_moment(plan.search_at)}" if isfinite(plan.search_at) else ""
    return f"this pays{at}"
