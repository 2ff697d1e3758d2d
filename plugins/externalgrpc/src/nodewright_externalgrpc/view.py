"""What one refresh reads of one group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nodewright.spec import ErrorClass, FailedInstance, Instance, InstanceState
from nodewright_externalgrpc.wire import CREATING, DELETING, OUT_OF_RESOURCES


@dataclass
class View:
    """The target of a group, its machines, and the failures: machines that the cloud could not create."""

    target: int
    instances: tuple[Instance, ...]
    failures: tuple[FailedInstance, ...]


@dataclass
class FailureNames:
    """Gives each failure an id of its own while it lasts: some clouds use machine ids again."""

    _names: dict[tuple[str, str], str] = field(default_factory=dict)
    _made: int = 0

    def name(self, group_id: str, ids: list[str]) -> Mapping[str, str]:
        """Return the failure id of each machine in ``ids``; forget machines of the group that are not in ``ids``."""
        gone = {key for key in self._names if key[0] == group_id and key[1] not in ids}
        self.forget(group_id, [machine for _, machine in gone])
        for machine in ids:
            if (group_id, machine) not in self._names:
                self._made += 1
                self._names[group_id, machine] = f"{machine}@{self._made}"
        return {machine: self._names[group_id, machine] for machine in ids}

    def forget(self, group_id: str, ids: list[str]) -> None:
        """Forget the failure ids of these machines."""
        for machine in ids:
            self._names.pop((group_id, machine), None)


def read_instances(listed: Any) -> tuple[Instance, ...]:
    """Return the machines that exist or are being created. A machine of unknown state counts as running."""
    states = {CREATING: InstanceState.CREATING, DELETING: InstanceState.DELETING}
    return tuple(
        Instance(id=one.id, state=states.get(one.status.instanceState, InstanceState.RUNNING))
        for one in listed
        if not is_failed(one)
    )


def read_failures(group_id: str, listed: Any, names: FailureNames) -> tuple[FailedInstance, ...]:
    """Return the failed creations of the group."""
    return tuple(_failures(group_id, [one for one in listed if is_failed(one)], names))


def is_failed(one: Any) -> bool:
    """Return whether the machine failed, by cluster-autoscaler's rule: it is being created and has an error."""
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
