"""Demands on fast failure detection: every failure shows, once, until it is deleted."""

from collections.abc import Sequence

from nodewright.model.capability import Capability
from nodewright.model.group import ErrorClass, FailedInstance, FailureScope
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import BrokenPromise, check, demand
from nodewright.testkit.contract.situations import (
    ask_and_fail,
    ask_without_arrival,
    demand_alive,
    demand_target,
    ids,
    refresh,
)
from nodewright.testkit.contract.world import ContractWorld, Touch

_FAST = Capability.FAST_FAILURE_DETECTION


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def nothing_failed_is_empty(world: ContractWorld) -> None:
    """Without a failure the answer is empty, which differs from not supported."""
    refresh(world)
    found = _failures(world)
    demand(not found, f"failed_instances tells of {len(found)} failures although nothing failed")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failure_shows_in_the_next_refresh(world: ContractWorld) -> None:
    """A creation that failed is told after the very next refresh."""
    ask_and_fail(world)
    told = _count(_failures(world))
    demand(told == 1, f"one creation failed, failed_instances tells of {told}")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def every_failure_is_told(world: ContractWorld) -> None:
    """Three failures are three, each with an id of its own or in one count."""
    ask_and_fail(world, failures=3)
    told = _count(_failures(world))
    demand(told == 3, f"three creations failed, failed_instances tells of {told}")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_are_stable_until_deleted(world: ContractWorld) -> None:
    """A failure keeps its id and its words over refreshes and time, until it is deleted."""
    ask_and_fail(world, failures=2)
    first = _failures(world)
    refresh(world)
    demand(_failures(world) == first, "failed_instances changed over a refresh although nothing happened")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_keep_the_clouds_code(world: ContractWorld) -> None:
    """A failure carries the cloud's own code: people look it up, and the class alone does not tell it."""
    ask_and_fail(world)
    for failure in _failures(world):
        demand(bool(failure.code), f"failure {failure.failure_id} has no code")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def unexplained_failures_reach_their_group_only(world: ContractWorld) -> None:
    """A failure that is neither a quota nor a want of machines has the scope of its group: it stops no other."""
    ask_and_fail(world)
    for failure in _failures(world):
        explained = failure.error_class != ErrorClass.OTHER
        demand(
            explained or failure.scope == FailureScope.GROUP,
            f"failure {failure.failure_id} of class {failure.error_class} has the scope {failure.scope}",
        )


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failed_machines_are_not_instances(world: ContractWorld) -> None:
    """A failed creation is not listed as a machine that runs or comes."""
    ask_and_fail(world)
    failed = set(_names(_failures(world)))
    listed = sorted(failed & ids(world))
    demand(not listed, f"{', '.join(listed)} failed and is in instances too")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def a_machine_that_ran_is_no_failed_creation(world: ContractWorld) -> None:
    """Whatever fails beside them, machines that arrived are instances and no failed creations."""
    ask_without_arrival(world, 2)
    world.arrive(world.group_id)
    ran = world.machines(world.group_id)
    refresh(world)
    world.fail_creation(world.group_id)
    refresh(world)
    named = sorted(ran & set(_names(_failures(world))))
    demand(not named, f"{', '.join(named)} ran, and failed_instances names it: it would be deleted without a drain")
    missing = sorted(ran - ids(world))
    demand(not missing, f"{', '.join(missing)} ran, and is no instance any more since another creation failed")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failed_machines_can_be_deleted(world: ContractWorld) -> None:
    """What failed_instances named can be deleted: the target falls by as many, the failure is told no more."""
    alive = world.machines(world.group_id)
    raised = ask_and_fail(world, failures=2)
    names = _names(_failures(world))
    accepted = world.client.delete_instances(world.group_id, names, raised)
    demand(set(accepted) == set(names), f"delete_instances of failures {names} answered {accepted!r}")
    demand_target(world, raised - 2, "delete_instances of two failed machines")
    demand_alive(world, alive, "delete_instances of failed machines")
    left = _count(_failures(world))
    demand(left == 0, f"failed_instances still tells of {left} failures that were deleted")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def new_failures_have_new_ids(world: ContractWorld) -> None:
    """A failure after a deleted one has another failure_id."""
    raised = ask_and_fail(world)
    first = _failures(world)
    world.client.delete_instances(world.group_id, _names(first), raised)
    world.pass_time(1.0)
    ask_and_fail(world)
    used = {failure.failure_id for failure in first} & {failure.failure_id for failure in _failures(world)}
    demand(not used, f"failure_id {', '.join(sorted(used))} was used for two failures")


def _failures(world: ContractWorld) -> Sequence[FailedInstance]:
    found = world.client.failed_instances(world.group_id)
    if found is None:
        raise BrokenPromise(f"fast failure detection is declared, and switched off for {world.group_id}")
    return found


def _count(failures: Sequence[FailedInstance]) -> int:
    return sum(failure.count for failure in failures)


def _names(failures: Sequence[FailedInstance]) -> list[str]:
    """What to delete a failure by."""
    return [failure.instance_id or failure.failure_id for failure in failures]
