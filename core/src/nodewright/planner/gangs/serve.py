"""Find room for gangs, and add nodes for them: for a whole gang, or none.

The new nodes must suffice for kube-scheduler, which places the pods greedily. So growth is planned as for other pods and
then tried with ``place_greedily``. More nodes are added until the gang fits; if it never does, none is added.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
from msgspec.structs import replace as changed

from nodewright.clusterstate.backoff import allowance
from nodewright.model.action import ForRequest, IncreaseSize
from nodewright.model.capability import Capability
from nodewright.model.gang import find_gang
from nodewright.model.group import GroupRef
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.plan import Expansion, OptionSummary, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleUpResult, SkipCode, SkipReason, Unhelped
from nodewright.planner.context import PlanningContext, with_targets
from nodewright.planner.gangs.find_gangs import Gang
from nodewright.planner.gangs.greedy import place_greedily
from nodewright.planner.limits import Quota
from nodewright.planner.provisioning_requests.state import ProvisioningRequestState
from nodewright.planner.scale_up.failover import Probation
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import skip_reason
from nodewright.planner.scale_up.orchestrator import ScaleUp, increases
from nodewright.planner.scale_up.pending_pods import Hints
from nodewright.planner.scale_up.templates import place_daemons
from nodewright.predicates import is_countable
from nodewright.snapshot.column import Mask
from nodewright.snapshot.observation import hourly_cost, paid_machines
from nodewright.snapshot.pod_class import kind_of
from nodewright.snapshot.snapshot import Snapshot

# How often growth for one gang is planned and tried, and how many smaller sizes are tried then.
_MOST_ROUNDS = 12
_MOST_TRIALS = 64
# The most nodes of one group that are added at once only to make way for other pods of a gang.
_MOST_EXTRA = 8

_OTHER_DOMAIN = SkipReason(code=SkipCode.GANG, message="the gang is planned in another domain")
_ON_PROBATION = SkipReason(code=SkipCode.PROBATION, message="a gang cannot be tried with a part of it")

Counts = Mapping[GroupRef, int]


@dataclass(frozen=True, kw_only=True)
class PlacedGangs:
    """Pods of gangs that fit on existing and upcoming nodes; ``due`` gangs need nodes, and ``others`` are ordinary pods."""

    fitting: tuple[Pod, ...] = ()
    due: tuple[Gang, ...] = ()
    others: tuple[Pod, ...] = ()


def place_gangs(snapshot: Snapshot, gangs: Iterable[Gang], hints: Hints | None) -> PlacedGangs:
    """Place the gangs that can start on existing and upcoming nodes.

    Pods beyond the minimum without room are ordinary pods from then on, as for kube-scheduler.
    """
    fitting, due, others = list[Pod](), list[Gang](), list[Pod]()
    for gang in gangs:
        if gang.problem or gang.is_young:
            due.append(gang)
            continue
        best = max(
            (_try(snapshot.fork(), gang, domain.rows) for domain in _domains_of(snapshot, gang, {})),
            key=lambda found: len(found.placed),
            default=None,
        )
        if best is None or len(best.placed) < max(1, gang.need):
            if gang.need:
                due.append(gang)
            else:
                others += gang.waiting
            continue
        for pod, row in best.placed:
            snapshot.place(snapshot.class_of(pod), row, pod=pod)
            if hints is not None and snapshot.name(row) in snapshot:
                hints.set(pod, snapshot.name(row))
            fitting.append(pod)
        others += best.left
    return PlacedGangs(fitting=tuple(fitting), due=tuple(due), others=tuple(others))


@dataclass(frozen=True, kw_only=True)
class ServedGangs:
    """The growth of one loop for gangs. ``context`` has the new nodes and the gangs on them."""

    context: PlanningContext
    actions: Sequence[IncreaseSize] = ()
    reports: Sequence[ScaleUpReport] = ()


def serve_gangs(
    context: PlanningContext, gangs: Sequence[Gang], requests: ProvisioningRequestState, random: Random
) -> ServedGangs:
    """Add nodes for each gang that is due and can start, one gang after the other."""
    actions, reports = list[IncreaseSize](), list[ScaleUpReport]()
    # Results for gangs that get no nodes. They hold for the whole step: room and limits only shrink.
    hopeless: dict[Hashable, _Found] = {}
    for gang in gangs:
        if gang.is_young:
            continue
        why, demand = why_not_now(gang, requests), _demand_of(context.snapshot, gang)
        found = None if why else hopeless.get(demand) or _GangGrowth(context, gang, random).find()
        if found is not None and found.counts is None and demand is not None:
            hopeless[demand] = found
        if found is None or found.counts is None:
            placed = 0 if found is None else found.placed
            reports.append(_refusal(context, gang, why or _lack(gang, placed), found))
            continue
        more, report, context = _buy(context, gang, found)
        actions += more
        reports.append(report)
    return ServedGangs(context=context, actions=actions, reports=reports)


def _demand_of(snapshot: Snapshot, gang: Gang) -> Hashable:
    """Return a key that is equal for gangs with equal demands; None: the gang's demand depends on other pods."""
    classes = list(map(snapshot.class_of, gang.waiting))
    if gang.topology_key or not all(is_countable(snapshot, pod_class) for pod_class in set(classes)):
        return None
    return gang.need, tuple(kind_of(pod_class) for pod_class in classes)


def why_not_now(gang: Gang, requests: ProvisioningRequestState) -> str:
    """Return why no nodes are added for a gang now, whatever the groups offer; empty: they may be."""
    if gang.problem:
        return gang.problem
    if gang.ref.id in requests.reservations:
        return "machines for it are on their way"
    retry = requests.memory.retries.get(gang.ref.id)
    if retry is not None and retry.at + retry.wait >= requests.now:
        return "not all machines of its last try came: it is tried again soon"
    return ""


def _lack(gang: Gang, placed: int) -> str:
    return f"{gang.running + placed} of {gang.min_count} pods would have room"


# One gang


@dataclass(frozen=True, kw_only=True)
class _Domain:
    """A topology domain for a gang: the rows of its nodes (None: all), and the groups (None: all) whose new nodes are in it.

    ``most``: how many new nodes may be added at most (None: no limit).
    """

    rows: Mask | None = None
    groups: frozenset[GroupRef] | None = None
    most: int | None = None

    def widened(self, rows: int) -> Mask | None:
        """Return the mask for a snapshot with new nodes: they all are in the domain."""
        return None if self.rows is None else np.append(self.rows, np.ones(rows - len(self.rows), dtype=np.bool_))


def _domains_of(snapshot: Snapshot, gang: Gang, labels: Mapping[GroupRef, Mapping[str, str]]) -> Iterator[_Domain]:
    """Yield the domains in which the gang may run; if some of its pods run already, only their domain.

    ``labels``: those of the next node of each group. If the key is the hostname, each new node is a domain of its own.
    """
    key = gang.topology_key
    if not key:
        yield _Domain()
        return
    values = {row: node.metadata.labels.get(key) for row, node in snapshot.nodes()}
    held = (
        {values[row] for row in values if any(_is_of(pod, gang) for pod in snapshot.pods(row))}
        if gang.running
        else set()
    )
    by_group: dict[GroupRef, str] = {ref: own[key] for ref, own in labels.items() if key in own}
    is_host = key == HOSTNAME_LABEL
    for value in dict.fromkeys([*values.values(), *(() if is_host else by_group.values())]):
        if value is None or (held and value not in held):
            continue
        rows = np.array([values.get(row) == value for row in range(len(snapshot))], dtype=np.bool_)
        groups = (
            frozenset(ref for ref, own in by_group.items() if own == value) if not is_host else frozenset[GroupRef]()
        )
        yield _Domain(rows=rows, groups=groups)
    if is_host and not held:
        nothing = np.zeros(len(snapshot), dtype=np.bool_)
        for ref in labels:
            yield _Domain(rows=nothing, groups=frozenset({ref}), most=1)


def _is_of(pod: Pod, gang: Gang) -> bool:
    return find_gang(pod) == gang.ref and pod.metadata.deletion_timestamp is None


@dataclass(frozen=True, kw_only=True)
class _Trial:
    """The gang on a snapshot: its pods with their rows, and those without room."""

    snapshot: Snapshot
    placed: Sequence[tuple[Pod, int]]
    left: Sequence[Pod]


def _try(snapshot: Snapshot, gang: Gang, allowed: Mask | None) -> _Trial:
    placed, left = place_greedily(snapshot, gang.waiting, allowed)
    return _Trial(snapshot=snapshot, placed=placed, left=left)


@dataclass(frozen=True, kw_only=True)
class _Found:
    """The growth for a gang: new nodes of each group (``counts``; None: no growth suffices), and how many pods find room.

    ``tried`` are the nodes that were not enough. ``cost`` is that of ``counts``, as of ``_cost_of``.
    """

    placed: int
    tried: Counts = field(default_factory=dict)
    counts: Counts | None = None
    trial: _Trial | None = None
    expander: str = ""
    cost: tuple[bool, float] = (False, 0.0)
    skipped: Mapping[GroupRef, SkipReason] = field(default_factory=dict)


def _cost_of(context: PlanningContext, counts: Counts) -> tuple[bool, float]:
    """Return what new nodes cost, to be compared: whether some have no price, and USD an hour for the others.

    Machines that are already paid for cost nothing.
    """
    seen = {ref: group.seen for ref, group in context.state.groups.items()}
    reservations = {one.reserved for one in seen.values() if one.reserved is not None}
    unused = {one.name: paid_machines(one, seen.values()) for one in reservations}
    cost = hourly_cost([seen[ref] for ref in counts], counts, unused)
    return bool(cost.unpriced), cost.total


class _GangScaleUp(ScaleUp):
    """A scale-up without probes: a part of a gang proves nothing."""

    def _make_probation(self, may_grow: Collection[GroupRef]) -> Probation:  # noqa: ARG002 - see the class
        return Probation(self._context, (), self._fit)


class _GangGrowth:
    """Finds the new nodes for one gang."""

    def __init__(self, context: PlanningContext, gang: Gang, random: Random) -> None:
        self._context, self._gang, self._random = context, gang, random
        self._trials = 0

    def find(self) -> _Found:
        """Return the growth that gives room to the most pods; of equal ones the cheapest. No ``counts``: there is none."""
        state = self._context.state
        doubtful = {ref: _ON_PROBATION for ref in self._context.templates if self._is_doubtful(ref)}
        best = self._best({ref: why for ref, why in doubtful.items() if ref in state.groups})
        return best if best.counts is not None or not doubtful else self._best({})

    def _is_doubtful(self, ref: GroupRef) -> bool:
        state = self._context.state
        return ref in self._context.silent or allowance(state.groups[ref].backoff, state.now) is not None

    def _best(self, barred: Mapping[GroupRef, SkipReason]) -> _Found:
        labels = {ref: template.node.metadata.labels for ref, template in self._context.templates.items()}
        found = [self._find_in(domain, barred) for domain in _domains_of(self._context.snapshot, self._gang, labels)]
        enough = [one for one in found if one.counts is not None]
        if enough:
            return min(enough, key=lambda one: (-one.placed, one.cost, sum((one.counts or {}).values())))
        return max(found, key=lambda one: one.placed, default=_Found(placed=0))

    def _find_in(self, domain: _Domain, barred: Mapping[GroupRef, SkipReason]) -> _Found:
        """Return the growth in one domain for the pods that existing nodes do not take; if that fails, for all pods."""
        found = self._find_beside(domain, barred, self._try({}, domain))
        snapshot = self._context.snapshot
        is_plain = all(is_countable(snapshot, snapshot.class_of(pod)) for pod in self._gang.waiting)
        if found.counts is not None or is_plain:
            return found
        # Existing nodes may take the first of some pods that must be together and have no room for the rest.
        nothing = _Trial(snapshot=snapshot, placed=(), left=self._gang.waiting)
        other = self._find_beside(domain, barred, nothing)
        return other if other.counts is not None else found

    def _find_beside(self, domain: _Domain, barred: Mapping[GroupRef, SkipReason], trial: _Trial) -> _Found:
        context, gang = self._context, self._gang
        groups = domain.groups
        outside = {ref: _OTHER_DOMAIN for ref in context.state.groups if groups is not None and ref not in groups}
        counts: dict[GroupRef, int] = {}
        expander, quota = "", context.quota.fork()
        skipped: Mapping[GroupRef, SkipReason] | None = None
        for _ in range(_MOST_ROUNDS):
            limit = self._growth_limit(counts, domain)
            if not trial.left or limit == 0:
                break
            now = with_targets(
                replace(context, snapshot=trial.snapshot, quota=quota, growth_limit=limit),
                {ref: (context.state.groups[ref].seen.target or 0) + count for ref, count in counts.items()},
            )
            _, report = _GangScaleUp(now, trial.left, self._random, {**barred, **outside}).plan()
            skipped = report.skipped if skipped is None else skipped
            for expansion in report.expansions:
                counts[expansion.group] = counts.get(expansion.group, 0) + expansion.added
            if report.expansions:
                expander, trial = report.expander, self._try(counts, domain)
                continue
            more = self._make_way(counts, trial, domain, {**barred, **outside}, quota)
            if more is None:
                break
            counts, trial = more
        placed = len(trial.placed)
        if placed < max(1, gang.need) or not counts:
            return _Found(placed=placed, tried=counts, skipped=skipped or {})
        counts, trial = self._trim(counts, trial, domain)
        cost = _cost_of(context, counts)
        return _Found(placed=placed, counts=counts, trial=trial, expander=expander, cost=cost, skipped=skipped or {})

    def _growth_limit(self, counts: Counts, domain: _Domain) -> int | None:
        """Return how many more nodes may be added besides these; None: there is no such limit."""
        limits = [limit for limit in (self._context.growth_limit, domain.most) if limit is not None]
        return max(0, min(limits) - sum(counts.values())) if limits else None

    def _try(self, counts: Counts, domain: _Domain) -> _Trial:
        """Place the gang in a fork with these new nodes."""
        self._trials += 1
        context, fork = self._context, self._context.snapshot.fork()
        for ref, count in counts.items():
            template = context.templates[ref]
            rows = fork.add_copies(template.node, count)
            place_daemons(fork, template, range(rows.start, rows.stop))
        return _try(fork, self._gang, domain.widened(len(fork)))

    def _make_way(
        self, counts: Counts, trial: _Trial, domain: _Domain, barred: Collection[GroupRef], quota: Quota
    ) -> tuple[dict[GroupRef, int], _Trial] | None:
        """Return more nodes for pods that have room, so that they leave it to pods that fit nowhere else; None: that fails.

        kube-scheduler places the pods greedily: some may take the only nodes on which others fit.
        """
        context, snapshot = self._context, trial.snapshot
        classes = {snapshot.class_of(pod) for pod, _ in trial.placed}
        if classes <= {snapshot.class_of(pod) for pod in trial.left}:
            return None
        fit = NodeGroupFit(context.snapshot, context.templates, context.barred)
        refs = [ref for ref in context.templates if ref not in barred and skip_reason(context, ref) is None]
        for ref in [ref for ref in refs if any(ref in fit.fits(pod_class) for pod_class in classes)]:
            template, had = context.templates[ref], counts.get(ref, 0)
            for extra in range(1, min(_MOST_EXTRA, context.room(ref) - had) + 1):
                left = context.nodes_left
                is_limited = left is not None and sum(counts.values()) + extra > left
                if is_limited or quota.allowed(template.node, extra)[0] < extra:
                    break
                wider = self._try({**counts, ref: had + extra}, domain)
                if len(wider.placed) > len(trial.placed):
                    quota.consume(template.node, extra)
                    return {**counts, ref: had + extra}, wider
        return None

    def _trim(self, counts: dict[GroupRef, int], trial: _Trial, domain: _Domain) -> tuple[dict[GroupRef, int], _Trial]:
        """Return the fewest nodes found that give room to as many pods. Zero-or-max groups keep all their new nodes."""
        placed, last = len(trial.placed), self._trials + _MOST_TRIALS
        for ref in list(counts)[::-1]:
            if self._context.state.groups[ref].seen.options.zero_or_max_node_scaling:
                continue
            step = counts[ref]
            while step and self._trials < last:
                if step <= counts[ref]:
                    fewer = {
                        one: count - step * (one == ref) for one, count in counts.items() if count - step * (one == ref)
                    }
                    smaller = self._try(fewer, domain)
                    if fewer and len(smaller.placed) >= placed:
                        counts, trial = {ref: 0, **fewer}, smaller
                        continue
                step //= 2
        return {ref: count for ref, count in counts.items() if count}, trial


# The result


def _buy(
    context: PlanningContext, gang: Gang, found: _Found
) -> tuple[list[IncreaseSize], ScaleUpReport, PlanningContext]:
    """Return the increases, their report, and the context with the new nodes and the gang on them."""
    assert found.counts is not None
    assert found.trial is not None
    groups, expansions = context.state.groups, list[Expansion]()
    for ref, count in found.counts.items():
        context.quota.consume(context.templates[ref].node, count)
        seen = groups[ref].seen
        current = seen.target or 0
        expansions.append(Expansion(group=ref, current=current, target=current + count, maximum=seen.group.max_size))
    pods = tuple(pod for pod, _ in found.trial.placed)
    whole = ForRequest(id=gang.ref.id, key=gang.ref.key, nodes=sum(found.counts.values()), is_gang=True)
    actions = [
        changed(action, request=whole, atomic=Capability.ATOMIC_RESIZE in groups[action.group].seen.capabilities)
        for action in increases(expansions, pods)
    ]
    report = ScaleUpReport(
        result=ScaleUpResult.SUCCESSFUL,
        expansions=tuple(expansions),
        options=tuple(
            OptionSummary(group=one.group, nodes=one.added, pods=len(pods), chosen=True) for one in expansions
        ),
        triggered=pods,
        unhelped=_unhelped(context, gang, found.trial.left, "there is no room for it, and the gang starts without it"),
        skipped=found.skipped,
        expander=found.expander,
    )
    left = context.growth_limit
    after = with_targets(
        replace(
            context,
            snapshot=found.trial.snapshot,
            growth_limit=None if left is None else left - sum(found.counts.values()),
        ),
        {one.group: one.target for one in expansions},
    )
    return actions, report, after


def _refusal(context: PlanningContext, gang: Gang, why: str, found: _Found | None) -> ScaleUpReport:
    text = f"{gang} needs {gang.min_count} pods to start together: {why}"
    return ScaleUpReport(
        result=ScaleUpResult.NO_OPTIONS,
        options=tuple(
            OptionSummary(group=ref, nodes=count, pods=found.placed, chosen=False) for ref, count in found.tried.items()
        )
        if found is not None
        else (),
        unhelped=_unhelped(context, gang, gang.waiting, text),
        skipped=found.skipped if found is not None else {},
    )


def _unhelped(context: PlanningContext, gang: Gang, pods: Sequence[Pod], text: str) -> tuple[Unhelped, ...]:
    """Return the pods, each with a reason for every group: the gang's reason, and what keeps this group from helping."""
    fit = NodeGroupFit(context.snapshot, context.templates, context.barred) if pods and not gang.problem else None
    reasons: dict[object, dict[GroupRef, SkipReason]] = {}
    found = []
    for pod in pods:
        pod_class = context.snapshot.class_of(pod)
        if pod_class not in reasons:
            reasons[pod_class] = {}
            for ref in context.state.groups:
                own = skip_reason(context, ref) or (
                    fit.rejection(pod_class, ref) if fit is not None and ref in context.templates else None
                )
                message = text if own is None or gang.problem else f"{text}; {own}"
                reasons[pod_class][ref] = SkipReason(code=SkipCode.GANG, message=message)
        found.append(Unhelped(pod=pod, reasons=reasons[pod_class]))
    return tuple(found)
