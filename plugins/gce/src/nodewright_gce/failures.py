"""Machines that could not be created, as values of the contract.

The id of a failure is the provider id of its machine. Machine names can be used again but failure ids must not: if a
name fails again after it was gone, a number is appended.
"""

from nodewright.spec import FailedInstance, InstanceState
from nodewright_gce.fleet import Group
from nodewright_gce.states import Machine

_REMEMBERED = 10_000
_MAX_MESSAGE = 500


class Failures:
    """Remembers which failures were reported."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, str]] = {}
        self._rounds: dict[str, int] = {}

    def report(self, group: Group) -> tuple[FailedInstance, ...]:
        """Return all failures of the group; the id of a failure does not change while it lasts."""
        tried = {one.ref.provider_id for one in group.machines if one.state is not InstanceState.RUNNING}
        before = self._open.get(group.ref.group_id, {})
        ids = {machine: failure_id for machine, failure_id in before.items() if machine in tried}
        self._open[group.ref.group_id] = ids
        return tuple(self._failure(one, ids) for one in group.failed)

    def reported(self, group_id: str) -> frozenset[str]:
        """Return the provider ids of machines that were reported as failed and did not run at the last report."""
        return frozenset(self._open.get(group_id, ()))

    def _failure(self, machine: Machine, ids: dict[str, str]) -> FailedInstance:
        failure, provider_id = machine.failure, machine.ref.provider_id
        assert failure is not None
        if provider_id not in ids:
            ids[provider_id] = self._new_id(provider_id)
        return FailedInstance(
            failure_id=ids[provider_id],
            instance_id=provider_id,
            error_class=failure.error_class,
            scope=failure.scope,
            bucket=failure.bucket,
            code=failure.code,
            message=failure.message[:_MAX_MESSAGE],
        )

    def _new_id(self, provider_id: str) -> str:
        number = self._rounds.pop(provider_id, 0) + 1
        self._rounds[provider_id] = number
        if len(self._rounds) > _REMEMBERED:
            self._rounds.pop(next(iter(self._rounds)))
        return provider_id if number == 1 else f"{provider_id}#{number}"
