"""Check deletions without a drain against the nodes of the machines (docs/adr/0023-evidence-for-deletions.md).

If a machine has a node, the cloud's report about the machine is not sufficient: the node must confirm it.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from nodewright.model.action import DeleteInstances, DeletionCause
from nodewright.model.node import Node
from nodewright.model.pod import Pod

# A kubelet that has never been ready reports this at most this many seconds after its node was created.
_FIRST_STATUS_SECONDS = 30.0
# The node controller's reason for a kubelet that registered and never reported a status.
_NEVER_REPORTED = "NodeStatusNeverUpdated"


class NodesOfMachines:
    """The nodes of each machine. Ids are compared without case: the only possible mistake keeps a machine."""

    def __init__(self, nodes: Iterable[Node], pods_on: Callable[[Node], Iterable[Pod]]) -> None:
        self._nodes = nodes
        self._pods_on = pods_on
        self._by_machine: Mapping[str, list[Node]] | None = None

    def broken_by(self, action: DeleteInstances, overdue_before: float = math.inf) -> Iterator[str]:
        """Yield the rules that the deletion breaks.

        A node created after ``overdue_before`` (epoch seconds) may still be starting.
        """
        for instance_id in action.instance_ids:
            for node in self._find(instance_id):
                why = self._why_not(action.cause, node)
                if action.cause == DeletionCause.NEVER_READY and node.created > overdue_before:
                    why = why or "which may still become ready"
                if why:
                    yield f"machine {instance_id} is node {node.name}, {why}"

    def _why_not(self, cause: DeletionCause, node: Node) -> str:
        if cause in (DeletionCause.UNREGISTERED, DeletionCause.FAILED_CREATION):
            return "so it did register"
        if cause == DeletionCause.NEVER_READY and _was_ready(node):
            return "which is ready or was"
        if cause in (DeletionCause.RESERVATION, DeletionCause.NEVER_READY):
            pods = (pod for pod in self._pods_on(node) if not (pod.is_daemonset_pod or pod.is_mirror))
            leaves = cause == DeletionCause.NEVER_READY  # without a working kubelet a terminating pod never ends
            running = next((p for p in pods if not (leaves and p.metadata.deletion_timestamp is not None)), None)
            return f"and pod {running.key} runs on it" if running is not None else ""
        return "which is ready or was" if _was_ready(node) else ""

    def _find(self, instance_id: str) -> list[Node]:
        if self._by_machine is None:
            found: dict[str, list[Node]] = {}
            for node in self._nodes:
                found.setdefault(node.spec.provider_id.lower(), []).append(node)
            self._by_machine = found
        return self._by_machine.get(instance_id.lower(), [])


def _was_ready(node: Node) -> bool:
    """Return False only if the node's kubelet never reported a status, or its first status was "not ready" and never changed."""
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    if ready is not None and ready.status != "True" and ready.reason == _NEVER_REPORTED:
        return False
    created = node.metadata.creation_timestamp
    if ready is None or ready.status == "True" or ready.last_transition_time is None or created is None:
        return True
    return abs((ready.last_transition_time - created).total_seconds()) > _FIRST_STATUS_SECONDS
