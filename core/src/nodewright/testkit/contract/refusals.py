"""Checks of refusals and of lost answers: they are reported with the right kind of error, and change nothing."""

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import NamedTuple

from nodewright.model.capability import Capability
from nodewright.model.errors import (
    AccessDenied,
    CloudBusy,
    NodeGroupNotFound,
    OperationInProgress,
    OutOfCapacity,
    ProviderError,
    ProviderUnavailable,
    QuotaExceeded,
    Shortage,
    TargetChanged,
    Throttled,
)
from nodewright.model.group import FailureScope
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, refusal, unless_refused
from nodewright.testkit.contract.situations import (
    ask_without_arrival,
    decrease,
    demand_alive,
    demand_deleted,
    demand_target,
    group,
    ids,
    refresh,
    target,
)
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch, Trouble

# More often than the core repeats a call.
_ALWAYS = 100
# Of a refresh that makes more calls to the cloud for one group, only the first ones are checked.
_MOST_READS = 12
_KINDS: dict[Trouble, tuple[type[ProviderError], ...]] = {
    Trouble.CAPACITY: (OutOfCapacity,),
    Trouble.QUOTA: (QuotaExceeded,),
    Trouble.THROTTLED: (Throttled,),
    Trouble.DENIED: (AccessDenied,),
    Trouble.UNAVAILABLE: (ProviderUnavailable,),
    Trouble.CONFLICT: (OperationInProgress, TargetChanged),
}


@check(Promise.REFUSALS, touches=Touch.OWN_CLOUD)
def no_capacity_is_told_as_such(world: ContractWorld) -> None:
    """An increase for which the cloud has no machines raises OutOfCapacity with the cloud's scope and changes nothing."""
    _demand_told(world, Trouble.CAPACITY)


@check(Promise.REFUSALS, touches=Touch.OWN_CLOUD)
def a_used_up_quota_is_told_as_such(world: ContractWorld) -> None:
    """An increase beyond a quota of the account raises QuotaExceeded with the cloud's scope and changes nothing."""
    _demand_told(world, Trouble.QUOTA)


@check(Promise.REFUSALS, touches=Touch.OWN_CLOUD)
def throttling_is_told_as_such(world: ContractWorld) -> None:
    """A write that the cloud throttles raises Throttled and changes nothing."""
    _demand_told(world, Trouble.THROTTLED)


@check(Promise.REFUSALS, touches=Touch.OWN_CLOUD)
def a_missing_permission_is_told_as_such(world: ContractWorld) -> None:
    """A write without the permission raises AccessDenied and changes nothing."""
    _demand_told(world, Trouble.DENIED)


@check(Promise.REFUSALS, touches=Touch.OWN_CLOUD)
def an_unavailable_cloud_is_told_as_such(world: ContractWorld) -> None:
    """A write to a cloud that is out of order raises ProviderUnavailable and changes nothing."""
    _demand_told(world, Trouble.UNAVAILABLE)


@check(Promise.REFUSALS, touches=Touch.OWN_CLOUD)
def a_conflict_is_told_as_such(world: ContractWorld) -> None:
    """A write while another operation locks the group raises OperationInProgress or TargetChanged and changes nothing."""
    _demand_told(world, Trouble.CONFLICT)


@check(Promise.ACCEPTED, touches=Touch.OWN_CLOUD)
def a_partly_granted_increase_is_counted(world: ContractWorld) -> None:
    """If the cloud grants one of three requested machines, the increase returns 1, and the target rises by 1."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.refuse(world.group_id, Trouble.CAPACITY, granted=1)
    accepted = world.client.increase_size(world.group_id, before, before + 3)
    demand(accepted == 1, f"the cloud granted 1 machine of 3, increase_size returned {accepted}")
    demand_target(world, before + 1, "increase_size, granted in part,")
    demand_alive(world, alive, "increase_size, granted in part,")


@check(Promise.ACCEPTED, touches=Touch.OWN_CLOUD)
def a_refused_decrease_withdraws_nothing(world: ContractWorld) -> None:
    """A decrease that the cloud refuses is not reported as withdrawn, and the target stays."""
    raised = ask_without_arrival(world, 2)
    refresh(world)
    world.refuse(world.group_id, Trouble.DENIED, _ALWAYS)
    accepted = decrease(world, raised, raised - 1)
    demand(accepted == 0, f"the cloud refused a decrease, and decrease_target_size returned {accepted}")
    demand_target(world, raised, "decrease_target_size, refused by the cloud,")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def a_refused_deletion_is_no_deletion(world: ContractWorld) -> None:
    """A deletion that the cloud refuses raises an error; the machine lives, and the target stays."""
    _demand_not_deleted(world, Trouble.DENIED, "a refused delete_instances", AccessDenied)


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def a_locked_machine_is_not_deleted(world: ContractWorld) -> None:
    """A deletion while another operation locks the machines is refused; they live, and the target stays."""
    _demand_not_deleted(world, Trouble.CONFLICT, "delete_instances of a locked machine", CloudBusy, TargetChanged)


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def a_throttled_deletion_is_told_as_such(world: ContractWorld) -> None:
    """A deletion that the cloud throttles raises Throttled: an empty answer would say that the machines are gone."""
    _demand_not_deleted(world, Trouble.THROTTLED, "a throttled delete_instances", Throttled)


@check(Promise.ACCEPTED, touches=Touch.OWN_CLOUD)
def a_partly_refused_decrease_is_counted(world: ContractWorld) -> None:
    """If the cloud refuses the second write of a decrease by two, the decrease returns exactly how much was withdrawn."""
    alive = world.machines(world.group_id)
    raised = ask_without_arrival(world, 3)
    refresh(world)
    world.refuse_later(world.group_id, Trouble.DENIED, 1)
    accepted = decrease(world, raised, raised - 2)
    demand_target(world, raised - accepted, f"decrease_target_size by 2, refused in part, {accepted} accepted,")
    demand_alive(world, alive, "decrease_target_size, refused in part,")


@check(Promise.DELETION, touches=Touch.OWN_CLOUD)
def a_partly_refused_deletion_is_exact(world: ContractWorld) -> None:
    """If the cloud refuses the second write of a deletion of two machines, exactly the deleted ids are returned."""
    raised = ask_without_arrival(world, 1)
    kept = world.arrive(world.group_id)
    refresh(world)
    alive = world.machines(world.group_id)
    world.refuse_later(world.group_id, Trouble.DENIED, 1)
    accepted: tuple[str, ...] = unless_refused(
        lambda: world.client.delete_instances(world.group_id, sorted(alive - {kept}), raised), (), "delete_instances"
    )
    what = "delete_instances of two machines, refused in part,"
    demand_deleted(world, alive, accepted, what)
    demand_target(world, raised - len(accepted), what)


@check(Promise.REFRESH, touches=Touch.OWN_CLOUD)
def a_cloud_that_is_read_in_part_is_told(world: ContractWorld) -> None:
    """If any one read of the cloud is refused, the refresh or the group's reads say so, and no machine or failure is lost."""
    ask_without_arrival(world, 2)
    if Capability.FAST_FAILURE_DETECTION in world.client.info.capabilities:
        with suppress(CannotSteer):
            world.fail_creation(world.group_id)
    _demand_read_or_told(world)


@check(Promise.REFRESH, touches=Touch.OWN_CLOUD)
def a_page_that_cannot_be_read_is_told(world: ContractWorld) -> None:
    """If any one page of a long listing is refused, the refresh or the group's reads say so, and no machine is lost."""
    world.crowd(world.group_id, 3 * world.page_size + 1)
    _demand_read_or_told(world)


@check(Promise.REFRESH, touches=Touch.OWN_CLOUD)
def an_unreadable_cloud_is_no_empty_cloud(world: ContractWorld) -> None:
    """If the cloud cannot be read, the refresh or the group's reads say so, and groups and machines stay as they were."""
    _demand_unread(world, Trouble.UNAVAILABLE, ProviderUnavailable)


@check(Promise.REFRESH, touches=Touch.OWN_CLOUD)
def a_cloud_that_may_not_be_read_is_no_empty_cloud(world: ContractWorld) -> None:
    """Without the permission to read, the refresh or the group's reads say so, and all stays as it was."""
    _demand_unread(world, Trouble.DENIED, AccessDenied)


@check(Promise.REFRESH, touches=Touch.OWN_CLOUD)
def a_cloud_that_throttles_reads_is_no_empty_cloud(world: ContractWorld) -> None:
    """If the cloud throttles reads, the refresh or the group's reads say so, and all stays as it was."""
    _demand_unread(world, Trouble.THROTTLED, Throttled)


@check(Promise.ONCE, touches=Touch.OWN_CLOUD)
def a_lost_answer_buys_nothing_twice(world: ContractWorld) -> None:
    """An increase whose answer is lost raises the target once, also after the core's re-read and repeat."""
    refresh(world)
    before = target(world)
    world.lose_answer(world.group_id)
    _in_doubt(lambda: world.client.increase_size(world.group_id, before, before + 1))
    demand_target(world, before + 1, "increase_size whose answer was lost")


@check(Promise.ACCEPTED, touches=Touch.OWN_CLOUD)
def an_answer_that_is_lost_midway_is_counted(world: ContractWorld) -> None:
    """If one of several writes of an increase by three is not answered, no smaller increase is reported."""
    refresh(world)
    before = target(world)
    # If the cloud takes all machines in one write, there is no second write, and no answer is lost.
    world.before_write(lambda: world.before_write(lambda: world.lose_answer(world.group_id)))
    accepted = None
    with suppress(ProviderUnavailable, TargetChanged):
        accepted = world.client.increase_size(world.group_id, before, before + 3)
    refresh(world)
    after = target(world)
    what = "increase_size by 3, of which a later write was not answered,"
    demand(after <= before + 3, f"{what} raised the target from {before} to {after}")
    demand(accepted in (None, after - before), f"{what} returned {accepted}, and the target rose by {after - before}")


@check(Promise.ONCE, touches=Touch.OWN_CLOUD)
def a_lost_answer_deletes_nothing_else(world: ContractWorld) -> None:
    """A deletion whose answer is lost ends only the named machine, also after the core's re-read and repeat."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.lose_answer(world.group_id)
    _in_doubt(lambda: world.client.delete_instances(world.group_id, [min(alive)], before))
    demand_alive(world, alive - {min(alive)}, "delete_instances whose answer was lost")
    demand(min(alive) not in world.machines(world.group_id), "delete_instances whose answer was lost deleted nothing")
    demand_target(world, before - 1, "delete_instances whose answer was lost")


@check(Promise.ONCE, touches=Touch.OWN_CLOUD)
def a_lost_answer_withdraws_nothing_twice(world: ContractWorld) -> None:
    """A decrease whose answer is lost lowers the target once and ends no machine, also after the core's re-read."""
    alive = world.machines(world.group_id)
    raised = ask_without_arrival(world, 2)
    refresh(world)
    world.lose_answer(world.group_id)
    _in_doubt(lambda: world.client.decrease_target_size(world.group_id, raised, raised - 1))
    refresh(world)
    later = target(world)
    demand(raised - 1 <= later, f"decrease_target_size by 1 whose answer was lost lowered {raised} to {later}")
    demand_alive(world, alive, "decrease_target_size whose answer was lost")


def _demand_told(world: ContractWorld, kind: Trouble) -> None:
    """Raise BrokenPromise unless a refused increase raises the error of that kind, and changes nothing."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.refuse(world.group_id, kind, _ALWAYS)
    what = f"increase_size, refused by the cloud ({kind.value}),"
    error = refusal(lambda: world.client.increase_size(world.group_id, before, before + 1), what)
    wanted = " or ".join(one.__name__ for one in _KINDS[kind])
    demand(isinstance(error, _KINDS[kind]), f"{what} raised {type(error).__name__}, not {wanted}: {error}")
    if isinstance(error, Shortage):
        scope = world.scopes.get(kind, FailureScope.GROUP)
        demand(error.scope == scope, f"{what} raised the scope {error.scope}, and the cloud says {scope}")
    demand_target(world, before, what)
    demand_alive(world, alive, what)


def _demand_not_deleted(world: ContractWorld, kind: Trouble, what: str, *wanted: type[ProviderError]) -> None:
    """Raise BrokenPromise unless a refused deletion raises one of these errors, and changes nothing."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.refuse(world.group_id, kind, _ALWAYS)
    error = refusal(lambda: world.client.delete_instances(world.group_id, [min(alive)], before), what)
    demand(isinstance(error, wanted), f"{what} raised {type(error).__name__}")
    demand_alive(world, alive, what)
    demand_target(world, before, what)


def _demand_unread(world: ContractWorld, kind: Trouble, wanted: type[ProviderError]) -> None:
    """Raise BrokenPromise unless the provider says that it could not read the group, and invents nothing.

    Either ``refresh`` raises that error, or reads of the group do until it can be read again.
    """
    refresh(world)
    groups, before = world.client.node_groups(), (target(world), ids(world))
    world.refuse(world.group_id, kind, _ALWAYS, reads=True)
    what = f"refresh of a cloud that refuses reads ({kind.value})"
    told = False
    try:
        world.client.refresh(frozenset({world.group_id}))
    except ProviderError as error:
        told = True
        demand(isinstance(error, wanted), f"{what} raised {type(error).__name__}, not {wanted.__name__}: {error}")
    demand(world.client.node_groups() == groups, f"node_groups lost or changed a group after a {what}")
    try:
        after = target(world), ids(world)
    except ProviderError as error:
        demand(not isinstance(error, NodeGroupNotFound), f"the group counts as deleted after a {what}: {error}")
        return
    demand(after == before, f"target or machines are not those that were read last after a {what}")
    demand(told, f"{what} returned as if it had read it, and so do the reads of {world.group_id}")


class _Seen(NamedTuple):
    """One reading of the group: its target, the machines that exist and are listed, and the ids of its failures."""

    target: int
    machines: frozenset[str]
    failures: frozenset[str]


def _demand_read_or_told(world: ContractWorld) -> None:
    """Raise BrokenPromise unless each refresh with one refused read raises an error, or sees the present state."""
    refresh(world)
    seen, most = _see(world), group(world).max_size
    # The core repeats a refresh of a cloud that is unavailable, and not one that is denied: it shows what a failed one left.
    for kind, answered in product((Trouble.UNAVAILABLE, Trouble.DENIED), range(_MOST_READS)):
        wanted = min(most, seen.target + 1)
        world.set_target(world.group_id, wanted)
        world.refuse_later(world.group_id, kind, answered, reads=True)
        what = f"refresh, of which the cloud refused read {answered + 1} ({kind.value}),"
        told = unless_refused(lambda: world.client.refresh(frozenset({world.group_id})), True, what)
        world.client.node_groups()
        try:
            now = _see(world)
        except ProviderError as error:
            demand(not isinstance(error, NodeGroupNotFound), f"{what} made the group count as deleted: {error}")
            continue
        lost, forgotten = sorted(seen.machines - now.machines), sorted(seen.failures - now.failures)
        demand(not lost, f"{what} lost {len(lost)} machines, such as {', '.join(lost[:1])}")
        demand(not forgotten, f"{what} lost the failures {', '.join(forgotten)}")
        demand(now.target in (seen.target, wanted), f"{what} made the target {now.target}, and the cloud has {wanted}")
        demand(
            now.target == wanted or bool(told), f"{what} returned as if all had been read: the target is {now.target}"
        )
        seen = now


def _see(world: ContractWorld) -> _Seen:
    listed = ids(world) & world.machines(world.group_id)
    failed = world.client.failed_instances(world.group_id) or ()
    return _Seen(target(world), listed, frozenset(one.failure_id for one in failed))


def _in_doubt(call: Callable[[], object]) -> None:
    """Make a call; ignore the errors that its outcome is unknown, or that the target has changed."""
    with suppress(ProviderUnavailable, TargetChanged):
        call()
