"""Node times that lie in the future: the API server's clock, or the kubelet's, is ahead of ours (docs/adr/0026-steady-time.md)."""

from collections.abc import Iterator
from datetime import UTC, datetime

from msgspec.structs import replace

from nodewright.model.node import Node


class FutureTimes:
    """Replaces each time of a node that lies in the future by when it was first seen, so that ages grow from then on."""

    def __init__(self) -> None:
        # By node: each moment that lay in the future, and when it was first seen.
        self._first_seen: dict[str, dict[datetime, datetime]] = {}

    def clamp(self, node: Node, now: float) -> Node:
        """Return the node as of ``now`` (epoch seconds); the same object where nothing lies in the future."""
        known = self._first_seen.get(node.name, {})
        early = {moment for moment in _times(node) if moment in known or moment.timestamp() > now}
        if not early:
            self.forget(node.name)
            return node
        today = datetime.fromtimestamp(now, tz=UTC)
        self._first_seen[node.name] = seen = {moment: known.get(moment, today) for moment in early}
        return _dated(node, seen)

    def forget(self, name: str) -> None:
        """Drop what is known of a node that is gone."""
        self._first_seen.pop(name, None)


def _times(node: Node) -> Iterator[datetime]:
    moments = (
        node.metadata.creation_timestamp,
        *(condition.last_transition_time for condition in node.status.conditions),
        *(taint.time_added for taint in node.spec.taints),
    )
    return (moment for moment in moments if moment is not None)


def _dated(node: Node, seen: dict[datetime, datetime]) -> Node:
    def date(moment: datetime | None) -> datetime | None:
        return seen.get(moment, moment) if moment is not None else None

    conditions = tuple(
        replace(condition, last_transition_time=date(condition.last_transition_time))
        for condition in node.status.conditions
    )
    taints = tuple(replace(taint, time_added=date(taint.time_added)) for taint in node.spec.taints)
    return replace(
        node,
        metadata=replace(node.metadata, creation_timestamp=date(node.metadata.creation_timestamp)),
        spec=replace(node.spec, taints=taints),
        status=replace(node.status, conditions=conditions),
    )
