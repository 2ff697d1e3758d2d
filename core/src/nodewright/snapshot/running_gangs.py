"""Gangs whose pods run: how many pods each has, and how many it must keep (docs/gangs.md)."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from nodewright.model.gang import GangRef, PodGroups, RunningGang, find_gang, find_terms
from nodewright.model.pod import Pod
from nodewright.snapshot.snapshot import Snapshot

_KEY = "gangs of pods"


def count_running(snapshot: Snapshot) -> Counter[GangRef]:
    """Return how many pods of each gang are on nodes and are to stay."""
    return Counter(ref for _, members in _members(snapshot) for ref, _ in members)


def find_running(
    snapshot: Snapshot, groups: PodGroups, pending: Iterable[Pod], leaving: Container[str] = frozenset()
) -> Mapping[GangRef, RunningGang]:
    """Return the gangs with running pods, without the pods of the nodes in ``leaving``, which are being drained.

    A gang that runs with fewer pods than its minimum must keep all of them while other pods of it wait for a node. If none
    waits, its pods are moved like ordinary ones: otherwise the gang would keep its nodes forever.
    """
    return _find(_members(snapshot), groups, pending, leaving)


def find_running_among(
    pods: Iterable[Pod], groups: PodGroups, leaving: Container[str] = frozenset()
) -> Mapping[GangRef, RunningGang]:
    """Return the gangs with running pods as ``find_running`` does, from all pods of the gangs' namespaces."""
    placed, pending = defaultdict[str, list[Pod]](list), list[Pod]()
    for pod in pods:
        if not pod.is_terminal:
            (placed[pod.host] if pod.host else pending).append(pod)
    return _find(((name, _members_of(held)) for name, held in placed.items()), groups, pending, leaving)


def _find(
    by_node: Iterable[tuple[str, Sequence[tuple[GangRef, Pod]]]],
    groups: PodGroups,
    pending: Iterable[Pod],
    leaving: Container[str],
) -> Mapping[GangRef, RunningGang]:
    on_nodes, staying, samples = Counter[GangRef](), Counter[GangRef](), dict[GangRef, Pod]()
    for name, members in by_node:
        refs = [ref for ref, _ in members]
        on_nodes.update(refs)
        if name not in leaving:
            staying.update(refs)
            samples.update(members)
    if not staying:
        return {}
    waiting = frozenset(map(find_gang, pending))
    found = dict[GangRef, RunningGang]()
    for ref, count in staying.items():
        terms = find_terms(ref, samples[ref], groups)
        if terms is not None and not terms.is_missing:
            runs = on_nodes[ref] >= terms.min_count or ref in waiting
            found[ref] = RunningGang(count, min(count, terms.min_count) if runs else 0)
    return found


def _members(snapshot: Snapshot) -> Iterator[tuple[str, Sequence[tuple[GangRef, Pod]]]]:
    """Yield the nodes that have pods of gangs, by name, with these gangs and pods."""
    rows = [row for row, _ in snapshot.nodes()]
    for row, members in zip(rows, snapshot.of_pods(_KEY, rows, _members_of), strict=True):
        if members:
            yield snapshot.name(row), members


def _members_of(pods: Iterable[Pod]) -> Sequence[tuple[GangRef, Pod]]:
    return tuple(
        (ref, pod) for pod in pods if pod.metadata.deletion_timestamp is None and (ref := find_gang(pod)) is not None
    )
