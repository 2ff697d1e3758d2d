"""Writes to groups.

AWS sets absolute sizes without a condition, and chooses itself which instances to terminate when a size falls below
the number of running instances. So every write reads the group first. Before a size is lowered, all instances in service
are protected from scale-in, new instances are protected from their start, and the group is read again. AWS then cannot
terminate an instance that arrives at the last moment, and the size is raised to keep it. AWS protects no instance that
is still starting: one that was started before that can be terminated in the place of one that arrives at that moment.
"""

from collections.abc import Sequence

import msgspec

from nodewright.spec import (
    AccessDenied,
    NodeGroup,
    OperationInProgress,
    ProviderError,
    ProviderUnavailable,
    TargetChanged,
)
from nodewright_aws.api import Api
from nodewright_aws.errors import INSTANCE_NOT_FOUND, NOT_IN_SERVICE
from nodewright_aws.fleet import Fleet
from nodewright_aws.shapes import Group

_ATTEMPTS = 5
_LAG_SECONDS = 5.0
_NOT_MACHINES = "sizeCountsNoMachines"


class Writer:
    """Changes groups, and updates the fleet."""

    def __init__(self, api: Api, fleet: Fleet) -> None:
        self._api = api
        self._fleet = fleet

    def increase(self, listed: NodeGroup, expected_target: int, target: int) -> int:
        """Request more machines and return how many."""
        group = self._expect(listed.id, expected_target)
        if target > min(listed.max_size, group.max_size):
            limit = (
                f"MaxSize {group.max_size}" if group.max_size < listed.max_size else f"the maximum {listed.max_size}"
            )
            raise ProviderError(f"{target} is above {limit} of {listed.id}", code="aboveMaximum")
        self._refuse_while_hidden(group)
        self._api.set_desired(group.name, target)
        self._fleet.note_write(msgspec.structs.replace(group, desired_capacity=target))
        return target - expected_target

    def decrease(self, group_id: str, expected_target: int, target: int) -> int:
        """Lower the size, never below the number of instances; return by how much."""
        return self._lower(self._expect(group_id, expected_target), target)

    def delete(self, listed: NodeGroup, ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        """Terminate instances by id and withdraw failures; return the accepted ids."""
        group = self._expect(listed.id, expected_target)
        victims = {one.provider_id: one.instance_id for one in group.living}
        doomed = [one for one in ids if one in victims]
        failure = self._fleet.ledger(group.name).reported
        withdraws = failure is not None and failure.failure_id in ids
        stays = group.desired_capacity - len(doomed) - (failure.count if withdraws and failure is not None else 0)
        if doomed and stays < listed.min_size:
            raise ProviderError(f"{group.name} would go below its minimum of {listed.min_size}", code="belowMinimum")
        accepted: list[str] = []
        if withdraws and failure is not None:
            self._lower(group, group.desired_capacity - failure.count)
            accepted.append(failure.failure_id)
        accepted += self._terminate(listed.id, doomed, victims)
        return tuple(one for one in ids if one in accepted)

    def _expect(self, group_id: str, expected_target: int) -> Group:
        """Read and return the group; raise an error if its size counts no machines or is not the expected one."""
        group = self._fleet.reread(group_id)
        if group.counts_other:
            raise ProviderError(
                f"the size of {group_id} counts {group.counts_other}, not machines: nodewright does not change it",
                code=_NOT_MACHINES,
            )
        if group.desired_capacity != expected_target:
            raise TargetChanged(actual=group.desired_capacity, group_id=group_id)
        return group

    def _refuse_while_hidden(self, group: Group) -> None:
        """Raise OperationInProgress while a listing with a former size may be true: another writer may have set it again."""
        if self._fleet.hides_our_write(group.name):
            message = f"AWS's listings of {group.name} do not show our last change of its size yet"
            raise OperationInProgress(message, retry_after=_LAG_SECONDS)

    def _lower(self, group: Group, target: int) -> int:
        before = group.desired_capacity
        if max(target, len(group.living), group.min_size) >= before:
            return 0
        group = self._protect(group)
        lowered = max(target, len(group.living), group.min_size)
        if lowered >= before:
            return 0
        self._refuse_while_hidden(group)
        self._api.set_desired(group.name, lowered)
        self._fleet.note_write(msgspec.structs.replace(group, desired_capacity=lowered))
        return before - self._adopt(group.name, lowered)

    def _protect(self, group: Group) -> Group:
        """Protect all instances that AWS lets us protect, and return the group as read after that; raise TargetChanged."""
        expected = group.desired_capacity
        if not group.new_instances_protected_from_scale_in:
            self._protect_new(group.name)
        for _ in range(_ATTEMPTS):
            if group.unprotected:
                self._protect_these(group.name, group.unprotected)
            group = self._expect(group.name, expected)
            if not group.unprotected:
                return group
        raise ProviderUnavailable(f"{group.name}: instances cannot be protected from scale-in, its size is not lowered")

    def _protect_these(self, name: str, instance_ids: Sequence[str]) -> None:
        """Protect these instances. AWS refuses all if one of them has just left service: the next read tells which."""
        try:
            self._api.protect(name, instance_ids)
        except ProviderError as error:
            if error.code != NOT_IN_SERVICE:
                raise

    def _protect_new(self, name: str) -> None:
        try:
            self._api.protect_new(name)
        except AccessDenied as error:
            raise AccessDenied(
                f"the size of {name} is not lowered: an instance that arrives meanwhile would not be protected from"
                f" scale-in. Set NewInstancesProtectedFromScaleIn on the group, or grant UpdateAutoScalingGroup ({error})"
            ) from error

    def _adopt(self, name: str, lowered: int) -> int:
        """Return the final size: instances that arrived while the size was lowered are kept.

        A late listing does not forbid this: the size that is replaced is the one that we wrote just now.
        """
        group = self._fleet.reread(name)
        there = len(group.living)
        if group.desired_capacity != lowered or there <= lowered:
            return lowered
        self._api.set_desired(name, there)
        self._fleet.note_write(msgspec.structs.replace(group, desired_capacity=there))
        return there

    def _terminate(self, name: str, ids: Sequence[str], victims: dict[str, str]) -> list[str]:
        """Terminate instances one by one, the only way in AWS; return those accepted before a refusal.

        AWS lowers the size by one each time, from whatever it is: a late listing does not forbid this.
        """
        accepted: list[str] = []
        try:
            for one in ids:
                try:
                    self._api.terminate(victims[one])
                except ProviderError as error:
                    if error.code == INSTANCE_NOT_FOUND:
                        continue
                    if isinstance(error, ProviderUnavailable) or not accepted:
                        raise
                    break
                accepted.append(one)
        finally:
            self._fleet.note_deletion(name, frozenset(victims[one] for one in accepted))
        return accepted
