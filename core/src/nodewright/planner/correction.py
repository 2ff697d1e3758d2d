"""Restoring reality: failures are cleaned up, capacity that never came is withdrawn (design.md §6)."""

from nodewright.model.action import DecreaseTargetSize, DeleteInstances
from nodewright.registry.state import ClusterState, GroupState


def plan_corrections(state: ClusterState) -> list[DeleteInstances | DecreaseTargetSize]:
    """Deletions of failed instances, and decreases of targets whose machines are overdue."""
    actions: list[DeleteInstances | DecreaseTargetSize] = []
    for ref, group in state.groups.items():
        if state.observation.groups[ref].is_known:
            clean_up = _clean_up(group) or _withdraw(group)
            if clean_up is not None:
                actions.append(clean_up)
    return actions


def _clean_up(group: GroupState) -> DeleteInstances | None:
    """Failures are deleted by machine; one that has no machine to name goes by its own id."""
    failures = group.seen.failed or ()
    if not failures:
        return None
    return DeleteInstances(
        group=group.ref,
        expected_target=group.seen.target or 0,
        instance_ids=tuple(failure.instance_id or failure.failure_id for failure in failures),
        failure_ids=tuple(failure.failure_id for failure in failures),
        reason=f"failed to start: {failures[0].code or failures[0].error_class}",
    )


def _withdraw(group: GroupState) -> DecreaseTargetSize | None:
    """Withdraw what is overdue and has no machine; machines themselves are only ever deleted by id."""
    target, present = group.seen.target or 0, len(group.seen.instances or ())
    missing = min(group.timed_out, target - present)
    if missing <= 0:
        return None
    return DecreaseTargetSize(
        group=group.ref,
        expected_target=target,
        target=target - missing,
        reason="machines did not appear in time",
    )
