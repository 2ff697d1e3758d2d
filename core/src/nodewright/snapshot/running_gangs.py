"""Gangs whose pods run: how many pods each has, and how many it must keep (docs/gangs.md)."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from nodewright.model.gang import GangRef, PodGroups, RunningGang, find_gang, find_terms
from nodewright.model.pod import Pod
from nodewright.snapshot.snapshot import Snapshot

_KEY = "gangs of pods"


def count_running(snapshot: Snapshot) -> Counter[GangRef]:
    """Return how many pods of each gang are on nodes and are to stay."""
    found = Counter[GangRef]()
    for refs, _ in _members(snapshot):
        found.update(refs)
    return found


def find_running(
    snapshot: Snapshot, groups: PodGroups, pending: Iterable[Pod], leaving: Container[str] = frozenset()
) -> Mapping[GangRef, RunningGang]:
    """Return the gangs with running pods, without the pods of the nodes in ``leaving``, which are being drained.

    A gang that runs with fewer pods than its minimum must keep all of these while others of it wait for a node. If none
    waits, it is no gang that runs any more, and its pods are moved as ordinary ones: it would hold its nodes without end.
    """
    waiting = frozenset(map(find_gang, pending))
    before = count_running(snapshot)
    running, samples = Counter[GangRef](), dict[GangRef, Pod]()
    for refs, pods in _members(snapshot, leaving):
        running.update(refs)
        samples.update(zip(refs, pods, strict=True))
    terms = {ref: find_terms(ref, pod, groups) for ref, pod in samples.items()}
    return {
        ref: RunningGang(count, min(count, own.min_count) if before[ref] >= own.min_count or ref in waiting else 0)
        for ref, count in running.items()
        if (own := terms[ref]) is not None and not own.is_missing
    }


def _members(
    snapshot: Snapshot, leaving: Container[str] = frozenset()
) -> list[tuple[tuple[GangRef, ...], tuple[Pod, ...]]]:
    """Return for each node the gangs of its pods, and these pods."""
    rows = (row for row, node in snapshot.nodes() if node.name not in leaving)
    return snapshot.of_pods(_KEY, rows, _members_of)


def _members_of(pods: Iterable[Pod]) -> tuple[tuple[GangRef, ...], tuple[Pod, ...]]:
    staying = [(find_gang(pod), pod) for pod in pods if pod.metadata.deletion_timestamp is None]
    found = [(ref, pod) for ref, pod in staying if ref is not None]
    return tuple(ref for ref, _ in found), tuple(pod for _, pod in found)
