"""Compares the actions of another autoscaler with the plans of this one, loop by loop.

The other autoscaler cannot be queried. Its actions are observed: target sizes that grow, nodes that get its taint. For
each growth that it made, nodewright plans once more with the snapshot of the loop before, as if the growth had not
happened. Both autoscalers have then planned on the same cluster, regardless of which was faster. Growth that only
nodewright wants is reported once it has been wanted for so long that the other autoscaler must have seen the need too.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any

import msgspec

from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.report import LoopReport
from nodewright.model.action import IncreaseSize
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef
from nodewright.model.node import TO_BE_DELETED_TAINT
from nodewright.model.plan import Plan
from nodewright.model.settings import Settings
from nodewright.model.yaml_text import load_yaml
from nodewright.planner import make_plan

# The other autoscaler loops about every 10 s: what it has not done after this many seconds it will not do.
PATIENCE_SECONDS = 60.0
# A wish that is gone for no longer than this many seconds is the same one when it returns.
_SAME_WISH_SECONDS = 3600.0


class ComparisonVerdict(StrEnum):
    """The result of comparing nodewright's plan with the other autoscaler's action. ``NOT_YET``: nodewright would do it too, later."""

    SAME = "same"
    OTHER_SIZE = "otherSize"
    ONLY_THEIRS = "onlyTheirs"
    ONLY_OURS = "onlyOurs"
    NOT_YET = "notYet"


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """``subject`` is a group or a node; ``theirs`` and ``ours`` say what each autoscaler does; ``at`` in epoch seconds.

    ``cause`` is the reason without numbers and names, by which comparisons are counted. ``machines``: how many more machines
    ours has. ``cost``: how much more ours costs, in USD an hour; None: no price is known.
    """

    at: float
    what: str
    subject: str
    verdict: ComparisonVerdict
    theirs: str = ""
    ours: str = ""
    reason: str = ""
    cause: str = ""
    machines: int = 0
    cost: float | None = None


@dataclass(frozen=True, kw_only=True)
class _Loop:
    """The facts of one loop that are compared with the next one."""

    state: ClusterState
    plan: Plan
    targets: Mapping[GroupRef, int]
    tainted: frozenset[str]


class Shadow:
    """Call ``compare`` after each loop, with the plan before its writes were withheld."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._last: _Loop | None = None
        self._wanted_since: dict[tuple[str, str], float] = {}
        # When each growth and removal that was told was last wanted here (epoch seconds).
        self._told: dict[tuple[str, str], float] = {}

    def compare(self, report: LoopReport, plan: Plan | None, settings: Settings) -> tuple[Comparison, ...]:
        """Return the comparisons of this loop; none for the first loop and for a loop that could not observe."""
        if report.state is None or plan is None or report.problem:
            return ()
        loop = _Loop(state=report.state, plan=plan, targets=_targets(report.state), tainted=_tainted(report.state))
        before, self._last = self._last, loop
        if before is None:
            return ()
        found = [*self._growth(before, loop, settings), *self._removals(before, loop)]
        found = [one for one in found if one.verdict is not ComparisonVerdict.ONLY_OURS or not self._is_told(one)]
        self._told |= {(done.what, done.subject): loop.state.now for done in found}
        return tuple(_with_cost(one, loop.state) for one in (*found, *self._only_ours(loop)))

    def _is_told(self, wish: Comparison) -> bool:
        return (wish.what, wish.subject) in self._told

    def _growth(self, before: _Loop, loop: _Loop, settings: Settings) -> list[Comparison]:
        theirs = {
            ref: target - before.targets[ref]
            for ref, target in loop.targets.items()
            if ref in before.targets and target > before.targets[ref]
        }
        if not theirs:
            return []
        wished = _growth_of(before.plan)
        again = self._plan_instead(before, loop, settings)
        ours = wished if wished == theirs else _growth_of(again) or wished
        at = loop.state.now
        return [
            _compare_growth(at, ref, theirs.get(ref, 0), ours.get(ref, 0), loop, again)
            for ref in sorted({*theirs, *ours})
        ]

    def _plan_instead(self, before: _Loop, loop: _Loop, settings: Settings) -> Plan:
        """Return our plan for the present cluster, with the groups as they were in the loop before."""
        seen, old = loop.state.observation, before.state.observation.groups
        groups = {
            ref: replace(group, target=old[ref].target, instances=old[ref].instances, failed=old[ref].failed)
            if ref in old
            else group
            for ref, group in seen.groups.items()
        }
        state = fold(before.state.memory, replace(seen, groups=groups), (), settings)
        return make_plan(state, settings, Random(self._seed))[0]

    def _removals(self, before: _Loop, loop: _Loop) -> list[Comparison]:
        at = loop.state.now
        return [_compare_removal(at, node, before) for node in sorted(loop.tainted - before.tainted)]

    def _only_ours(self, loop: _Loop) -> list[Comparison]:
        now = loop.state.now
        wanted = {("growth", str(ref)): (f"+{amount}", amount) for ref, amount in _growth_of(loop.plan).items()}
        wanted |= {("removal", one.node): (one.reason.value, -1) for one in loop.plan.scale_down.removals}
        self._wanted_since = {key: self._wanted_since.get(key, now) for key in wanted}
        last = {key: now if key in wanted else at for key, at in self._told.items()}
        self._told = {key: at for key, at in last.items() if now - at <= _SAME_WISH_SECONDS}
        found = []
        for (what, subject), since in self._wanted_since.items():
            if (what, subject) in self._told or now - since < PATIENCE_SECONDS:
                continue
            self._told[what, subject] = now
            ours, machines = wanted[what, subject]
            reason = f"wanted here for {PATIENCE_SECONDS:g} s, and not done there"
            found.append(
                Comparison(
                    at=now,
                    what=what,
                    subject=subject,
                    verdict=ComparisonVerdict.ONLY_OURS,
                    ours=ours,
                    reason=reason,
                    cause="wanted here, and not done there",
                    machines=machines,
                )
            )
        return found


def _compare_growth(at: float, ref: GroupRef, theirs: int, ours: int, loop: _Loop, again: Plan) -> Comparison:
    if theirs == ours:
        verdict, reason, cause = ComparisonVerdict.SAME, "", ""
    elif theirs and ours:
        verdict, reason = ComparisonVerdict.OTHER_SIZE, f"{len(loop.state.observation.pending)} pods are pending"
        cause = "another size for the pending pods"
    elif theirs:
        verdict, (reason, cause) = ComparisonVerdict.ONLY_THEIRS, _why_not_grown(ref, again)
    else:
        verdict, reason = ComparisonVerdict.ONLY_OURS, "they chose another group"
        cause = reason
    return Comparison(
        at=at,
        what="growth",
        subject=str(ref),
        verdict=verdict,
        theirs=f"+{theirs}" if theirs else "",
        ours=f"+{ours}" if ours else "",
        reason=reason,
        cause=cause,
        machines=ours - theirs,
    )


def _why_not_grown(ref: GroupRef, plan: Plan) -> tuple[str, str]:
    """Return the reason for which the plan does not grow the group, and its cause."""
    if plan.halted:
        return plan.halted, "nothing grows here"
    skipped = plan.scale_up.skipped.get(ref)
    if skipped is not None:
        return str(skipped), skipped.code.value
    others = ", ".join(f"{other} +{amount}" for other, amount in sorted(_growth_of(plan).items()))
    cause = "another group was chosen here" if others else "no pending pod needs a node here"
    return f"{cause}: {others}" if others else cause, cause


def _compare_removal(at: float, node: str, before: _Loop) -> Comparison:
    down = before.plan.scale_down
    if any(removal.node == node for removal in down.removals):
        return Comparison(
            at=at, what="removal", subject=node, verdict=ComparisonVerdict.SAME, theirs="removes", ours="removes"
        )
    if node in down.unneeded:
        cause = "not needed here either"
        said, verdict = f"{cause}, for {at - down.unneeded[node]:.0f} s", ComparisonVerdict.NOT_YET
    else:
        why = down.unremovable.get(node) or down.passed_over.get(node)
        cause = why.code.value if why is not None else "the node is needed here, or belongs to no group"
        said, verdict = str(why) if why is not None else cause, ComparisonVerdict.ONLY_THEIRS
    return Comparison(
        at=at,
        what="removal",
        subject=node,
        verdict=verdict,
        theirs="removes",
        reason=said,
        cause=cause,
        machines=int(verdict is ComparisonVerdict.ONLY_THEIRS),
    )


def _with_cost(one: Comparison, state: ClusterState) -> Comparison:
    """Return the comparison with its cost: of the machines of growth, or of a node that only one of the two removes."""
    if one.what == "growth":
        group = next((group for ref, group in state.groups.items() if str(ref) == one.subject), None)
    else:
        ref = state.group_of_node.get(one.subject)
        group = state.groups.get(ref) if ref is not None else None
    price = group.seen.hourly_price if group is not None else None
    return one if price is None else msgspec.structs.replace(one, cost=one.machines * price)


def _growth_of(plan: Plan) -> dict[GroupRef, int]:
    found: Counter[GroupRef] = Counter()
    for action in plan.actions:
        if isinstance(action, IncreaseSize):
            found[action.group] += action.target - action.expected_target
    return dict(found)


def _targets(state: ClusterState) -> dict[GroupRef, int]:
    return {ref: group.seen.target for ref, group in state.groups.items() if group.seen.target is not None}


def _tainted(state: ClusterState) -> frozenset[str]:
    nodes = (node for _, node in state.observation.snapshot.nodes())
    return frozenset(node.name for node in nodes if any(taint.key == TO_BE_DELETED_TAINT for taint in node.spec.taints))


_CLUSTER = "cluster"
Said = Mapping[tuple[str, str], str]


class HealthShadow:
    """Reports each lasting difference once. Short ones do not count: the two autoscalers look at different times."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str, str, str], float] = {}
        self._told: set[tuple[str, str, str, str]] = set()

    def compare(self, text: str | None, ours: Mapping[str, Any], now: float) -> tuple[Comparison, ...]:
        """Compare CA's document ``text`` (None: there is none) with ``ours``, the same document as nodewright writes it."""
        said, own = read_health(text), _flatten(ours)
        differences = {(*key, said[key], own[key]) for key in said.keys() & own.keys() if said[key] != own[key]}
        self._since = {key: self._since.get(key, now) for key in differences}
        self._told &= differences
        fresh = [key for key in sorted(differences - self._told) if now - self._since[key] >= PATIENCE_SECONDS]
        self._told.update(fresh)
        return tuple(
            Comparison(
                at=now, what=what, subject=subject, verdict=ComparisonVerdict.ONLY_THEIRS, theirs=theirs, ours=mine
            )
            for subject, what, theirs, mine in fresh
        )


def read_health(text: str | None) -> Said:
    """Return the health by group (or ``cluster``) and field; nothing if the text cannot be read."""
    if text is None:
        return {}
    try:
        documents = [found for found in load_yaml(text, "status", string_keys=True) if isinstance(found, dict)]
    except ConfigError:
        return {}
    return _flatten(documents[0]) if documents else {}


def _flatten(document: Mapping[str, Any]) -> Said:
    parts = {_CLUSTER: document.get("clusterWide")}
    groups = document.get("nodeGroups")
    for group in groups if isinstance(groups, list) else ():
        if isinstance(group, dict):
            parts[str(group.get("name"))] = group
    return {
        (subject, what): part[what]["status"]
        for subject, part in parts.items()
        for what in ("health", "scaleUp")
        if isinstance(part, dict) and isinstance(part.get(what), dict) and isinstance(part[what].get("status"), str)
    }
