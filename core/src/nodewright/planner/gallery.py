"""Would a new node of this group take that pod? Answered once per pod class for all groups together."""

from collections.abc import Mapping

from nodewright.estimator.binpacking import Template
from nodewright.model.group import GroupRef
from nodewright.model.reason import Rejection
from nodewright.planner.template import place_daemons
from nodewright.predicates import explain, feasible, is_guarded_against
from nodewright.snapshot.pod_class import PodClass
from nodewright.snapshot.snapshot import Snapshot


class Gallery:
    """One empty node of every group.

    Pods whose places do not depend on other pods are tried on all of them at once, in a picture that holds
    nothing else; the others on one new node at a time beside the whole cluster, since a domain that no real
    node is in would change the answer.
    """

    def __init__(self, snapshot: Snapshot, templates: Mapping[GroupRef, Template]) -> None:
        self._snapshot = snapshot
        self._templates = templates
        self._order = list(templates)
        self._board = snapshot.sibling()
        self._board.add_nodes([template.node for template in templates.values()])
        for row, template in enumerate(templates.values()):
            place_daemons(self._board, template, [row])
        self._beside: dict[GroupRef, Snapshot] = {}
        self._fits: dict[PodClass, frozenset[GroupRef]] = {}

    def fits(self, pod_class: PodClass) -> frozenset[GroupRef]:
        """The groups whose new node takes a pod of the class."""
        found = self._fits.get(pod_class)
        if found is None:
            found = self._fits[pod_class] = frozenset(self._find(pod_class))
        return found

    def rejection(self, pod_class: PodClass, ref: GroupRef) -> Rejection | None:
        """Why the new node of a group does not take a pod of the class."""
        if self._is_independent(pod_class):
            return explain(self._board, pod_class, self._order.index(ref))
        beside = self._with_node(ref)
        return explain(beside, pod_class, len(beside) - 1)

    def _find(self, pod_class: PodClass) -> list[GroupRef]:
        if self._is_independent(pod_class):
            mask = feasible(self._board, pod_class)
            return [ref for ref, fits in zip(self._order, mask.tolist(), strict=True) if fits]
        return [ref for ref in self._order if self._fits_beside(pod_class, ref)]

    def _fits_beside(self, pod_class: PodClass, ref: GroupRef) -> bool:
        beside = self._with_node(ref)
        last = len(beside) - 1
        return bool(feasible(beside, pod_class, slice(last, last + 1))[0])

    def _is_independent(self, pod_class: PodClass) -> bool:
        return pod_class.is_plain and not is_guarded_against(self._snapshot, pod_class)

    def _with_node(self, ref: GroupRef) -> Snapshot:
        """The cluster with one new node of a group, its last row."""
        if ref not in self._beside:
            beside = self._snapshot.fork()
            row = beside.add_copies(self._templates[ref].node, 1).start
            place_daemons(beside, self._templates[ref], [row])
            self._beside[ref] = beside
        return self._beside[ref]
