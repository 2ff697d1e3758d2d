"""NodePorts: a pod needs host ports that no other pod of the node uses."""

from collections.abc import Iterator

from nodewright.model.pod import PodSpec
from nodewright.predicates.predicate import Predicate, Texts, whole
from nodewright.snapshot.column import Mask
from nodewright.snapshot.domains import DomainQuery
from nodewright.snapshot.node_table import row_numbers
from nodewright.snapshot.pod_class import PodClass, per_class
from nodewright.snapshot.snapshot import Snapshot

REASON = "node(s) didn't have free ports for the requested pod ports"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not listened on

# Address, protocol and number.
Port = tuple[str, str, int]


@per_class
def host_ports(pod: PodClass) -> frozenset[Port]:
    """Return the host ports that a pod uses while it runs, without those of init containers that end."""
    return frozenset(_ports(pod.spec))


def _ports(spec: PodSpec) -> Iterator[Port]:
    sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port > 0:
                yield port.host_ip or _ANY_ADDRESS, port.protocol or "TCP", port.host_port


def _overlap(one: frozenset[Port], other: frozenset[Port]) -> bool:
    return any(_clash(mine, theirs) for mine in one for theirs in other)


def _clash(one: Port, other: Port) -> bool:
    """Return whether two ports conflict: same number and protocol on one address, where 0.0.0.0 is every address."""
    return one[1:] == other[1:] and (one[0] == other[0] or _ANY_ADDRESS in (one[0], other[0]))


@per_class
def _conflicting_pods(pod: PodClass) -> DomainQuery:
    """Return a query that counts, per node, pods with a conflicting host port."""
    return DomainQuery(row_numbers, lambda other: _overlap(host_ports(pod), host_ports(other)))


def _concerns(pod: PodClass) -> bool:
    return bool(host_ports(pod))


def _mask(snapshot: Snapshot, pod: PodClass, window: slice) -> Mask | None:
    if not host_ports(pod):
        return None
    free: Mask = snapshot.domain_counts(_conflicting_pods(pod)).pods_at(row_numbers(snapshot)[window]) == 0
    return free


def _explain(snapshot: Snapshot, pod: PodClass, row: int) -> Texts | None:
    wanted = list(_ports(pod.spec))
    for other, rows in snapshot.placements():
        if row in rows and any(_clash(mine, theirs) for theirs in _ports(other.spec) for mine in wanted):
            return (REASON,)
    return None


PREDICATE = Predicate(name="NodePorts", reads=whole, mask=_mask, explain=_explain, concerns=_concerns)
