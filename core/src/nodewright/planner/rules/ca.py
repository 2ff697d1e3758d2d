"""Correct sizes as cluster-autoscaler does, call by call.

CA reads target sizes again between its calls. A plan is made from one observation, so the effect of each call is
predicted: providers refuse a decrease below the machines that exist.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from nodewright.clusterstate.backoff import is_active
from nodewright.clusterstate.rules.ca import with_outlook
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances
from nodewright.model.group import GroupRef
from nodewright.model.settings import CorrectionSettings, FailureSettings, LoopSettings
from nodewright.planner.rules.corrections import (
    SIZES_FIXED,
    Correction,
    Corrections,
    delete_failed,
    delete_unregistered,
)

SIZES_NOT_FIXED = "a target size could not be corrected: the cloud has machines for it"


def correct_as_ca(state: ClusterState, settings: CorrectionSettings) -> Corrections:
    """Revert overdue increases, remove unregistered machines, delete failed ones, and fix lasting differences."""
    forecast = _foretell(state)
    for group in forecast.known:
        if group.timed_out:
            forecast.decrease(group, group.timed_out, "scale-up timed out")
    for group in forecast.known:
        _remove_unregistered(forecast, group, settings.failures)
    if not state.healthy:
        return Corrections(actions=tuple(forecast.actions), state=state)
    cleaned = [_clean_up(forecast, group, settings.failures) for group in forecast.known]
    cut_short = _fix_sizes(forecast, state.now)
    after = _foreseen(state, forecast, settings.loop, evaluates_again=any(cleaned))
    return Corrections(actions=tuple(forecast.actions), state=after, cut_short=cut_short)


@dataclass(frozen=True)
class _Forecast:
    """Target sizes and machines as each planned call leaves them, for readable groups."""

    known: list[GroupState]
    targets: dict[GroupRef, int]
    machines: dict[GroupRef, list[str]]
    actions: list[Correction] = field(default_factory=list)

    def decrease(self, group: GroupState, count: int, reason: str) -> bool:
        """Plan a lower target; return whether the provider will accept it."""
        target = self.targets[group.ref]
        action = DecreaseTargetSize(group=group.ref, expected_target=target, target=target - count, reason=reason)
        self.actions.append(action)
        accepted = target - count >= len(self.machines[group.ref])
        if accepted:
            self.targets[group.ref] = target - count
        return accepted

    def delete(self, action: DeleteInstances) -> None:
        """Plan a deletion; each existing machine lowers the target."""
        self.actions.append(action)
        left = [i for i in self.machines[action.group] if i not in action.instance_ids]
        self.targets[action.group] -= len(self.machines[action.group]) - len(left)
        self.machines[action.group] = left


def _foretell(state: ClusterState) -> _Forecast:
    known = [group for ref, group in state.groups.items() if state.observation.groups[ref].is_known]
    targets = {group.ref: group.seen.target or 0 for group in known}
    return _Forecast(known, targets, {group.ref: [i.id for i in group.seen.instances or ()] for group in known})


def _remove_unregistered(forecast: _Forecast, group: GroupState, settings: FailureSettings) -> None:
    """Delete all unregistered machines in one call, down to the minimum size unless deletion is forced."""
    late: Sequence[str] = group.readiness.long_unregistered
    target = forecast.targets[group.ref]
    if not settings.force_delete_unregistered_nodes:
        late = late[: max(0, target - group.seen.group.min_size)]
    deletion = _whole(forecast, group, delete_unregistered(group, target, late, settings)) if late else None
    if deletion is not None:
        forecast.delete(deletion)


def _clean_up(forecast: _Forecast, group: GroupState, settings: FailureSettings) -> bool:
    """Delete machines that failed to start; return whether any are deleted."""
    if not group.seen.failed:
        return False
    failed = delete_failed(group, group.seen.failed, forecast.targets[group.ref], settings)
    deletion = _whole(forecast, group, failed)
    if deletion is not None:
        forecast.delete(deletion)
    return deletion is not None


def _whole(forecast: _Forecast, group: GroupState, deletion: DeleteInstances) -> DeleteInstances | None:
    """Return the deletion, extended to all machines of a zero-or-max group.

    None: the group allows a partial scale-up and has other machines, so nothing is deleted.
    """
    if not group.seen.options.zero_or_max_node_scaling:
        return deletion
    others = [i for i in forecast.machines[group.ref] if i not in deletion.instance_ids]
    if others and group.seen.options.allow_non_atomic_scale_up_to_max:
        return None
    return msgspec.structs.replace(deletion, instance_ids=(*deletion.instance_ids, *others))


def _fix_sizes(forecast: _Forecast, now: float) -> str:
    """Lower targets by differences that lasted; return why the loop ends afterwards (empty: it goes on)."""
    fixed = ""
    for group, missing in _lasting_gaps(forecast, now):
        if not forecast.decrease(group, missing, "fewer nodes than the target for too long"):
            return SIZES_NOT_FIXED
        fixed = SIZES_FIXED
    return fixed


def _lasting_gaps(forecast: _Forecast, now: float) -> Iterator[tuple[GroupState, int]]:
    for group in forecast.known:
        gap, patience = group.size_gap, group.seen.options.max_node_provision_seconds
        if gap is not None and gap.since + patience < now and gap.registered < gap.target:
            yield group, gap.target - gap.registered


def _foreseen(
    state: ClusterState, forecast: _Forecast, settings: LoopSettings, *, evaluates_again: bool
) -> ClusterState:
    """Return the state with the target sizes after the calls.

    CA evaluates the groups again only after deleting failed machines (``evaluates_again``).
    """
    groups = dict(state.groups)
    for group in forecast.known:
        target = forecast.targets[group.ref]
        foreseen = replace(group, seen=replace(group.seen, target=target))
        if evaluates_again:
            foreseen = with_outlook(foreseen, target, settings, hidden=is_active(group.backoff, state.now))
        groups[group.ref] = foreseen
    return replace(state, groups=groups)
