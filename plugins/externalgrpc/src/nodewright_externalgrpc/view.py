"""What one refresh brought of one group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright.spec import ErrorClass, FailedInstance, Instance, InstanceState
from nodewright_externalgrpc.wire import CREATING, DELETING, OUT_OF_RESOURCES


@dataclass
class View:
    """A group's target and what its server says of its machines; ``failures`` are those that could not be made."""

    target: int
    instances: tuple[Instance, ...]
    failures: tuple[FailedInstance, ...]


@dataclass
class FailureNames:
    """Machine ids are used again by some clouds: each failure gets a name of its own, and keeps it until it is gone."""

    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _made: int = 0

    def name(self, group_id: str, ids: list[str]) -> Mapping[str, str]:
        """By id; what is not in ``ids`` any more is forgotten."""
        gone = {key for key in self._names if key[0] == group_id and key[1] not in ids}
        self.forget(group_id, [machine for _, machine in gone])
        for machine in ids:
            if (group_id, machine) not in self._names:
                self._made += 1
                self._names[group_id, machine] = f"{machine}@{self._made}"
        return {machine: self._names[group_id, machine] for machine in ids}

    def forget(self, group_id: str, ids: list[str]) -> None:
        for machine in ids:
            self._names.pop((group_id, machine), None)


def read_instances(listed: Any) -> tuple[Instance, ...]:
    """Those that exist or come: of a state that is not told nothing is known but that it is there."""
    states = {CREATING: InstanceState.CREATING, DELETING: InstanceState.DELETING}
    return tuple(
        Instance(id=one.id, state=states.get(one.status.instanceState, InstanceState.RUNNING))
        for one in listed
        if not is_failed(one)
    )


def read_failures(group_id: str, listed: Any, names: FailureNames) -> tuple[FailedInstance, ...]:
    return tuple(_failures(group_id, [one for one in listed if is_failed(one)], names))


def is_failed(one: Any) -> bool:
    """As in cluster-autoscaler: in creation, and with an error."""
    return one.status.instanceState == CREATING and bool(one.status.errorInfo.errorCode)


def _failures(group_id: str, failed: list[Any], names: FailureNames) -> Iterator[FailedInstance]:
    named = names.name(group_id, [one.id for one in failed])
    for one in failed:
        info = one.status.errorInfo
        is_stock_out = info.instanceErrorClass == OUT_OF_RESOURCES
        yield FailedInstance(
            failure_id=named[one.id],
            instance_id=one.id,
            error_class=ErrorClass.OUT_OF_RESOURCES if is_stock_out else ErrorClass.OTHER,
            code=info.errorCode,
            message=info.errorMessage,
        )
