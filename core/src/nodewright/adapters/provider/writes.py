"""Writes to a cloud: after a call without a result the cloud is read again. A busy cloud is asked again.

A resize is repeated only when a re-read shows that it had no effect; it is done when the re-read shows its
target; anything else means that another writer was there, and the caller plans again.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from nodewright.adapters.provider import checks
from nodewright.adapters.provider.calls import HookCaller, is_unclear
from nodewright.model.errors import (
    InvariantError,
    OutcomeUnknown,
    ProviderError,
    ProviderUnavailable,
    TargetChanged,
)
from nodewright.model.group import InstanceState

T = TypeVar("T")


class Writes:
    """Sends the writes of one provider and settles those whose outcome is unknown."""

    def __init__(
        self, calls: HookCaller, *, repeats: int, ignores_id_case: bool, tells_failures: Callable[[str], bool]
    ) -> None:
        self._calls = calls
        self._repeats = repeats
        self._ignores_id_case = ignores_id_case
        self._tells_failures = tells_failures

    def resize(self, hook: str, group_id: str, expected_target: int, target: int) -> int:
        """Return how many machines were accepted; raise TargetChanged or OutcomeUnknown if a call's effect is not known."""
        asked = abs(target - expected_target)
        for attempt in range(self._repeats + 1):
            try:
                return self._calls.write(
                    hook,
                    checks.size_up_to(asked),
                    group_id=group_id,
                    expected_target=expected_target,
                    target=target,
                )
            except ProviderError as error:
                if not is_unclear(error):
                    raise
                actual = self._reread_target(group_id, error)
                if actual == target:
                    return asked
                if actual != expected_target:
                    raise TargetChanged(actual=actual, provider=error.provider, group_id=group_id) from error
                if attempt == self._repeats or not isinstance(error, ProviderUnavailable):
                    raise
        raise InvariantError(f"{hook} of {group_id} was neither answered nor given up")

    def delete(self, hook: str, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        """Delete machines; return the ids accepted, in the order asked for."""
        left, accepted, expected = list(instance_ids), set[str](), expected_target
        for attempt in range(self._repeats + 1):
            try:
                accepted.update(self._delete_once(hook, group_id, left, expected))
                break
            except ProviderError as error:
                if not is_unclear(error):
                    raise
                present = self._reread_ids(group_id, error)
                gone = {asked for asked in left if self._folded(asked) not in present}
                accepted |= gone
                left = [asked for asked in left if asked not in gone]
                if not left:
                    break
                if attempt == self._repeats or not isinstance(error, ProviderUnavailable):
                    raise
                expected = self._reread_target(group_id, error)
        return tuple(asked for asked in instance_ids if asked in accepted)

    def _delete_once(self, hook: str, group_id: str, instance_ids: Sequence[str], expected: int) -> tuple[str, ...]:
        return self._calls.write(
            hook,
            checks.ids_among(instance_ids),
            group_id=group_id,
            instance_ids=tuple(instance_ids),
            expected_target=expected,
        )

    def _reread_target(self, group_id: str, doubt: ProviderError) -> int:
        self._refresh(group_id, doubt)
        return self._look(doubt, group_id, lambda: self._calls.read("target_size", checks.size, group_id=group_id))

    def _reread_ids(self, group_id: str, doubt: ProviderError) -> set[str]:
        """Return the ids of everything in the group that is not being deleted, failures included."""
        self._refresh(group_id, doubt)
        check = checks.instances(ignores_case=self._ignores_id_case)
        found = self._look(doubt, group_id, lambda: self._calls.read("instances", check, group_id=group_id))
        ids = {instance.id for instance in found if instance.state != InstanceState.DELETING}
        if self._tells_failures(group_id):
            failed = self._look(
                doubt, group_id, lambda: self._calls.read("failed_instances", checks.failures, group_id=group_id)
            )
            ids |= {failure.instance_id or failure.failure_id for failure in failed}
        return {self._folded(instance_id) for instance_id in ids}

    def _refresh(self, group_id: str, doubt: ProviderError) -> None:
        wanted = frozenset({group_id})
        self._look(doubt, group_id, lambda: self._calls.read("refresh", checks.done, wanted=wanted))

    def _look(self, doubt: ProviderError, group_id: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except ProviderError as error:
            message = f"{doubt}; looking what became of it failed too: {error}"
            raise OutcomeUnknown(message, provider=doubt.provider, group_id=group_id) from error

    def _folded(self, instance_id: str) -> str:
        return instance_id.lower() if self._ignores_id_case else instance_id
