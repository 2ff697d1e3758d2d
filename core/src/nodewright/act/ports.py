"""What acting needs of the world, as Protocols: the adapters implement them."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

NORMAL = "Normal"
WARNING = "Warning"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One Kubernetes event. ``name`` is ``namespace/name`` where the kind has namespaces."""

    kind: str
    name: str
    reason: str
    message: str
    type: str = NORMAL


class EventSink(Protocol):
    """Where events go. Recording never fails the loop."""

    def record(self, event: Event) -> None: ...


class ProviderWrites(Protocol):
    """The writes of one provider; each raises ProviderError. Sizes count machines."""

    @property
    def name(self) -> str: ...
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int: ...
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]: ...
    def force_delete_instances(
        self, group_id: str, instance_ids: Sequence[str], expected_target: int
    ) -> tuple[str, ...]: ...
