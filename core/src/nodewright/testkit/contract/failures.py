"""Checks of fast failure detection: every failure is reported once, until it is deleted."""

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
    target,
)
from nodewright.testkit.contract.world import CannotHappen, CannotSteer, ContractWorld, Touch, Trouble

_FAST = Capability.FAST_FAILURE_DETECTION


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def nothing_failed_is_empty(world: ContractWorld) -> None:
    """Without a failure, failed_instances returns an empty list."""
    refresh(world)
    found = _failures(world)
    demand(not found, f"failed_instances reports {len(found)} failures although nothing failed")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failure_shows_in_the_next_refresh(world: ContractWorld) -> None:
    """A failed creation is reported after the next refresh."""
    ask_and_fail(world)
    reported = _count(_failures(world))
    demand(reported == 1, f"one creation failed, failed_instances reports {reported}")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def every_failure_is_told(world: ContractWorld) -> None:
    """Three failures are reported as three: each with its own id, or together with a count of 3."""
    ask_and_fail(world, failures=3)
    reported = _count(_failures(world))
    demand(reported == 3, f"three creations failed, failed_instances reports {reported}")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_are_stable_until_deleted(world: ContractWorld) -> None:
    """A failure keeps its id and its texts after further refreshes, until it is deleted."""
    ask_and_fail(world, failures=2)
    first = _failures(world)
    refresh(world)
    demand(_failures(world) == first, "failed_instances changed over a refresh although nothing happened")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_keep_the_clouds_code(world: ContractWorld) -> None:
    """A failure carries the cloud's own error code, which operators look up."""
    ask_and_fail(world)
    for failure in _failures(world):
        demand(bool(failure.code), f"failure {failure.failure_id} has no code")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def unexplained_failures_reach_their_group_only(world: ContractWorld) -> None:
    """A failure that is neither a quota nor a lack of capacity has the scope of its group and no bucket, and stops no other group."""
    ask_and_fail(world, kind=Trouble.OTHER)
    for failure in _failures(world):
        explained = failure.error_class != ErrorClass.OTHER
        demand(
            explained or failure.scope == FailureScope.GROUP,
            f"failure {failure.failure_id} of class {failure.error_class} has the scope {failure.scope}",
        )
        demand(
            explained or not failure.bucket,
            f"failure {failure.failure_id} of class {failure.error_class} names the bucket {failure.bucket}, which is not used up",
        )


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failed_machines_are_not_instances(world: ContractWorld) -> None:
    """A failed creation is not listed in instances."""
    ask_and_fail(world)
    failed = set(_names(_failures(world)))
    listed = sorted(failed & ids(world))
    demand(not listed, f"{', '.join(listed)} failed, but instances lists it too")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def a_machine_that_ran_is_no_failed_creation(world: ContractWorld) -> None:
    """After another creation failed, machines that arrived are still instances and not failed creations."""
    ask_without_arrival(world, 2)
    world.arrive(world.group_id)
    ran = world.machines(world.group_id)
    refresh(world)
    world.fail_creation(world.group_id)
    refresh(world)
    named = sorted(ran & set(_names(_failures(world))))
    demand(not named, f"{', '.join(named)} ran, and failed_instances names it: it would be deleted without a drain")
    missing = sorted(ran - ids(world))
    demand(not missing, f"{', '.join(missing)} ran, but instances does not list it after another creation failed")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failed_machines_can_be_deleted(world: ContractWorld) -> None:
    """Failed creations can be deleted: the target falls by their number, and they are not reported any more."""
    alive = world.machines(world.group_id)
    raised = ask_and_fail(world, failures=2)
    names = _names(_failures(world))
    accepted = world.client.delete_instances(world.group_id, names, raised)
    demand(set(accepted) == set(names), f"delete_instances of failures {names} returned {accepted!r}")
    demand_target(world, raised - 2, "delete_instances of two failed machines")
    demand_alive(world, alive, "delete_instances of failed machines")
    left = _count(_failures(world))
    demand(left == 0, f"failed_instances still reports {left} failures that were deleted")


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


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_for_capacity_are_told_as_such(world: ContractWorld) -> None:
    """A creation that failed for lack of capacity has the class OUT_OF_RESOURCES and the cloud's scope."""
    _demand_class(world, Trouble.CAPACITY, ErrorClass.OUT_OF_RESOURCES)


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_for_a_quota_are_told_as_such(world: ContractWorld) -> None:
    """A creation that failed for a quota of the account has the class QUOTA and the cloud's scope."""
    _demand_class(world, Trouble.QUOTA, ErrorClass.QUOTA)


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_without_a_machine_are_told(world: ContractWorld) -> None:
    """A failed creation that left no machine is reported, and can be deleted like any other."""
    alive = world.machines(world.group_id)
    raised = ask_and_fail(world, leaves_machine=False)
    found = _failures(world)
    demand(_count(found) == 1, f"one creation failed and left no machine, failed_instances reports {_count(found)}")
    world.client.delete_instances(world.group_id, _names(found), raised)
    demand_target(world, raised - 1, "delete_instances of a failure without a machine")
    demand_alive(world, alive, "delete_instances of a failure without a machine")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def failures_are_told_for_an_hour(world: ContractWorld) -> None:
    """A failure that was not deleted is still reported an hour later, by the same id."""
    ask_and_fail(world)
    before = {failure.failure_id for failure in _failures(world)}
    world.pass_time(3600.0)
    refresh(world)
    after = {failure.failure_id for failure in _failures(world)}
    demand(before <= after, f"failures {', '.join(sorted(before - after))} are not reported any more after an hour")


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def one_failure_at_a_time_can_be_deleted(world: ContractWorld) -> None:
    """Of several failures one can be deleted: the target falls by its count, and the others are still reported."""
    _demand_one_deleted(world, leaves_machine=True)


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def one_failure_without_a_machine_at_a_time_can_be_deleted(world: ContractWorld) -> None:
    """Of several failures that left no machine one can be deleted, and the others are still reported."""
    _demand_one_deleted(world, leaves_machine=False)


def _demand_one_deleted(world: ContractWorld, *, leaves_machine: bool) -> None:
    ask_and_fail(world, leaves_machine=leaves_machine)
    world.pass_time(1.0)
    raised = ask_and_fail(world, leaves_machine=leaves_machine)
    told = _failures(world)
    demand(_count(told) == 2, f"two creations failed, failed_instances reports {_count(told)}")
    first, *others = told
    world.client.delete_instances(world.group_id, _names([first]), raised)
    demand_target(world, raised - first.count, "delete_instances of one failure among several")
    left = {failure.failure_id for failure in _failures(world)}
    wanted = {failure.failure_id for failure in others}
    demand(
        left == wanted,
        f"after the deletion of failure {first.failure_id} of {len(others) + 1}, {sorted(left)} are left",
    )


@check(Promise.FAILURES, touches=Touch.OWN_CLOUD, capability=_FAST)
def a_partly_failed_increase_is_counted(world: ContractWorld) -> None:
    """If one of three requested machines fails and two arrive, one failure and two machines are reported."""
    refresh(world)
    before, alive = target(world), ids(world)
    if world.client.increase_size(world.group_id, before, before + 3) != 3:
        raise CannotSteer("this cloud does not grant three machines")
    if world.machines(world.group_id) != alive:
        raise CannotHappen("in this cloud machines exist as soon as they are requested")
    world.fail_creation(world.group_id, Trouble.CAPACITY)
    came = {world.arrive(world.group_id) for _ in range(2)}
    refresh(world)
    found = _count(_failures(world))
    demand(found == 1, f"one creation of three failed, failed_instances reports {found}")
    demand(came <= ids(world), f"{', '.join(sorted(came - ids(world)))} arrived beside a failure, and is not listed")
    demand(target(world) == before + 3, f"one creation of three failed, and the target went to {target(world)}")


def _demand_class(world: ContractWorld, kind: Trouble, wanted: ErrorClass) -> None:
    ask_and_fail(world, kind=kind)
    found = _failures(world)
    demand(bool(found), f"a creation failed ({kind.value}), and failed_instances reports nothing")
    for failure in found:
        same = failure.error_class == wanted
        demand(same, f"a creation failed ({kind.value}), and failed_instances gives it the class {failure.error_class}")
        scope = world.scopes.get(kind, FailureScope.GROUP)
        said = f"gives it the scope {failure.scope}, and the cloud says {scope}"
        demand(failure.scope == scope, f"a creation failed ({kind.value}), and failed_instances {said}")


def _failures(world: ContractWorld) -> Sequence[FailedInstance]:
    found = world.client.failed_instances(world.group_id)
    if found is None:
        raise BrokenPromise(f"fast failure detection is declared, but switched off for {world.group_id}")
    return found


def _count(failures: Sequence[FailedInstance]) -> int:
    return sum(failure.count for failure in failures)


def _names(failures: Sequence[FailedInstance]) -> list[str]:
    """Return the ids by which the failures are deleted."""
    return [failure.instance_id or failure.failure_id for failure in failures]
