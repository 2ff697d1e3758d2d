"""The fake provider, with a listener for its calls and results."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace
from tests.faults.history import Write, group_of

from nodewright.spec import Clock, FailedInstance, Instance, NodeGroup, ProviderContext, ProviderInfo, hookimpl
from nodewright_fake import FakeProvider
from nodewright_fake.cloud import FakeCloud
from nodewright_fake.options import CloudOptions, load_options


class Listener(Protocol):
    """Who is told."""

    def note_request(self, group: str, machines: int, *, ours: bool) -> None: ...
    def begin_reads(self, groups: Sequence[NodeGroup]) -> None: ...
    def reading(self, what: str, group: str) -> AbstractContextManager[list[Any]]: ...
    def writing(
        self, hook: str, group: str, expected: int, *, target: int = 0, ids: Sequence[str] = ()
    ) -> AbstractContextManager[Write]: ...


class _Cloud(FakeCloud):
    """Tells when machines are asked for; ``by_others`` is by how much others have changed each target so far."""

    on_request: Callable[[str, int, bool], None] | None = None
    by_others: Counter[str]

    def __init__(self, options: CloudOptions, clock: Clock, random: Random) -> None:
        self.by_others = Counter()
        super().__init__(options, clock, random)

    def increase(self, group_id: str, expected_target: int, target: int, *, atomic: bool = False) -> int:
        wanted = super().increase(group_id, expected_target, target, atomic=atomic)
        self._tell(group_id, wanted, ours=True)
        return wanted

    def set_target(self, group_id: str, target: int) -> None:
        before = self.group(group_id).target
        super().set_target(group_id, target)
        self.by_others[group_id] += target - before
        self._tell(group_id, target - before)  # below zero: another writer took them back

    def take_away(self, group_id: str, machines: int) -> None:
        before = self.group(group_id).target
        super().take_away(group_id, machines)
        gone = before - self.group(group_id).target
        self.by_others[group_id] -= gone
        self._tell(group_id, -gone)

    def remove_group(self, group_id: str) -> None:
        held = self.group(group_id).target
        super().remove_group(group_id)
        self._tell(group_id, -held)

    def lose(self, instance_id: str) -> None:
        super().lose(instance_id)
        self._tell(group_of(instance_id), 1)

    def _tell(self, group_id: str, machines: int, *, ours: bool = False) -> None:
        if self.on_request is not None and machines:
            self.on_request(group_id, machines, ours)


class OtherProvider(FakeProvider):
    """A fake provider under another name."""

    def __init__(self, context: ProviderContext, name: str, cloud: FakeCloud | None = None) -> None:
        super().__init__(context, cloud)
        self._name = name

    @hookimpl
    def provider_info(self) -> ProviderInfo:
        return replace(super().provider_info(), name=self._name)


class TellingProvider(OtherProvider):
    """Tells what it is asked and what it answers."""

    def __init__(self, context: ProviderContext, witness: Listener) -> None:
        self.watched = cloud = _Cloud(load_options(context.options), context.clock, context.random)
        super().__init__(context, "fake", cloud)
        cloud.on_request = lambda group, machines, ours: witness.note_request(group, machines, ours=ours)
        self._witness = witness

    @hookimpl
    def node_groups(self) -> Sequence[NodeGroup]:
        groups = super().node_groups()
        self._witness.begin_reads(groups)
        return groups

    @hookimpl
    def target_size(self, group_id: str) -> int:
        with self._witness.reading("target", group_id) as answer:
            answer.append(super().target_size(group_id))
        return int(answer[0])

    @hookimpl
    def instances(self, group_id: str) -> Sequence[Instance]:
        with self._witness.reading("instances", group_id) as answer:
            answer.append(super().instances(group_id))
        found: Sequence[Instance] = answer[0]
        return found

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[FailedInstance]:
        with self._witness.reading("failed", group_id) as answer:
            answer.append(super().failed_instances(group_id))
        found: Sequence[FailedInstance] = answer[0]
        return found

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._witness.writing("increase_size", group_id, expected_target, target=target) as write:
            accepted = super().increase_size(group_id, expected_target, target)
            write.answered = accepted
        return accepted

    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._witness.writing("increase_size", group_id, expected_target, target=target) as write:
            accepted = super().atomic_increase_size(group_id, expected_target, target)
            write.answered = accepted
        return accepted

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._witness.writing("decrease_target_size", group_id, expected_target, target=target) as write:
            accepted = super().decrease_target_size(group_id, expected_target, target)
            write.answered = accepted
        return accepted

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with self._witness.writing("delete_instances", group_id, expected_target, ids=instance_ids) as write:
            accepted = super().delete_instances(group_id, instance_ids, expected_target)
            write.answered = len(accepted)
        return accepted

    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with self._witness.writing("delete_instances", group_id, expected_target, ids=instance_ids) as write:
            accepted = super().force_delete_instances(group_id, instance_ids, expected_target)
            write.answered = len(accepted)
        return accepted
