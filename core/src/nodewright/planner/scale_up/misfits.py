"""Misfits: nodes that do not take the pods they were bought for (docs/adr/0027-vain-purchases.md)."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace as changed

from nodewright.clusterstate.learned_templates import is_startup_of, settling_seconds
from nodewright.clusterstate.memory import Purchase, Purchases
from nodewright.clusterstate.node_samples import STANDARD_RESOURCES, is_stable, sample_of
from nodewright.clusterstate.purchases import (
    DAY,
    MOST_MISFITS,
    MOST_WITH_EVIDENCE,
    after_misfit,
    asked_since,
    recent_misfits,
    with_asked,
)
from nodewright.clusterstate.state import ClusterState
from nodewright.estimator.binpacking import Template
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.plan import MisfitNode, PlannedNode, ScaleUpReport
from nodewright.model.pod import Pod
from nodewright.model.policy import Policy
from nodewright.model.reason import Rejection, SkipCode, SkipReason
from nodewright.model.settings import TemplateSettings
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import skip_reason
from nodewright.planner.scale_up.pending_pods import Bought, ByClass, unplaced
from nodewright.planner.scale_up.planned_nodes import planned_places
from nodewright.planner.scale_up.templates import place_daemons, sanitized
from nodewright.predicates import NODE_FILTERS, explain, node_volume_limits
from nodewright.snapshot.pod_class import PodClass, kind_of, map_alike
from nodewright.snapshot.snapshot import Snapshot

_AT_ONCE = frozenset({"Too many pods", *(f"Insufficient {name}" for name in STANDARD_RESOURCES)})
# Why a group is not grown for a class of pods.
Barred = Mapping[PodClass, Mapping[GroupRef, SkipReason]]


@dataclass(frozen=True)
class PurchaseEvaluation:
    """The purchases to remember, new misfits, and the groups that are not grown for a class of pods."""

    purchases: Purchases = field(default_factory=dict)
    misfits: tuple[MisfitNode, ...] = ()
    barred: Barred = field(default_factory=dict)


def evaluate_purchases(context: PlanningContext, left: Iterable[Pod]) -> PurchaseEvaluation:
    """Evaluate what was bought, now that the pods in ``left`` fit nowhere. CA does not do this.

    A purchase ends when a node of the group is up that was created after it: no such pods wait any more, or the node
    would take them if it were empty, or it is a misfit.
    """
    state, templates = context.state, context.settings.templates
    held = state.memory.purchases
    if not held or not context.settings.policy.remembers_purchases:
        return PurchaseEvaluation()
    classes = _by_kind(state.observation.snapshot, left)
    purchases: dict[GroupRef, dict[str, Purchase]] = {ref: dict(kinds) for ref, kinds in held.items()}
    misfits, unsettled = list[MisfitNode](), set[tuple[GroupRef, str]]()
    for ref, kinds in purchases.items():
        _end_pauses(state, templates, ref, kinds, classes)
        newest = _newest_up(state, ref, asked_since(held, ref))
        if newest is None:
            continue
        for kind, purchase in kinds.items():
            if not purchase.asked or newest.created < purchase.asked:
                continue
            waiting = next(iter(classes.get(kind, {}).items()), None)
            if waiting is None:
                kinds[kind] = changed(purchase, asked=0.0)
                continue
            pod_class, pod = waiting
            rejection = _find_rejection(state, templates, newest, pod_class)
            if rejection is None:
                kinds[kind] = Purchase()
            elif not (_is_settled(state, ref, newest) or _is_final(rejection)):
                unsettled.add((ref, kind))
            else:
                kinds[kind] = after_misfit(purchase, str(rejection), state.now)
                reason, until = str(rejection), kinds[kind].until
                misfits.append(MisfitNode(group=ref, node=newest.name, pod=pod.key, reason=reason, until=until))
    barred = {
        pod_class: reasons
        for kind, alike in classes.items()
        if (reasons := _find_bars(context, purchases, unsettled, kind, next(iter(alike))))
        for pod_class in alike
    }
    return PurchaseEvaluation(purchases, tuple(misfits), barred)


def _is_settled(state: ClusterState, ref: GroupRef, node: Node) -> bool:
    """Return whether a new node reports all that it offers. A node with a startup taint is still starting."""
    learned, group = state.memory.learned.get(ref), state.groups[ref]
    starts = node.created + group.seen.options.max_node_startup_seconds > state.now
    if starts and any(is_startup_of(learned, taint) for taint in node.spec.taints):
        return False
    return is_stable(node, state.now, settling_seconds(learned))


def _end_pauses(
    state: ClusterState,
    templates: TemplateSettings,
    ref: GroupRef,
    kinds: dict[str, Purchase],
    classes: Mapping[str, Mapping[PodClass, Pod]],
) -> None:
    """End the pauses of kinds of pods that a newer node than the misfit takes. Misfits still count for a day."""
    paused = [kind for kind, one in kinds.items() if not one.asked and one.until > state.now and kind in classes]
    newest = _newest_up(state, ref, 0.0) if paused else None
    if newest is None:
        return
    for kind in paused:
        if (
            newest.created >= max(kinds[kind].misfits, default=0.0)
            and _find_rejection(state, templates, newest, next(iter(classes[kind]))) is None
        ):
            kinds[kind] = changed(kinds[kind], until=0.0)


def note_purchases(
    held: Purchases, reports: Iterable[ScaleUpReport], snapshot: Snapshot, policy: Policy, now: float
) -> Purchases:
    """Return the purchases with those that a plan makes for pods."""
    if not policy.remembers_purchases:
        return held
    bought: dict[tuple[GroupRef, str], None] = {}
    for report in reports:
        if report.expansions:
            bought |= dict.fromkeys(_bought_for(report, snapshot))
    return with_asked(held, bought, now) if bought else held


def note_moves(
    held: Purchases, moves: Iterable[PlannedNode], snapshot: Snapshot, policy: Policy, now: float
) -> Purchases:
    """Return the purchases with the new nodes of moves."""
    if not policy.remembers_purchases:
        return held
    bought = dict.fromkeys(
        (node.group, kind)
        for node in moves
        for _, kind in map_alike(node.pods, lambda pod: kind_of(snapshot.class_of(pod)))
    )
    return with_asked(held, bought, now) if bought else held


def find_moving(state: ClusterState) -> Iterator[Pod]:
    """Yield the pods of the nodes that moves under way remove, as if they were pending."""
    snapshot = state.observation.snapshot
    names = (name for move in state.memory.moves.under_way.values() for name in move.left if name in snapshot)
    for name in names if state.memory.purchases else ():
        pods = snapshot.pods(snapshot.row(name))
        yield from (unplaced(pod) for pod in pods if not (pod.is_daemonset_pod or pod.is_mirror))


def bars_of(context: PlanningContext, classes: Iterable[PodClass]) -> Barred:
    """Return the groups that are not grown for these classes, because new nodes did not take such pods."""
    purchases = context.purchases
    if not purchases:
        return {}
    found = {one: _find_bars(context, purchases, frozenset(), kind_of(one), one) for one in classes}
    return {one: reasons for one, reasons in found.items() if reasons}


def _bought_for(report: ScaleUpReport, snapshot: Snapshot) -> Iterator[tuple[GroupRef, str]]:
    """Yield which group grows for which kind of pods. Expansions without planned nodes count for all other pods."""
    for ref, kinds in dict.fromkeys((node.group, node.kinds) for node in report.nodes):
        yield from ((ref, kind) for kind, _ in kinds)
    planned = Counter(node.group for node in report.nodes)
    grown = [one.group for one in report.expansions if one.added > planned[one.group]]
    if not grown:
        return
    known = {id(pod) for node in report.nodes for pod in node.pods}
    others = [pod for pod in report.triggered if id(pod) not in known] if known else report.triggered
    kinds_of_others = dict.fromkeys(kind for _, kind in map_alike(others, lambda pod: kind_of(snapshot.class_of(pod))))
    yield from ((ref, kind) for ref in grown for kind in kinds_of_others)


def find_bought(context: PlanningContext, by_class: ByClass) -> Bought | None:
    """Return what upcoming rows were bought for; None if that is not remembered. ``by_class``: the pods that wait."""
    if not context.settings.policy.remembers_purchases:
        return None
    purchases, coming = context.state.memory.purchases, context.coming

    def rows(pod_class: PodClass) -> Sequence[int]:
        kind = kind_of(pod_class) if purchases else ""
        asked = (ref for ref, kinds in purchases.items() if kind in kinds and kinds[kind].asked)
        return [row for ref in asked for row in coming.get(ref, ())]

    places = planned_places(context, by_class)
    nothing: Mapping[int, int] = {}
    return Bought(rows, lambda pod_class: places.get(kind_of(pod_class), nothing) if places else nothing)


def _by_kind(snapshot: Snapshot, pods: Iterable[Pod]) -> dict[str, dict[PodClass, Pod]]:
    """Return the classes of pods of each kind, each with one of its pods."""
    found: dict[str, dict[PodClass, Pod]] = {}
    for pod, pod_class in map_alike(pods, snapshot.class_of):
        found.setdefault(kind_of(pod_class), {}).setdefault(pod_class, pod)
    return found


def _newest_up(state: ClusterState, ref: GroupRef, since: float) -> Node | None:
    """Return the newest node of a group that is up and was created at ``since`` (epoch seconds) or later."""
    snapshot, group = state.observation.snapshot, state.groups.get(ref)
    if group is None or since == float("inf"):
        return None
    rows = (snapshot.find_row(name) for name in group.readiness.ready)
    nodes = (snapshot.node(row) for row in rows if row is not None)
    return max((node for node in nodes if node.created >= since), key=lambda node: node.created, default=None)


def _find_rejection(
    state: ClusterState, templates: TemplateSettings, node: Node, pod_class: PodClass
) -> Rejection | None:
    """Return why a node does not take a pod of the class even if only DaemonSets run on it; None if it does."""
    sample = sample_of(node, state.observation)
    template_nodes = state.observation.snapshot.sibling()
    template_nodes.add_nodes([sanitized(node, node.name, templates)])
    place_daemons(template_nodes, Template(node, sample.pods), [len(template_nodes) - 1])
    rejection = explain(template_nodes, pod_class, len(template_nodes) - 1)
    if rejection is not None and rejection.predicate in NODE_FILTERS:
        return rejection
    context = state.observation.snapshot.context
    csi_node = context.csi_nodes.get(node.name)
    if csi_node is None or not pod_class.spec.volumes:
        return None
    # Under another name, so that volumes which are attached to the node do not count.
    alike = changed(sanitized(node, f"{node.name}-alike", templates), csi_node=csi_node)
    with_volumes = state.observation.snapshot.sibling()
    with_volumes.context = context
    with_volumes.add_nodes([alike])
    reasons = node_volume_limits.PREDICATE.explain(with_volumes, pod_class, 0)
    return Rejection(predicate=node_volume_limits.PREDICATE.name, reasons=reasons) if reasons is not None else None


def _is_final(rejection: Rejection) -> bool:
    """Return whether the node lacks a resource that its kubelet reports with its first status."""
    return bool(rejection.reasons) and _AT_ONCE.issuperset(rejection.reasons)


def _find_bars(
    context: PlanningContext,
    purchases: Purchases,
    unsettled: Collection[tuple[GroupRef, str]],
    kind: str,
    pod_class: PodClass,
) -> dict[GroupRef, SkipReason]:
    """Return the groups that are not grown for a kind of pods, of which ``pod_class`` is one class.

    After two vain purchases within a day, a group comes first that has a node which takes such pods, if it may grow and helps.
    After three, only such groups are grown, and those whose description has changed since. After four, only groups with such a
    node that never grew in vain, or whose node came after the last vain purchase. All others wait, also those that were
    never tried. A purchase whose node is not settled yet counts as vain meanwhile.
    """
    state = context.state
    barred = dict(_paused_groups(purchases, unsettled, kind, state.now))
    doubtful = {purchases[ref][kind].asked for ref, of in unsettled if of == kind}
    certain = recent_misfits(purchases, kind, state.now)
    misfits = sorted(doubtful.union(certain))
    if len(misfits) < MOST_MISFITS - 1:
        return barred
    others, is_late = state.groups.keys() - barred.keys(), len(misfits) >= MOST_WITH_EVIDENCE
    refuted_at = misfits[-1] if is_late else 0.0
    allowed = {ref for ref in others if _is_proven(context, purchases, ref, kind, pod_class, refuted_at)}
    if len(misfits) < MOST_MISFITS and not _helps_any(context, allowed, pod_class):
        return barred
    if not is_late:
        allowed |= {ref for ref in others if _described_since(state, ref) > misfits[-1]}
    return barred | dict.fromkeys(others - allowed, _why_too_often(len(misfits), certain))


def _helps_any(context: PlanningContext, groups: Collection[GroupRef], pod_class: PodClass) -> bool:
    """Return whether one of the groups may grow now and its new node fits such pods."""
    able = {ref for ref in groups if skip_reason(context, ref) is None}
    return bool(able) and not able.isdisjoint(NodeGroupFit(context.snapshot, context.templates, {}).fits(pod_class))


def _why_too_often(times: int, certain: Sequence[float]) -> SkipReason:
    """Return why a group waits that was not paused itself.

    ``times``: how many loops of the last day asked in vain, or perhaps in vain. ``certain``: when those asked that surely did.
    """
    often = {2: "twice", 3: "three times"}.get(times, "more than three times")
    if times < MOST_MISFITS:
        then = "a group comes first that has a node which takes them"
    else:
        described = ", or a new description" if times < MOST_WITH_EVIDENCE else ""
        is_timed = len(certain) >= MOST_MISFITS
        until = f"before {format_moment(certain[-MOST_MISFITS] + DAY)}" if is_timed else "for now"
        then = f"{until} only a group grows that has a node which takes them{described}"
    message = f"nodes that were added for such pods did not take them, {often} within a day; {then}"
    return SkipReason(code=SkipCode.MISFIT, message=message)


def _is_proven(
    context: PlanningContext, purchases: Purchases, ref: GroupRef, kind: str, pod_class: PodClass, refuted_at: float
) -> bool:
    """Return whether the newest node of a group takes such pods, and came after the group's last misfit and description.

    ``refuted_at``: the node of a group with misfits must also have come after this (epoch seconds).
    """
    misfits = purchases.get(ref, {}).get(kind, Purchase()).misfits
    since = max((_described_since(context.state, ref), *misfits, *([refuted_at] if misfits else ())))
    newest = _newest_up(context.state, ref, since)
    return newest is not None and _find_rejection(context.state, context.settings.templates, newest, pod_class) is None


def _described_since(state: ClusterState, ref: GroupRef) -> float:
    """Return since when machines have come by the provider's present template (epoch seconds); 0: always."""
    learned = state.memory.learned.get(ref)
    return learned.since if learned is not None else 0.0


def _paused_groups(
    purchases: Purchases, unsettled: Collection[tuple[GroupRef, str]], kind: str, now: float
) -> Iterator[tuple[GroupRef, SkipReason]]:
    for ref, kinds in purchases.items():
        purchase = kinds.get(kind)
        if (ref, kind) in unsettled:
            message = "its new node does not take such pods yet, and may lack devices or labels that come later"
        elif purchase is not None and purchase.misfits and now <= purchase.until:
            until = format_moment(purchase.until)
            message = f"a node that was added for such pods did not take them ({purchase.reason}); not before {until}"
        else:
            continue
        yield ref, SkipReason(code=SkipCode.MISFIT, message=message)
