"""Restoring reality: what failed is cleaned up, what never came is withdrawn (design.md §6)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from nodewright.model.action import DecreaseTargetSize, DeleteInstances
from nodewright.model.capability import Capability
from nodewright.model.group import InstanceState
from nodewright.model.settings import FailureSettings, Settings
from nodewright.registry.state import ClusterState, GroupState

Correction = DeleteInstances | DecreaseTargetSize
NEVER_REGISTERED = "did not become a node in time"
SIZES_FIXED = "target sizes were corrected; the rest waits for the next loop"


@dataclass(frozen=True, kw_only=True)
class Restored:
    """How reality is restored, and the state in which the rest of the loop is planned.

    ``cut_short`` says why nothing else is planned in this loop; empty: it is.
    """

    actions: tuple[Correction, ...]
    state: ClusterState
    cut_short: str = ""


def restore_promptly(state: ClusterState, settings: Settings) -> Restored:
    """At most one correction a group: its next observation decides on the next.

    An unhealthy cluster allows nothing but the removal of machines that never registered, which may be what
    heals it. What failed and what never came may take a group below its minimum; it is refilled from there.
    """
    found: list[Correction] = []
    for ref, group in state.groups.items():
        if not state.observation.groups[ref].is_known:
            continue
        step = _corrections if state.healthy else _remove_unregistered
        found.extend(islice(step(group, state, settings), 1))
    return Restored(actions=tuple(found), state=state)


def restore_as_seed(state: ClusterState, settings: Settings) -> Restored:
    """The same steps; a corrected target ends the loop (seed 000)."""
    restored = restore_promptly(state, settings)
    fixed = any(isinstance(action, DecreaseTargetSize) for action in restored.actions)
    return Restored(actions=restored.actions, state=state, cut_short=SIZES_FIXED if fixed else "")


def _corrections(group: GroupState, state: ClusterState, settings: Settings) -> Iterator[Correction]:
    yield from _clean_up(group, settings.failures)
    yield from _remove_unregistered(group, state, settings)
    tried = group.withdrawn_at
    if not tried or tried + settings.failures.initial_node_group_backoff_duration <= state.now:
        yield from _withdraw(group)


def _clean_up(group: GroupState, settings: FailureSettings) -> Iterator[DeleteInstances]:
    if group.seen.failed:
        yield delete_failed(group, group.seen.target or 0, settings)


def _remove_unregistered(group: GroupState, state: ClusterState, settings: Settings) -> Iterator[DeleteInstances]:
    """One by one (seed 000, UC5), as far as the minimum allows; a group that is all or nothing goes as a whole."""
    target, patience = group.seen.target or 0, time_to_join(group, state, settings)
    since = {i: state.memory.unregistered_since.get((group.ref, i), 0.0) for i in group.readiness.long_unregistered}
    late = [instance_id for instance_id, seen in since.items() if seen + patience < state.now]
    allowed = len(late) if group.seen.options.zero_or_max_node_scaling else 1
    if not settings.failures.force_delete_unregistered_nodes:
        allowed = min(allowed, target - group.seen.group.min_size)
    if late and allowed > 0:
        yield delete_unregistered(group, target, late[:allowed], settings.failures)


def time_to_join(group: GroupState, state: ClusterState, settings: Settings) -> float:
    """Seconds after which a machine that is there and no node is deleted (docs/adr/0011-late-machines.md).

    A provision time, learned or not, only decides when its pods go elsewhere. The machine has come as far as being
    there, and has twice the ordinary time, unless it takes the last place of its group.
    """
    ordinary = state.observation.groups[group.ref].options.max_node_provision_seconds
    is_full = (group.seen.target or 0) >= group.seen.group.max_size
    return ordinary if is_full or settings.size_correction != "prompt" else 2 * ordinary


def delete_failed(group: GroupState, target: int, settings: FailureSettings) -> DeleteInstances:
    """Failures are deleted by machine; one that has no machine to name goes by its own id."""
    failures = group.seen.failed or ()
    return DeleteInstances(
        group=group.ref,
        expected_target=target,
        instance_ids=tuple(failure.instance_id or failure.failure_id for failure in failures),
        failure_ids=tuple(failure.failure_id for failure in failures),
        reason=f"failed to start: {failures[0].code or failures[0].error_class}",
        force=settings.force_delete_failed_nodes and _can_force(group),
    )


def delete_unregistered(
    group: GroupState, target: int, ids: Sequence[str], settings: FailureSettings
) -> DeleteInstances:
    return DeleteInstances(
        group=group.ref,
        expected_target=target,
        instance_ids=tuple(ids),
        reason=NEVER_REGISTERED,
        force=settings.force_delete_unregistered_nodes and _can_force(group),
    )


def _can_force(group: GroupState) -> bool:
    return Capability.FORCE_DELETE in group.seen.capabilities


def _withdraw(group: GroupState) -> Iterator[DecreaseTargetSize]:
    """Withdraw what is given up and has no machine; machines themselves are only ever deleted by id."""
    target = group.seen.target or 0
    there = sum(1 for instance in group.seen.instances or () if instance.state != InstanceState.DELETING)
    missing = min(group.given_up, target - there)
    if missing > 0:
        yield DecreaseTargetSize(
            group=group.ref,
            expected_target=target,
            target=target - missing,
            reason="machines did not appear in time",
        )
