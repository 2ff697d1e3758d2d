"""The last loop as the page shows it: the same as ``status``, ``plan`` and ``explain`` say. It decides nothing."""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from nodewright.cli.console.last_loop import LastLoop
from nodewright.cli.dry_run.dry_run import DryRun
from nodewright.cli.plan_reasons import PodOutcome, PodVerdict, find_verdicts, fold_verdicts, why_group
from nodewright.cli.plan_view import disruption_json
from nodewright.cli.status_view import list_under_way, used_budget, why_limited
from nodewright.clusterstate.state import GroupState
from nodewright.engine.status import GroupStatus, StatusReport
from nodewright.model.duration import format_duration, format_moment
from nodewright.model.group import GroupRef
from nodewright.planner.cost import machines_now
from nodewright.planner.explain import NodeOutcome, outcome_finder
from nodewright.snapshot.observation import hourly_cost

GOOD, WARN, BAD, QUIET = "good", "warn", "bad", "quiet"
_POD_TONES = {
    PodOutcome.HELPED: GOOD,
    PodOutcome.FITS: GOOD,
    PodOutcome.AWAITS: WARN,
    PodOutcome.WAITS: WARN,
    PodOutcome.UNHELPED: BAD,
    PodOutcome.HALTED: BAD,
    PodOutcome.IGNORED: QUIET,
}
_POD_WORDS = {
    PodOutcome.HELPED: "gets new nodes",
    PodOutcome.FITS: "has room",
    PodOutcome.AWAITS: "next loop",
    PodOutcome.WAITS: "waits",
    PodOutcome.UNHELPED: "not helped",
    PodOutcome.HALTED: "halted",
    PodOutcome.IGNORED: "ignored",
}
_NODE_ORDER = (NodeOutcome.GOING, NodeOutcome.GOES, NodeOutcome.UNNEEDED, NodeOutcome.STAYS, NodeOutcome.NOT_EVALUATED)
_NODE_TONES = {NodeOutcome.GOING: WARN, NodeOutcome.GOES: WARN, NodeOutcome.UNNEEDED: WARN}
_NODE_WORDS = {
    NodeOutcome.GOING: "being removed",
    NodeOutcome.GOES: "goes now",
    NodeOutcome.UNNEEDED: "not needed",
    NodeOutcome.STAYS: "stays",
    NodeOutcome.NOT_EVALUATED: "not evaluated",
}


class GroupRow(NamedTuple):
    """One node group; ``tone`` colours ``state``. Prices are in USD an hour.

    ``limit`` says why it does not grow or keeps its nodes; ``until`` says how long (epoch seconds).
    """

    name: str
    target: int | None
    min_size: int
    max_size: int
    ready: int
    upcoming: int
    state: str
    tone: str
    limit: str
    until: float | None
    under_way: tuple[str, ...]
    price: float | None
    spot: bool
    cost: float | None
    growth: str = ""

    @property
    def filled(self) -> float:
        """Return how much of its maximum the group has, from 0 to 1."""
        return min(1.0, (self.target or 0) / self.max_size) if self.max_size else 0.0


class GroupReason(NamedTuple):
    """A reason for which groups do not help some pods; ``groups`` are the first few of ``number``."""

    reason: str
    number: int
    groups: tuple[str, ...]


class WaitingRow(NamedTuple):
    """Pending pods with the same outcome for the same reasons; ``pods`` are the first few of ``number``."""

    outcome: str
    tone: str
    number: int
    pods: tuple[str, ...]
    reason: str
    groups: tuple[GroupReason, ...]


class NodePlace(NamedTuple):
    """A node in the order of the page: first nodes that are leaving, then the least used."""

    order: int
    used: float
    name: str
    group: str


class NodeLine(NamedTuple):
    """One node; ``used`` is the share requested of its scarcest resource, None: not measured."""

    name: str
    group: str
    outcome: str
    tone: str
    used: float | None
    pods: int
    why: str
    is_ready: bool
    price: float | None


_MOST_NAMED = 12
# Sorts nodes that were not measured behind all others.
_UNMEASURED = math.inf


class View:
    """One loop as the page shows it; each part is computed at first use. Use it only within ``look`` of the debug server."""

    def __init__(self, last: LastLoop) -> None:
        self.last = last

    @cached_property
    def status(self) -> StatusReport:
        return self.last.make_status()

    @cached_property
    def problems(self) -> list[str]:
        return self.last.find_problems()

    @cached_property
    def _dry_run(self) -> DryRun | None:
        return self.last.dry_run

    @cached_property
    def nodes(self) -> int:
        return int(self.last.state.observation.snapshot.alive.sum())

    @property
    def pending(self) -> int:
        return len(self.last.state.observation.pending)

    @cached_property
    def _verdicts(self) -> tuple[PodVerdict, ...]:
        return find_verdicts(self._dry_run) if self._dry_run is not None else ()

    @cached_property
    def unhelped(self) -> int:
        return sum(one.outcome in (PodOutcome.UNHELPED, PodOutcome.HALTED) for one in self._verdicts)

    @cached_property
    def costs(self) -> dict[GroupRef, float]:
        groups = [group.seen for group in self.last.state.groups.values()]
        return dict(hourly_cost(groups, machines_now(groups)).by_group)

    @cached_property
    def groups(self) -> tuple[GroupRow, ...]:
        """Return every group; those with problems or activity come first."""
        states = self.last.state.groups
        rows = [self._group(status, states.get(status.ref)) for status in self.status.groups]
        ranks = {BAD: 0, WARN: 1, GOOD: 2, QUIET: 3}
        return tuple(sorted(rows, key=lambda row: (ranks[row.tone], not (row.upcoming or row.under_way), row.name)))

    def _group(self, status: GroupStatus, state: GroupState | None) -> GroupRow:
        word, tone = _group_state(status, state)
        price = state.seen.price if state is not None else None
        return GroupRow(
            name=str(status.ref),
            target=status.target,
            min_size=status.min_size,
            max_size=status.max_size,
            ready=len(state.readiness.ready) if state is not None else 0,
            upcoming=state.upcoming if state is not None else 0,
            state=word,
            tone=tone,
            limit=(state.seen.problem if state is not None else "") or why_limited(status, self.status),
            until=_end_of(status),
            under_way=tuple(list_under_way(status, self.status)),
            price=price.per_hour if price is not None else None,
            spot=price is not None and price.spot,
            cost=self.costs.get(status.ref),
        )

    def with_growth(self, rows: Sequence[GroupRow]) -> list[GroupRow]:
        """Return the rows with what scale-up decided about each."""
        if self._dry_run is None:
            return list(rows)
        refs = {str(ref): ref for ref in self.last.state.groups}
        dry_run = self._dry_run
        return [row._replace(growth=why_group(dry_run, refs[row.name])) if row.name in refs else row for row in rows]

    @cached_property
    def waiting(self) -> tuple[WaitingRow, ...]:
        """Return the pending pods; those that are not helped come first."""
        return _sort_waiting(self._verdicts)

    @cached_property
    def node_keys(self) -> tuple[NodePlace, ...]:
        """Return every node, in the order of the page."""
        state, plan = self.last.state, self.last.report.plan
        used = plan.scale_down.utilization if plan is not None else {}
        find = outcome_finder(state, plan) if plan is not None else lambda _: NodeOutcome.NOT_EVALUATED
        ranks = {outcome: rank for rank, outcome in enumerate(_NODE_ORDER)}
        names, groups = {ref: str(ref) for ref in state.groups}, state.group_of_node
        keys = []
        for _, node in state.observation.snapshot.nodes():
            name = node.metadata.name
            group = names.get(groups[name], "") if name in groups else ""
            keys.append(NodePlace(ranks[find(name)], used.get(name, _UNMEASURED), name, group))
        return tuple(sorted(keys))

    def node_rows(self, keys: Sequence[NodePlace]) -> list[NodeLine]:
        """Return what is shown of these nodes."""
        return [self._node(key) for key in keys]

    def _node(self, key: NodePlace) -> NodeLine:
        state, plan = self.last.state, self.last.report.plan
        snapshot, outcome = state.observation.snapshot, _NODE_ORDER[key.order]
        ref = state.group_of_node.get(key.name)
        group = state.groups.get(ref) if ref is not None else None
        why = ""
        if plan is not None:
            reason = plan.scale_down.unremovable.get(key.name) or plan.scale_down.passed_over.get(key.name)
            why = reason.describe() if reason is not None else ""
            since = plan.scale_down.unneeded.get(key.name)
            if since is not None:
                said = f"not needed for {format_duration(round(max(0.0, state.now - since)))}"
                why = f"{said}; {why}" if why else said
        removing = state.observation.removing.get(key.name)
        if removing is not None:
            why = f"{removing.removal.reason}, {removing.stage}, since {format_moment(removing.started)}"
        used = min(1.0, key.used) if key.used < _UNMEASURED else None
        return NodeLine(
            name=key.name,
            group=key.group,
            outcome=_NODE_WORDS[outcome],
            tone=_NODE_TONES.get(outcome, QUIET),
            used=used,
            pods=len(snapshot.pods(snapshot.row(key.name))),
            why=why,
            is_ready=group is None or key.name in group.readiness.ready_names,
            price=group.seen.hourly_price if group is not None else None,
        )

    @cached_property
    def budgets(self) -> list[tuple[str, str]]:
        """Return what limits removals and when: deletion budgets, disruption budgets and schedules."""
        return list(self._find_budgets())

    def _find_budgets(self) -> Iterator[tuple[str, str]]:
        status = self.status
        said = used_budget(status.deletions) if status.deletions.window else "no limit"
        yield "deletions", said
        if status.empty_deletions.used:
            yield "deletions of empty nodes", used_budget(status.empty_deletions)
        plan = self.last.report.plan
        if plan is not None and plan.scale_down.cooldown_until > status.now:
            yield "scale-down", f"begins nothing before {format_moment(plan.scale_down.cooldown_until)}"
        for row in disruption_json(self.last.state.observation.disruption, self.last.state.now):
            until = f" until {row['until']}" if row["until"] else ""
            said = ", ".join(f"{key} {row[key]}" for key in ("nodes", "reasons", "set") if row.get(key))
            yield row["entry"], f"{'holds' if row['holds'] else 'does not hold'}{until}: {said}"

    @cached_property
    def doing(self) -> list[str]:
        """Return what is under way: removals, moves, notices of clouds, nodes to be replaced."""
        status = self.status
        found = [
            f"{one.removal.node}: {one.removal.reason}, {one.stage}, since {format_moment(one.started)}"
            for one in status.removing
        ]
        found += [move.describe() for move in status.moves]
        found += [
            f"{notice.instance_id} of {ref}: {notice.kind}"
            + (f", at {format_moment(notice.deadline)}" if notice.deadline is not None else "")
            for ref, notice in status.notices
        ]
        found += [
            f"{one.node} is to be replaced: {one.why}{f'; not now: {one.held}' if one.held else ''}"
            for one in status.outdated or ()
        ]
        return found


def find_waiting(dry_run: DryRun) -> tuple[WaitingRow, ...]:
    """Return the pending pods of a plan; those that are not helped come first."""
    return _sort_waiting(find_verdicts(dry_run))


def _sort_waiting(verdicts: Sequence[PodVerdict]) -> tuple[WaitingRow, ...]:
    order = [PodOutcome.UNHELPED, PodOutcome.HALTED, *(one for one in PodOutcome)]
    rows = sorted(fold_verdicts(verdicts), key=lambda alike: (order.index(alike[0].outcome), -len(alike)))
    return tuple(_waiting_row(alike) for alike in rows)


def _group_state(status: GroupStatus, state: GroupState | None) -> tuple[str, str]:
    """Return the state of a group in two or three words, and its tone."""
    found = (
        (state is not None and bool(state.seen.problem), "cannot be read", BAD),
        (status.backoff is not None, "backs off", BAD),
        (state is not None and not state.healthy, "unhealthy", BAD),
        (status.deferral is not None, "cloud is busy", WARN),
        (status.probation is not None, "on probation", WARN),
        (status.quarantined_until is not None, "keeps nodes", WARN),
        (bool(status.late or status.given_up or status.disputed), "machines are late", WARN),
        (state is None, "not seen", QUIET),
        (state is not None and state.upcoming > 0, "grows", GOOD),
    )
    return next(((word, tone) for holds, word, tone in found if holds), ("well", GOOD))


def _end_of(status: GroupStatus) -> float | None:
    """Return when the group's limits end (epoch seconds); None: it has none that ends."""
    ends = [one.until for one in (status.backoff, status.deferral) if one is not None]
    ends += [status.quarantined_until] if status.quarantined_until is not None else []
    return max(ends, default=None)


def _waiting_row(alike: Sequence[PodVerdict]) -> WaitingRow:
    first = alike[0]
    by_reason: dict[str, list[str]] = {}
    for ref, reason in first.reasons.items():
        by_reason.setdefault(str(reason), []).append(str(ref))
    groups = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return WaitingRow(
        outcome=_POD_WORDS[first.outcome],
        tone=_POD_TONES[first.outcome],
        number=len(alike),
        pods=tuple(one.pod.key for one in alike[:_MOST_NAMED]),
        reason=first.reason,
        groups=tuple(GroupReason(reason, len(refs), tuple(refs[:_MOST_NAMED])) for reason, refs in groups),
    )
