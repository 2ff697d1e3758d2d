"""To which group a machine belongs, and how failed creations are listed on the wire."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from nodewright.spec import (
    ErrorClass,
    FailedInstance,
    Instance,
    InstanceState,
    NodeGroup,
    ProviderError,
    ProviderUnavailable,
)
from nodewright_externalgrpc.wire import CREATING, DELETING, OTHER, OUT_OF_RESOURCES, RUNNING, messages

_STATES = {InstanceState.CREATING: CREATING, InstanceState.RUNNING: RUNNING, InstanceState.DELETING: DELETING}


class Listing(Protocol):
    """The hooks that are needed to find a machine."""

    def node_groups(self) -> Sequence[NodeGroup]: ...
    def target_size(self, group_id: str) -> int: ...
    def instances(self, group_id: str) -> Sequence[Instance]: ...
    def failed_instances(self, group_id: str) -> Sequence[FailedInstance] | None: ...


class MachineIndex:
    """Group ids by machine id, as of the last refresh or write. Thread-safe."""

    def __init__(self, provider: Listing, *, ignores_case: bool) -> None:
        self._provider = provider
        self._fold = str.lower if ignores_case else str
        self._lock = threading.Lock()
        self._written: set[str] = set()
        self._known: tuple[dict[str, str], bool] | None = None

    def group_of(self, machine: str) -> str:
        """Return the id of the machine's group; "": it belongs to none.

        Raise ProviderUnavailable if the machine is not found and a group cannot be read: it could belong to that group.
        """
        with self._lock:
            if self._known is None:
                self._known = self._read()
            found, is_whole = self._known
        group_id = found.get(self._fold(machine), "") if machine else ""
        if machine and not group_id and not is_whole:
            raise ProviderUnavailable(f"{machine}: a group cannot be read, and the machine could belong to it")
        return group_id

    def note(self, group_id: str) -> None:
        """Note that a group is written to: it has work in flight from now on."""
        with self._lock:
            self._written.add(group_id)
            self._known = None

    def forget(self) -> None:
        """Forget the machines: the next call reads them again."""
        with self._lock:
            self._known = None

    def busy(self) -> frozenset[str]:
        """Return groups with work in flight: written to since the last call, or not at their target size."""
        with self._lock:
            written, self._written = self._written, set()
        return frozenset(written).union(group.id for group in self._provider.node_groups() if self._moves(group.id))

    def _moves(self, group_id: str) -> bool:
        try:
            running = [one for one in self._provider.instances(group_id) if one.state == InstanceState.RUNNING]
            return len(running) != self._provider.target_size(group_id)
        except ProviderError:
            return True

    def _read(self) -> tuple[dict[str, str], bool]:
        found, is_whole = dict[str, str](), True
        for group in self._provider.node_groups():
            try:
                names = [one.id for one in self._provider.instances(group.id)]
                names += placeholders(self._provider.failed_instances(group.id) or ())
            except ProviderError:
                is_whole = False
            else:
                found.update({self._fold(name): group.id for name in names})
        return found, is_whole


def placeholders(failures: Sequence[FailedInstance]) -> Mapping[str, str]:
    """Return the ids by which these failures are listed on the wire, each with the id that deletes it.

    A failure with a machine is listed by that machine, one without by an id for each machine that it counts.
    """
    found: dict[str, str] = {}
    for failure in failures:
        if failure.instance_id is not None:
            found[failure.instance_id] = failure.instance_id
        else:
            names = [f"{failure.failure_id}#{number}" for number in range(failure.count)]
            found |= dict.fromkeys(names if failure.count > 1 else [failure.failure_id], failure.failure_id)
    return found


def write_instances(instances: Sequence[Instance], failures: Sequence[FailedInstance]) -> list[Any]:
    """Return machines and failures as messages.

    A failure is listed as cluster-autoscaler expects it: a machine that is being created and has an error.
    """
    written = [
        messages.Instance(id=one.id, status=messages.InstanceStatus(instanceState=_STATES[one.state]))
        for one in instances
    ]
    for failure in failures:
        is_other = failure.error_class == ErrorClass.OTHER
        info = messages.InstanceErrorInfo(
            errorCode=failure.code or failure.error_class.value,
            errorMessage=failure.message,
            instanceErrorClass=OTHER if is_other else OUT_OF_RESOURCES,
        )
        status = messages.InstanceStatus(instanceState=CREATING, errorInfo=info)
        written += [messages.Instance(id=name, status=status) for name in placeholders([failure])]
    return written
