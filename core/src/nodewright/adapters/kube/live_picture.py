"""One picture of nodes and pods that is kept current by deltas; what has not changed costs nothing."""

from collections import defaultdict
from collections.abc import Mapping

from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.snapshot.context import Context
from nodewright.snapshot.snapshot import Snapshot

# Dead rows that a picture may hold before it is laid out anew.
_SLACK_ROWS = 256


class LivePicture:
    """Nodes and the pods on them, and pods that wait for a node. For one thread.

    A pod counts where it is bound or, unless it is going, nominated. Pods on nodes that are not there (yet) are
    strays: in no picture until their node comes.
    """

    def __init__(self) -> None:
        self._snapshot = Snapshot()
        self._pods: dict[str, Pod] = {}
        # With what they are sorted by: when each was created, and its key.
        self._pending: dict[str, tuple[float, str, Pod]] = {}
        self._by_host: defaultdict[str, dict[str, Pod]] = defaultdict(dict)

    def set_context(self, context: Context) -> None:
        self._snapshot.context = context

    def fork(self) -> Snapshot:
        return self._snapshot.fork()

    def pending(self) -> tuple[Pod, ...]:
        """The oldest first."""
        return tuple([pod for _, _, pod in sorted(self._pending.values())])

    def apply_nodes(self, changes: Mapping[str, Node | None]) -> None:
        """Nodes by name; None for those that went."""
        known = {name: node for name, node in changes.items() if name in self._snapshot}
        if 4 * len(known) > len(self._snapshot) and len(known) > _SLACK_ROWS:
            self._lay_out(changes)
            return
        for name in known:
            self._snapshot.remove_node(self._snapshot.row(name))
        fresh = [node for node in changes.values() if node is not None]
        self._add(self._snapshot, fresh)
        if len(self._snapshot) > 2 * self._snapshot.alive.sum() + _SLACK_ROWS:
            self._lay_out({})

    def apply_pods(self, changes: Mapping[str, Pod | None]) -> None:
        """Pods by key; None for those that went."""
        for key in changes:
            if key in self._pods:
                self._remove_pod(key)
        placed = defaultdict[str, dict[str, Pod]](dict)
        for key, pod in changes.items():
            if pod is None or pod.is_terminal:
                continue
            self._pods[key] = pod
            host = pod.host
            if host:
                placed[host][key] = pod
            else:
                self._pending[key] = pod.created, key, pod
        for host, pods in placed.items():
            self._by_host[host].update(pods)
        rows = zip(self._snapshot.find_rows(placed), placed.values(), strict=True)
        self._snapshot.place_pods((row, [*pods.values()]) for row, pods in rows if row is not None)

    def _remove_pod(self, key: str) -> None:
        pod = self._pods.pop(key)
        self._pending.pop(key, None)
        host = pod.host
        if host:
            del self._by_host[host][key]
            if not self._by_host[host]:
                del self._by_host[host]
        if host in self._snapshot:
            self._snapshot.unplace(self._snapshot.class_of(pod, placed=True), self._snapshot.row(host), pod=pod)
        self._snapshot.vocabulary.classes.forget(pod.metadata.uid)

    def _add(self, snapshot: Snapshot, nodes: list[Node]) -> None:
        """Nodes with the pods that are theirs."""
        if not nodes:
            return
        rows = enumerate(nodes, snapshot.add_nodes(nodes).start)
        snapshot.place_pods((row, [*self._by_host.get(node.name, {}).values()]) for row, node in rows)

    def _lay_out(self, changes: Mapping[str, Node | None]) -> None:
        """Everything anew, with the changes: cheaper than many rows one by one."""
        nodes: dict[str, Node | None] = {node.name: node for _, node in self._snapshot.nodes()}
        fresh = self._snapshot.sibling()
        fresh.context = self._snapshot.context
        self._add(fresh, [node for node in (nodes | dict(changes)).values() if node is not None])
        self._snapshot = fresh
