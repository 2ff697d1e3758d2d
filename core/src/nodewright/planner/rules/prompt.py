"""Correct sizes by the rule prompt (--size-correction=prompt): clean up failures, withdraw machines that never came.

The rule of the first design document (``--size-correction=seed``) does the same in another order.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from nodewright.clusterstate.backoff import is_deferred
from nodewright.clusterstate.deletions import is_resting
from nodewright.clusterstate.readiness import is_being_deleted, was_never_ready
from nodewright.clusterstate.state import ClusterState, GroupState
from nodewright.model.action import DecreaseTargetSize, DeleteInstances, DeletionCause
from nodewright.model.node import Node
from nodewright.model.settings import CorrectionSettings
from nodewright.planner.late_machines import registration_deadlines, startup_deadlines
from nodewright.planner.rules.corrections import (
    SIZES_FIXED,
    Correction,
    Corrections,
    can_force,
    delete_failed,
    delete_unregistered,
)
from nodewright.planner.scale_down.eligibility import SCALE_DOWN_DISABLED

NEVER_READY = "did not become ready in time"

_Step = Callable[[GroupState, ClusterState, CorrectionSettings], Iterator[Correction]]


def correct_promptly(state: ClusterState, settings: CorrectionSettings) -> Corrections:
    """Plan at most one correction for each group.

    The next observation decides on the next one. A correction without effect rests for a while, and a group whose cloud
    is busy waits. Withdrawals come first, since a deletion may hang. In an unhealthy cluster only machines that never
    registered or never became ready are deleted, which may heal it. Corrections may take a group below its minimum; it
    is refilled.
    """
    return Corrections(actions=_first_of_each_group(_STEPS, state, settings), state=state)


def correct_as_seed(state: ClusterState, settings: CorrectionSettings) -> Corrections:
    """Do as ``correct_promptly`` does, but withdraw last, and end the loop after a corrected target."""
    actions = _first_of_each_group(_STEPS_OF_SEED, state, settings)
    fixed = any(isinstance(action, DecreaseTargetSize) for action in actions)
    return Corrections(actions=actions, state=state, cut_short=SIZES_FIXED if fixed else "")


def _first_of_each_group(
    steps: Sequence[_Step], state: ClusterState, settings: CorrectionSettings
) -> tuple[Correction, ...]:
    """Return the first correction that the steps find for each group."""
    found: list[Correction] = []
    for ref, group in state.groups.items():
        if not state.observation.groups[ref].is_known or is_deferred(group.deferral, state.now):
            continue
        is_left_alone = state.is_halted or ref in state.left_out
        taken = _STEPS_IF_UNHEALTHY if is_left_alone else steps
        found.extend(islice((action for step in taken for action in step(group, state, settings)), 1))
    return tuple(found)


def _clean_up(group: GroupState, state: ClusterState, settings: CorrectionSettings) -> Iterator[Correction]:
    failures = [
        failure
        for failure in group.seen.failed or ()
        if not _is_resting(state, group, failure.instance_id or failure.failure_id, settings)
    ]
    if failures:
        yield delete_failed(group, failures, group.seen.target or 0, settings.failures)


def _remove_unregistered(group: GroupState, state: ClusterState, settings: CorrectionSettings) -> Iterator[Correction]:
    """Yield the deletion of one machine that never registered; of all of them in a zero-or-max group.

    Machines that no deletion budget holds back go first. Below the minimum size only machines that never ran are
    deleted (docs/adr/0007-seed-000.md).
    """
    target, never_ran = group.seen.target or 0, state.memory.never_ran
    goes_below = settings.policy.deletes_never_ran_below_minimum
    late = [i for i in _overdue(group, state, settings) if not _is_resting(state, group, i, settings)]
    if goes_below:
        late.sort(key=lambda instance_id: (group.ref, instance_id) not in never_ran)
    allowed = late if group.seen.options.zero_or_max_node_scaling else late[:1]
    if not settings.failures.force_delete_unregistered_nodes:
        room = max(0, target - group.seen.group.min_size)
        beyond = [i for i in allowed[room:] if goes_below and (group.ref, i) in never_ran]
        allowed = allowed[:room] + beyond
    if allowed:
        yield delete_unregistered(group, target, allowed, settings.failures)


def _remove_never_ready(group: GroupState, state: ClusterState, settings: CorrectionSettings) -> Iterator[Correction]:
    """Yield the deletion of one machine whose node never became ready and runs only DaemonSet pods.

    It keeps the minimum size, so that an operator can look at the node. Nodes with other pods and zero-or-max groups
    are left to scale-down, which drains them.
    """
    room = (group.seen.target or 0) - group.seen.group.min_size
    if room <= 0 or group.seen.options.zero_or_max_node_scaling:
        return
    moments = startup_deadlines(group, state)
    living = {one.id.lower(): one.id for one in group.seen.staying} if moments else {}
    snapshot = state.observation.snapshot
    for name, end in moments.items():
        node = snapshot.node(snapshot.row(name))
        instance_id = living.get(node.spec.provider_id.lower())
        if (
            end < state.now
            and instance_id is not None
            and not _is_resting(state, group, instance_id, settings)
            and _may_delete_undrained(node, state)
        ):
            yield DeleteInstances(
                group=group.ref,
                expected_target=group.seen.target or 0,
                instance_ids=(instance_id,),
                reason=NEVER_READY,
                cause=DeletionCause.NEVER_READY,
                force=settings.failures.force_delete_failed_nodes and can_force(group),
            )
            return


def _may_delete_undrained(node: Node, state: ClusterState) -> bool:
    """Return whether a node was never ready, runs only DaemonSet, mirror or ending pods, and may be deleted."""
    if not was_never_ready(node) or node.name in state.observation.removing:
        return False
    if is_being_deleted(node) or node.metadata.annotations.get(SCALE_DOWN_DISABLED) == "true":
        return False
    if state.shares_machine(node):
        return False
    snapshot = state.observation.snapshot
    pods = snapshot.pods(snapshot.row(node.name))
    return all(pod.is_mirror or pod.is_daemonset_pod or pod.metadata.deletion_timestamp is not None for pod in pods)


def _overdue(group: GroupState, state: ClusterState, settings: CorrectionSettings) -> list[str]:
    """Return the machines whose registration deadline has passed."""
    ends = registration_deadlines(group, state, settings.policy)
    return [instance_id for instance_id, end in ends.items() if end < state.now]


def _is_resting(state: ClusterState, group: GroupState, instance_id: str, settings: CorrectionSettings) -> bool:
    return is_resting(state, group.ref, instance_id, settings.failures.initial_node_group_backoff_duration)


def _withdraw(group: GroupState, state: ClusterState, settings: CorrectionSettings) -> Iterator[Correction]:
    """Withdraw given-up machines that do not exist. Existing machines are only deleted by id."""
    target, tried = group.seen.target or 0, group.withdrawn_at
    if not group.given_up or (tried and tried + settings.failures.initial_node_group_backoff_duration > state.now):
        return
    missing = min(group.given_up, target - len(group.seen.staying))
    if missing > 0:
        yield DecreaseTargetSize(
            group=group.ref,
            expected_target=target,
            target=target - missing,
            reason="machines did not appear in time",
        )


_STEPS: tuple[_Step, ...] = (_withdraw, _clean_up, _remove_unregistered, _remove_never_ready)
_STEPS_OF_SEED: tuple[_Step, ...] = (_clean_up, _remove_unregistered, _withdraw)
_STEPS_IF_UNHEALTHY: tuple[_Step, ...] = (_remove_unregistered, _remove_never_ready)
