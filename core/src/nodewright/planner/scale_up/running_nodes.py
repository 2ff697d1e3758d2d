"""Choose which pods get the room on existing nodes if it is not enough for all (--expander=least-cost; docs/cost.md).

Room goes first to pods that no group may grow for, then to those that would cost most on new nodes. Only pods whose place
depends on amounts alone are chosen. The others are placed in turn, as with all other expanders.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from nodewright.estimator.pod_group import PodGroup
from nodewright.expander import LEAST_COST
from nodewright.model.group import GroupRef
from nodewright.model.pod import Pod
from nodewright.optimizer.bound import find_values
from nodewright.optimizer.filling import Filler, GreedyMix
from nodewright.optimizer.problem import Bools, Floats, Ints, Problem
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.least_cost import MixTerms, make_mix_problem
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import skip_reason
from nodewright.planner.scale_up.orchestrator import expanders_in_force
from nodewright.planner.scale_up.pending_pods import Choose, deal
from nodewright.predicates import capacity, is_countable
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.requests import PODS
from nodewright.snapshot.snapshot import Snapshot

# Rows are filled by choice up to this number of pairs of a class and a row: some 25 ms.
_MOST_PAIRS = 6000
# The part of the evened value in the worth of a pod (optimizer/bound.py), as in the first mix.
_EVENED = 0.3
# The worth of a pod that no group may grow for, in multiples of the largest worth of the other pods.
_HELPLESS = 1e3

_Classes = Sequence[tuple[PodClass, list[Pod]]]


def make_chooser(context: PlanningContext) -> Choose | None:
    """Return the function that chooses the pods for existing nodes; None if no mix of groups will be planned."""
    if LEAST_COST not in expanders_in_force(context):
        return None
    refs = [ref for ref in context.templates if skip_reason(context, ref) is None]
    seen = {ref: context.state.groups[ref].seen for ref in refs}
    if not refs or not all(held.hourly_price for held in seen.values()):
        return None
    return partial(_choose, context, [ref for ref in refs if not seen[ref].options.zero_or_max_node_scaling])


def _choose(
    context: PlanningContext, refs: Sequence[GroupRef], snapshot: Snapshot, classes: _Classes
) -> Mapping[PodClass, Mapping[int, int]]:
    """Return how many pods of a class go to which rows first; empty if there is no choice: all fit, or none does."""
    plain = [(held, alike) for held, alike in classes if alike and is_countable(snapshot, held)]
    if len(plain) < 2:
        return {}
    fits, have_room = _find_room(snapshot, plain)
    used, rows = np.flatnonzero(fits.any(axis=1)).tolist(), np.flatnonzero(fits.any(axis=0))
    if not used or (have_room and _all_fit(snapshot, plain)):
        return {}
    rows = rows[: max(1, _MOST_PAIRS // len(used))]
    worth = _worth_on_new_nodes(context, refs, plain)
    problem = _problem_of_rows(snapshot, [plain[n] for n in used], rows, fits[used][:, rows])
    chosen = GreedyMix(Filler(problem), worth[used], problem.pods, problem.rooms).buy_all()
    found: dict[PodClass, dict[int, int]] = {}
    for kind, filling, _ in chosen:
        for one, count in filling:
            found.setdefault(plain[used[one]][0], {})[int(rows[kind])] = count
    return found


def _find_room(snapshot: Snapshot, plain: _Classes) -> tuple[Bools, bool]:
    """Return which rows take a pod of each class (classes × rows), and whether each class alone has room for all its pods.

    Keeping the numbers of pods would take eight times the memory: 250 MiB for 500 classes and 65,000 nodes.
    """
    every = slice(0, len(snapshot))
    fits, have_room = np.empty((len(plain), len(snapshot)), dtype=np.bool_), True
    for place, (held, alike) in enumerate(plain):
        room = np.where(snapshot.schedulable, capacity(snapshot, held, every), 0)
        fits[place] = room > 0
        have_room = have_room and int(room.sum()) >= len(alike)
    return fits, have_room


def _all_fit(snapshot: Snapshot, plain: _Classes) -> bool:
    """Return whether all pods fit in the order in which they would be dealt."""
    trial, cursor = snapshot.fork(), 0
    for held, alike in plain:
        placed, cursor = deal(trial, held, alike, cursor)
        if len(placed) < len(alike):
            return False
    return True


def _worth_on_new_nodes(context: PlanningContext, refs: Sequence[GroupRef], plain: _Classes) -> Floats:
    """Return what one pod of each class is worth: about what it costs on new nodes, in USD an hour."""
    fit = NodeGroupFit(context.snapshot, context.templates, context.barred)
    groups = [PodGroup(held, alike) for held, alike in plain]
    made = make_mix_problem(context, groups, fit, refs, Probation(context, refs, fit), MixTerms())
    known: dict[PodClass, float] = {}
    if made is not None:
        worths = find_values(made.problem).mixed(_EVENED)
        known = {demand.pod_class: worth for demand, worth in zip(made.demands, worths.tolist(), strict=True)}
    helpless = _HELPLESS * max(known.values(), default=1.0)
    return np.array([known.get(held, helpless) for held, _ in plain])


def _problem_of_rows(snapshot: Snapshot, classes: _Classes, rows: Ints, fits: Bools) -> Problem:
    """Return the problem in which each row is a kind of node that may be filled once, at the same price."""
    names = list(dict.fromkeys((PODS, *(name for held, _ in classes for name in held.requests))))
    places = [snapshot.vocabulary.resources[name] for name in names]
    return Problem(
        requests=np.array(
            [[1 if name == PODS else held.requests.get(name, 0) for name in names] for held, _ in classes], float
        ),
        pods=[len(alike) for _, alike in classes],
        per_node=[len(alike) for _, alike in classes],
        free=np.maximum(snapshot.free[rows][:, places], 0).astype(float),
        prices=np.ones(len(rows)),
        rooms=[1] * len(rows),
        fits=fits,
    )
