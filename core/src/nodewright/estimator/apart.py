"""Pods of one class of which each node takes so many, whatever the other nodes hold: no need to place them singly."""

from collections.abc import Callable

import numpy as np

from nodewright.model.node import HOSTNAME_LABEL
from nodewright.predicates import amounts_room, feasible, static_fit
from nodewright.predicates.affinity_terms import NO_LABELS, terms_of, with_selected
from nodewright.predicates.node_ports import host_ports
from nodewright.predicates.pod_topology_spread import Skew, skews
from nodewright.snapshot.column import Ints, Mask
from nodewright.snapshot.pod_class import PodClass, is_restricted, per_class
from nodewright.snapshot.snapshot import Snapshot

# Rows of a picture → how many more pods of the class each takes.
Room = Callable[[Snapshot, slice], Ints]


def find_room(snapshot: Snapshot, pod_class: PodClass, first: int) -> Room | None:
    """What each of the new nodes, from row ``first`` on, takes; None where that depends on what other nodes take.

    It does not for anti-affinity, ports and spread by hostname, as long as the least loaded node, which says how
    many pods another may hold, is a full one: then the least stays what it is. Pods that a spread constraint keeps
    off the newest node are tried on the real ones, so none of these may have room.
    """
    if not _is_local(pod_class):
        return None
    found = skews(snapshot, pod_class)
    before = slice(0, first)
    if found and (not _are_pinned(snapshot, pod_class, found, before) or feasible(snapshot, pod_class, before).any()):
        return None
    most = 1 if host_ports(pod_class) or _repels_itself(snapshot, pod_class) else None

    def room(snapshot: Snapshot, window: slice) -> Ints:
        mask = feasible(snapshot, pod_class, window)
        free = amounts_room(snapshot, pod_class, window)
        for skew in found:
            free = np.minimum(free, skew.room(snapshot, window))
        return np.where(mask, free if most is None else np.minimum(free, most), 0)

    return room


@per_class
def _is_local(pod_class: PodClass) -> bool:
    """Whether a pod of the class never changes what another node takes of it, but for the least of a spread."""
    spec, terms = pod_class.spec, terms_of(pod_class)
    keys = [term.key for term in terms.anti_affinity]
    hard = (one for one in spec.topology_spread_constraints if one.when_unsatisfiable == "DoNotSchedule")
    keys += [constraint.topology_key for constraint in hard]
    bound = bool(terms.affinity) or terms.broken is not None or bool(spec.resource_claims)
    return not bound and all(key == HOSTNAME_LABEL for key in keys) and not any(map(is_restricted, spec.volumes))


def _repels_itself(snapshot: Snapshot, pod_class: PodClass) -> bool:
    own = snapshot.context.namespaces.get(pod_class.namespace, NO_LABELS)
    terms = terms_of(pod_class).anti_affinity
    seen = with_selected(terms, snapshot.context.namespaces)
    return any(term.is_about(pod_class, NO_LABELS) for term in seen) or any(t.is_about(pod_class, own) for t in terms)


def _are_pinned(snapshot: Snapshot, pod_class: PodClass, found: tuple[Skew, ...], window: slice) -> bool:
    """Whether for each constraint some real node holds the least and can take no pod of the class at all."""
    full: Mask = ~(static_fit(snapshot, pod_class, window) & (amounts_room(snapshot, pod_class, window) > 0))
    full &= snapshot.alive[window]
    return all(skew.is_pinned(snapshot, window, full) for skew in found)
