"""Find the node groups whose new, empty node would fit a pod."""

from collections.abc import Hashable, Mapping, Sequence

from nodewright.estimator.binpacking import Estimate, Template, estimate
from nodewright.estimator.new_nodes import IsOver, never
from nodewright.estimator.pod_group import PodGroup
from nodewright.model.group import GroupRef
from nodewright.model.meta import Resources
from nodewright.model.node import HOSTNAME_LABEL
from nodewright.model.reason import Rejection, SkipReason
from nodewright.planner.scale_up.templates import empty_nodes, place_daemons
from nodewright.predicates import amounts_room, explain, feasible, is_countable, static_fit
from nodewright.snapshot.column import Mask
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


class NodeGroupFit:
    """One empty node of every group.

    Pods whose place does not depend on other pods are tried on all nodes at once, in a snapshot of these nodes alone.
    Other pods are tried on one new node at a time beside the whole cluster, because a topology domain without an
    existing node would change the result. Groups in ``barred`` do not fit the class.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        templates: Mapping[GroupRef, Template],
        barred: Mapping[PodClass, Mapping[GroupRef, SkipReason]],
    ) -> None:
        self._snapshot = snapshot
        self._barred = barred
        self._templates = templates
        self._row = {ref: row for row, ref in enumerate(templates)}
        self._template_nodes = empty_nodes(snapshot, templates.values())
        self._beside: dict[GroupRef, Snapshot] = {}
        self._sets: dict[bytes, frozenset[GroupRef]] = {}
        self._fits: dict[PodClass, frozenset[GroupRef]] = {}
        self._kinds: dict[GroupRef, Hashable] = {}
        # Keep the groups of pods with the estimate, so that their ids are not reused.
        self._estimates: dict[Hashable, tuple[Sequence[PodGroup], Estimate]] = {}
        # Groups for which the time limit passed before all pods had been tried.
        self.cut_short: set[GroupRef] = set()

    def fits(self, pod_class: PodClass) -> frozenset[GroupRef]:
        """Return the groups whose new node fits a pod of the class."""
        found = self._fits.get(pod_class)
        if found is None:
            found = self._fits[pod_class] = self._find(pod_class).difference(self._barred.get(pod_class, ()))
        return found

    def fits_alone(self, pod_class: PodClass) -> frozenset[GroupRef]:
        """Return the groups whose new node fits a pod of the class, leaving pods on other nodes aside."""
        if is_countable(self._snapshot, pod_class):
            return self.fits(pod_class)
        nodes, every = self._template_nodes, slice(0, len(self._row))
        mask = static_fit(nodes, pod_class, every) & (amounts_room(nodes, pod_class, every) > 0)
        return self._refs(mask).difference(self._barred.get(pod_class, ()))

    def free(self, ref: GroupRef) -> frozenset[tuple[str, int]]:
        """Return how much of each resource a new node of a group has free, as pairs of the resource and the amount."""
        nodes = self._template_nodes
        return frozenset(zip(nodes.vocabulary.resources, nodes.free[self._row[ref]].tolist(), strict=False))

    def rejection(self, pod_class: PodClass, ref: GroupRef) -> Rejection | SkipReason | None:
        """Return why a group's new node does not fit a pod of the class; None if it does."""
        if ref in self.fits(pod_class):
            return None
        barred = self._barred.get(pod_class, {}).get(ref)
        if barred is not None:
            return barred
        if is_countable(self._snapshot, pod_class):
            return explain(self._template_nodes, pod_class, self._row[ref])
        beside = self._with_node(ref)
        return explain(beside, pod_class, len(beside) - 1)

    def estimate(
        self, ref: GroupRef, groups: Sequence[PodGroup], limit: int, *, fastpath: bool, is_over: IsOver = never
    ) -> Estimate:
        """Return how pods are packed on new nodes of a group. Groups with equal nodes share the result."""
        key = (self._kind(ref), limit, fastpath, tuple(map(id, groups)))
        known = self._estimates.get(key)
        if known is None:
            found = estimate(self._snapshot, self._templates[ref], groups, limit, fastpath=fastpath, is_over=is_over)
            known = self._estimates[key] = (groups, found)
        if known[1].is_partial:
            self.cut_short.add(ref)
        return known[1]

    def _kind(self, ref: GroupRef) -> Hashable:
        """Return everything of a group's template except its name that affects packing."""
        kind = self._kinds.get(ref)
        if kind is None:
            template = self._templates[ref]
            spec, status, labels = template.node.spec, template.node.status, dict(template.node.metadata.labels)
            labels.pop(HOSTNAME_LABEL, None)
            daemons = tuple(self._snapshot.class_of(pod, placed=True).id for pod in template.pods)
            offers = _amounts(status.capacity), _amounts(template.node.allocatable)
            kind = (frozenset(labels.items()), spec.taints, spec.unschedulable, *offers, daemons)
            self._kinds[ref] = kind
        return kind

    def _find(self, pod_class: PodClass) -> frozenset[GroupRef]:
        if is_countable(self._snapshot, pod_class):
            return self._refs(feasible(self._template_nodes, pod_class))
        return frozenset(ref for ref in self._row if self._fits_beside(pod_class, ref))

    def _refs(self, mask: Mask) -> frozenset[GroupRef]:
        """Return the groups of a mask of rows; the same set for the same mask."""
        key = mask.tobytes()
        if key not in self._sets:
            self._sets[key] = frozenset(ref for ref, fits in zip(self._row, mask.tolist(), strict=True) if fits)
        return self._sets[key]

    def _fits_beside(self, pod_class: PodClass, ref: GroupRef) -> bool:
        beside = self._with_node(ref)
        last = len(beside) - 1
        return bool(feasible(beside, pod_class, slice(last, last + 1))[0])

    def _with_node(self, ref: GroupRef) -> Snapshot:
        """Return the cluster with one new node of a group as its last row."""
        if ref not in self._beside:
            beside = self._snapshot.fork()
            row = beside.add_copies(self._templates[ref].node, 1).start
            place_daemons(beside, self._templates[ref], [row])
            self._beside[ref] = beside
        return self._beside[ref]


def _amounts(resources: Resources) -> frozenset[tuple[str, int]]:
    return frozenset((name, quantity.nano) for name, quantity in resources.items())
