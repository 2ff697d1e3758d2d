"""Size corrections that all three rules share."""

from collections.abc import Sequence
from dataclasses import dataclass

from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, DeletionCause
from nodewright.model.capability import Capability
from nodewright.model.group import FailedInstance
from nodewright.model.settings import FailureSettings

Correction = DeleteInstances | DecreaseTargetSize

NEVER_REGISTERED = "did not become a node in time"
SIZES_FIXED = "target sizes were corrected; the rest waits for the next loop"


@dataclass(frozen=True, kw_only=True)
class Corrections:
    """The corrections of a loop, and the state in which the rest of it is planned.

    ``cut_short``: why nothing else is planned in this loop (empty: the loop goes on).
    """

    actions: tuple[Correction, ...]
    state: ClusterState
    cut_short: str = ""


def delete_failed(
    group: GroupState, failures: Sequence[FailedInstance], target: int, settings: FailureSettings
) -> DeleteInstances:
    """Return the deletion of failed creations: by machine, or by the failure's id without a machine."""
    return DeleteInstances(
        group=group.ref,
        expected_target=target,
        instance_ids=tuple(failure.instance_id or failure.failure_id for failure in failures),
        failure_ids=tuple(failure.failure_id for failure in failures),
        cause=DeletionCause.FAILED_CREATION,
        reason=f"failed to start: {failures[0].code or failures[0].error_class}",
        force=settings.force_delete_failed_nodes and can_force(group),
    )


def delete_unregistered(
    group: GroupState, target: int, ids: Sequence[str], settings: FailureSettings
) -> DeleteInstances:
    """Return the deletion of machines that never registered.

    It is forced if the settings say so, and below the minimum size, where the cloud would refuse it otherwise.
    """
    wants_force = settings.force_delete_unregistered_nodes or target - len(ids) < group.seen.group.min_size
    return DeleteInstances(
        group=group.ref,
        expected_target=target,
        instance_ids=tuple(ids),
        reason=NEVER_REGISTERED,
        cause=DeletionCause.UNREGISTERED,
        force=wants_force and can_force(group),
    )


def can_force(group: GroupState) -> bool:
    return Capability.FORCE_DELETE in group.seen.capabilities
