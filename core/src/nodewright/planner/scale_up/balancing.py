"""Balance growth over similar node groups (CA: --balance-similar-node-groups)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nodewright.estimator.binpacking import Template
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.group import GroupRef
from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.plan import Expansion
from nodewright.model.quantity import ZERO, Quantity
from nodewright.model.settings import ScaleUpSettings
from nodewright.planner.context import PlanningContext
from nodewright.planner.scale_up.node_group_fit import NodeGroupFit
from nodewright.planner.scale_up.options import unsafe_reason
from nodewright.snapshot.requests import PODS, exact_requests, is_counted


@dataclass
class Share:
    """A group's size while nodes are distributed."""

    current: int
    new: int
    maximum: int


def balance_sizes(sizes: Sequence[tuple[int, int]], wanted: int) -> list[int]:
    """Return the sizes of groups given as (current, maximum) after adding ``wanted`` nodes, to the smallest group first.

    Equal groups grow in the order given. Full groups do not grow; nodes for which no group has room are left over. Raise
    ValueError if there are no groups.
    """
    if not sizes:
        raise ValueError("no groups to balance")
    shares = [Share(current, current, maximum) for current, maximum in sizes]
    open_shares = [share for share in shares if share.current != share.maximum]
    wanted = min(wanted, sum(max(0, share.maximum - share.current) for share in open_shares))
    _deal(sorted(open_shares, key=lambda share: share.current), wanted)
    return [share.new for share in shares]


def _deal(line: list[Share], wanted: int) -> None:
    """Distribute nodes to the smallest groups in turn; full ones are swapped to the front (CA's algorithm)."""
    first = at = 0
    while wanted > 0:
        share = line[at]
        if share.new < share.maximum:
            share.new += 1
            wanted -= 1
        else:
            line[first], line[at] = line[at], line[first]
            first += 1
        onward = at < len(line) - 1 and line[at].new > line[at + 1].new
        at = at + 1 if onward else first


def find_similar(
    context: PlanningContext, ref: GroupRef, groups: Sequence[PodGroup], fit: NodeGroupFit
) -> list[GroupRef]:
    """Return the groups over which growth of ``ref`` may be spread.

    They are similar, may grow, and fit every pod that ``ref`` fits. Groups that do not exist yet and zero-or-max groups
    have no similar groups.
    """
    own = context.state.groups[ref].seen
    balances = context.settings.scale_up.balance_similar_node_groups and ref not in context.new_groups
    if not balances or own.options.zero_or_max_node_scaling:
        return []
    needed = {group.pod_class for group in groups if ref in fit.fits(group.pod_class)}
    if not needed:
        return []
    return [
        other
        for other in context.state.groups
        if other != ref
        and other in context.templates
        and other not in context.new_groups
        and not context.state.groups[other].seen.options.zero_or_max_node_scaling
        and unsafe_reason(context, other) is None
        and is_similar(context, ref, other)
        and all(other in fit.fits(pod_class) for pod_class in needed)
    ]


def is_similar(context: PlanningContext, ref: GroupRef, other: GroupRef) -> bool:
    """Return whether two groups with templates are similar by their provider and the settings."""
    provider = context.state.observation.providers.get(ref.provider)
    a, b = context.templates[ref], context.templates[other]
    if provider is not None and ref.provider == other.provider:
        if share_a_label(a, b, provider.same_group_labels):
            return True
        return are_similar(a, b, context.settings.scale_up, provider.ignored_labels)
    return are_similar(a, b, context.settings.scale_up)


IGNORED_LABELS = frozenset(
    {
        HOSTNAME_LABEL,
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "beta.kubernetes.io/fluentd-ds-ready",
        "kops.k8s.io/instancegroup",
    }
)


def are_similar(a: Template, b: Template, settings: ScaleUpSettings, ignored: Iterable[str] = ()) -> bool:
    """Return whether new nodes of both groups are interchangeable.

    With ``balancing_label`` those labels alone decide. Otherwise capacity must be equal (memory within a ratio),
    allocatable and free resources within ratios, and labels equal except those of hosts, zones and regions.
    ``ignored`` are further labels that may differ.
    """
    labels_a, labels_b = a.node.metadata.labels, b.node.metadata.labels
    if settings.balancing_label:
        return all(key in labels_a and labels_a[key] == labels_b.get(key) for key in settings.balancing_label)
    skipped = IGNORED_LABELS.union(settings.balancing_ignore_label, ignored)
    return (
        _same_capacity(a.node.status.capacity, b.node.status.capacity, settings.memory_difference_ratio)
        and _all_within(a.node.status.allocatable, b.node.status.allocatable, settings.max_allocatable_difference_ratio)
        and _all_within(_free(a), _free(b), settings.max_free_difference_ratio)
        and _without(labels_a, skipped) == _without(labels_b, skipped)
    )


def share_a_label(a: Template, b: Template, keys: Iterable[str]) -> bool:
    """Return whether one of ``keys``, the provider's labels of equal groups, has the same, non-empty value on both."""
    labels_a, labels_b = a.node.metadata.labels, b.node.metadata.labels
    return any(labels_a.get(key) and labels_a[key] == labels_b.get(key) for key in keys)


def _same_capacity(a: Resources, b: Resources, memory_ratio: float) -> bool:
    if a.keys() != b.keys():
        return False
    return all(_within(a[n], b[n], memory_ratio) if n == "memory" else a[n] == b[n] for n in a)


def _all_within(a: Resources, b: Resources, ratio: float) -> bool:
    return a.keys() == b.keys() and all(_within(a[name], b[name], ratio) for name in a)


def _within(a: Quantity, b: Quantity, ratio: float) -> bool:
    larger, smaller = max(a.milli, b.milli), min(a.milli, b.milli)
    return larger - smaller <= larger * ratio


def _free(template: Template) -> Resources:
    """Return allocatable resources less the requests of the template's own pods, of every resource that CA sums up.

    A resource that is requested and not offered is negative. The number of pods is not reduced, as in CA.
    """
    requested: dict[str, Quantity] = dict.fromkeys((PODS, "cpu", "memory", "ephemeral-storage"), ZERO)
    for pod in template.pods:
        for name, nano in exact_requests(pod, placed=True).items():
            if is_counted(name):
                requested[name] = requested.get(name, ZERO) + Quantity(nano)
    offered = template.node.status.allocatable
    return {name: offered.get(name, ZERO) - amount for name, amount in requested.items()}


def _without(labels: Mapping[str, str], skipped: frozenset[str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in skipped}


def balance_over(
    context: PlanningContext, refs: Sequence[GroupRef], wanted: int, limits: Mapping[GroupRef, int]
) -> tuple[Expansion, ...]:
    """Distribute nodes over groups, smallest first, within the cluster's limits.

    A group in ``limits`` grows by no more than that.
    """
    seen = [context.state.groups[ref].seen for ref in refs]
    rooms = [min(context.room(ref), limits.get(ref, wanted)) for ref in refs]
    sizes = balance_sizes(
        [((g.target or 0), (g.target or 0) + room) for g, room in zip(seen, rooms, strict=True)], wanted
    )
    expansions = []
    for ref, group, new in zip(refs, seen, sizes, strict=True):
        current = group.target or 0
        node = context.templates[ref].node
        allowed, _ = context.quota.allowed(node, new - current)
        if new > current and allowed > 0:
            context.quota.consume(node, allowed)
            maximum = group.group.max_size
            expansions.append(Expansion(group=ref, current=current, target=current + allowed, maximum=maximum))
    return tuple(expansions)
