"""Scale-down as a whole: what could go, since when, and what goes now (behaviour/down.md A1, A3)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nodewright.clusterstate.state import ClusterState, ScaleDownMemory
from nodewright.estimator.limits import IsOver
from nodewright.model.group import GroupRef
from nodewright.model.reason import ScaleDownResult, Unremovable, UnremovableCode
from nodewright.model.settings import Settings
from nodewright.planner.candidates import ScaleUpContext
from nodewright.planner.deadline import deadline
from nodewright.planner.plan import ScaleDownReport
from nodewright.planner.scale_down.choose import Choice, choose
from nodewright.planner.scale_down.confirm import Simulate
from nodewright.planner.scale_down.cooldown import cooldown_until
from nodewright.planner.scale_down.eligibility import Eligibility, find_eligible
from nodewright.planner.scale_down.examine import Examination, examine, update_interval
from nodewright.planner.scale_down.larger import Balance
from nodewright.planner.scale_down.moments import next_change
from nodewright.planner.scale_down.order import Candidates, find_candidates, in_order
from nodewright.planner.scale_down.soft_taints import choose_marks
from nodewright.planner.scale_down.unneeded import since_before


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a look at all nodes showed: which are candidates, which of them are used little, which could go."""

    candidates: Candidates
    eligible: Eligibility
    balance: Balance | None
    found: Examination


def forget_unneeded(state: ClusterState, settings: Settings) -> ScaleDownReport:
    """What a loop leaves that finds the cluster unfit: whatever was unneeded is needed until it is seen anew."""
    if not settings.scale_down.scale_down_enabled:
        return ScaleDownReport()
    memory = state.memory.scale_down
    return ScaleDownReport(memory=replace(memory, unneeded_since={}, updated_at=memory.updated_at or state.now))


def plan_scale_down(
    ground: ScaleUpContext, targets: Mapping[GroupRef, int], grown: Iterable[GroupRef], wait: str
) -> ScaleDownReport:
    """What could go and what goes; nothing does while there is something to ``wait`` for.

    ``targets`` are those of groups that are written to in this loop, as they will be; ``grown`` are groups that grow
    for pods.
    """
    state, settings, held = ground.state, ground.settings, ground.state.memory.scale_down
    names = state.observation.snapshot.common_names(ground.snapshot)
    before = since_before(held, ground.snapshot, names, settings, state.now)
    memory = replace(held, unneeded_since=before, grown_at={**held.grown_at, **dict.fromkeys(grown, state.now)})
    state = replace(_resized(state, targets, settings), memory=replace(state.memory, scale_down=memory))
    ground = replace(ground, state=state)
    survey = _survey(ground, names)
    until, why = cooldown_until(memory, settings.scale_down)
    wait = wait or (why if until > state.now else "")
    after = replace(
        held,
        unneeded_since={
            **_of_held_groups(before, state),
            **{node.name: before.get(node.name, state.now) for node in survey.found.removable},
        },
        recheck_at=_recheck_at(ground, survey.found),
        hints=survey.found.hints,
        interval=update_interval(memory, settings, state.now),
        updated_at=state.now,
    )
    report = replace(_report(ground, survey, after, wait), cooldown_until=until)
    after = report.memory or after
    return replace(report, next_change=next_change(state, report, after, settings.scale_down))


def _of_held_groups(since: Mapping[str, float], state: ClusterState) -> dict[str, float]:
    """The times of nodes that cannot be judged until a former engine's write is over: they run on."""
    shut = state.memory.writes_in_flight
    return {name: at for name, at in since.items() if state.group_of_node.get(name) in shut} if shut else {}


def _report(ground: ScaleUpContext, survey: Survey, after: ScaleDownMemory, wait: str) -> ScaleDownReport:
    """What is done now; ``after`` is what is remembered of it, ``wait`` why no removal may begin (empty: it may)."""
    since, found, ratios = after.unneeded_since, survey.found, survey.eligible.utilization
    if wait:
        choice = _wait(since, wait)
    else:
        choice = choose(ground, found, since, ratios, survey.balance, _second_look(ground, found))
    most = ground.settings.scale_down.max_bulk_soft_taint_count
    mark, unmark = choose_marks(ground.state, since.keys(), ground.snapshot, most)
    return ScaleDownReport(
        result=_result(choice, survey, bool(wait)),
        removals=choice.removals,
        unneeded=since,
        unremovable={**survey.eligible.unremovable, **found.unremovable, **choice.stay},
        passed_over={**survey.candidates.passed_over, **found.skipped, **choice.waiting},
        utilization=ratios,
        mark=mark,
        unmark=unmark,
        partial="; ".join(filter(None, (found.partial, choice.partial))),
        memory=replace(after, hints=after.hints.updated(choice.hints)) if choice.hints else after,
    )


def _resized(state: ClusterState, targets: Mapping[GroupRef, int], settings: Settings) -> ClusterState:
    """The state with the targets that this loop leaves. CA reads them anew; here what is only asked for may be refused,
    so that the smaller size counts.
    """
    groups = dict(state.groups)
    for ref, target in targets.items():
        group = groups[ref]
        kept = target if settings.is_ca else min(target, group.seen.target or 0)
        groups[ref] = replace(group, seen=replace(group.seen, target=kept))
    return replace(state, groups=groups) if targets else state


def _survey(ground: ScaleUpContext, names: Sequence[str]) -> Survey:
    """Look at all nodes, as far as there is need."""
    state, settings = ground.state, ground.settings
    candidates = find_candidates(state, names, settings)
    eligible = find_eligible(ground.snapshot, candidates.names, state, settings)
    balance = None
    if settings.balances_removals:
        balance = Balance(ground, (state.group_of_node[name] for name in eligible.names))
    ordered = in_order(eligible.names, ground, balance)
    found = examine(ground.snapshot, ordered, state.memory.scale_down.hints, state, settings, _time_limit(ground))
    return Survey(candidates=candidates, eligible=eligible, balance=balance, found=found)


def _second_look(ground: ScaleUpContext, found: Examination) -> Simulate:
    """Tries to empty nodes while all others stay; all tries together have as much time as the first look had."""
    is_over = _time_limit(ground)
    return lambda names: examine(ground.snapshot, names, found.hints, ground.state, ground.settings, is_over)


def _time_limit(ground: ScaleUpContext) -> IsOver:
    return deadline(ground.state.elapsed, ground.settings.scale_down.scale_down_simulation_timeout)


def _wait(since: Iterable[str], why: str) -> Choice:
    return Choice(waiting=dict.fromkeys(since, Unremovable(code=UnremovableCode.IN_COOLDOWN, message=why)))


def _result(choice: Choice, survey: Survey, waits: bool) -> ScaleDownResult:
    if waits:
        return ScaleDownResult.IN_COOLDOWN
    if not survey.candidates.count:
        return ScaleDownResult.NO_CANDIDATES
    return ScaleDownResult.STARTED if choice.removals else ScaleDownResult.NO_NODE_DELETED


def _recheck_at(ground: ScaleUpContext, found: Examination) -> Mapping[str, float]:
    """When nodes that a simulation showed to be needed are looked at again."""
    now, later = ground.state.now, ground.settings.scale_down.unremovable_node_recheck_timeout
    memory = ground.state.memory.scale_down
    held = {name: at for name, at in memory.recheck_at.items() if at > now and name in ground.snapshot}
    return held | dict.fromkeys(found.unremovable, now + later)
