"""Deletes Node objects whose machines are gone, where the cloud's controller does not do so.

Only nodes whose machine this process removed are deleted, and only if the cloud lists the group without the machine, the
kubelet does not report the node as ready, and the object has not changed. A node whose machine may still exist stays.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from nodewright.adapters.kube.api import Api, ApiError, Request
from nodewright.clusterstate.readiness import is_reported_ready
from nodewright.clusterstate.state import ClusterState
from nodewright.model.group import GroupRef
from nodewright.model.node import Node
from nodewright.model.removal import RemovalResult

_NODES = "/api/v1/nodes"
EmitEvent = Callable[[str], None]


class _Removed(NamedTuple):
    group: GroupRef
    instance_id: str


class NodeCleaner:
    """Call ``clean`` after each loop. The cloud's own controller has ``delay`` seconds to act first; 0: delete nothing."""

    def __init__(self, api: Api, delay: float) -> None:
        self._api = api
        self._delay = delay
        self._removed: dict[str, _Removed] = {}
        self._gone_since: dict[str, float] = {}

    def clean(self, state: ClusterState, emit: EmitEvent) -> None:
        """Delete the objects that are due; ``emit`` gets an event for each deletion and for each that failed."""
        if not self._delay:
            return
        for over in state.ended:
            if over.result == RemovalResult.OK:
                removal = over.removal
                self._removed[removal.node] = _Removed(removal.group, removal.instance_id)
        for name in [*self._removed]:
            self._clean_node(name, state, emit)

    def _clean_node(self, name: str, state: ClusterState, emit: EmitEvent) -> None:
        removed, snapshot = self._removed[name], state.observation.snapshot
        node = snapshot.node(snapshot.row(name)) if name in snapshot else None
        if node is None or node.spec.provider_id.lower() != removed.instance_id.lower():
            self._forget(name)  # it is gone, or another machine has its name by now
            return
        if not _is_gone(node, removed, state):
            self._gone_since.pop(name, None)
            return
        since = self._gone_since.setdefault(name, state.now)
        if state.now - since >= self._delay:
            self._delete(node, emit)

    def _delete(self, node: Node, emit: EmitEvent) -> None:
        name, meta = node.name, node.metadata
        wanted = {"preconditions": {"uid": meta.uid, "resourceVersion": meta.resource_version}}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "DeleteOptions", **wanted})
        try:
            self._api.send(Request(method="DELETE", path=f"{_NODES}/{name}", body=body))
        except ApiError as error:
            if error.is_conflict:
                return  # it has changed since it was seen: look again
            if not error.is_missing:
                emit(f"the node object {name} could not be deleted: {error}")
                self._gone_since[name] += self._delay
                return
        else:
            emit(f"the node object {name} was deleted: its machine is gone")
        self._forget(name)

    def _forget(self, name: str) -> None:
        self._removed.pop(name, None)
        self._gone_since.pop(name, None)


def _is_gone(node: Node, removed: _Removed, state: ClusterState) -> bool:
    group = state.observation.groups.get(removed.group)
    if group is None or group.problem or group.instances is None:
        return False
    listed = {instance.id.lower() for instance in group.instances}
    says_ready = is_reported_ready(node)
    return removed.instance_id.lower() not in listed and not says_ready
