"""Checks of increases and decreases of the target.

Increases are exact, respect expected_target, and take effect once. Decreases withdraw requested capacity that has no
machine, and never end a machine.
"""

from contextlib import suppress

from nodewright.model.errors import TargetChanged
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, demand_target_changed, refusal, unless_refused
from nodewright.testkit.contract.situations import (
    ask_without_arrival,
    decrease,
    demand_alive,
    demand_answered,
    demand_target,
    errors,
    group,
    refresh,
    target,
)
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch

# After this time a deletion has ended in most clouds.
_DELETED_SECONDS = 120.0


@check(Promise.ACCEPTED, touches=Touch.RESIZES)
def increase_raises_the_target_exactly(world: ContractWorld) -> None:
    """An increase raises the target by the accepted number, at once and after the next refresh."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    accepted = world.client.increase_size(world.group_id, before, before + 2)
    demand_target(world, before + accepted, f"increase_size by 2, {accepted} accepted,")
    demand_alive(world, alive, "increase_size")


@check(Promise.ACCEPTED, touches=Touch.RESIZES)
def increase_is_granted(world: ContractWorld) -> None:
    """A group below its maximum grants one machine, if the cloud has capacity."""
    refresh(world)
    before, errors_before = target(world), errors(world, "increase_size")
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    demand(accepted == 1, f"increase_size by 1 in a group below its maximum accepted {accepted}")
    demand_answered(world, "increase_size", errors_before)


@check(Promise.ONCE, touches=Touch.RESIZES)
def repeated_increase_changes_nothing(world: ContractWorld) -> None:
    """The same increase sent twice raises the target once."""
    refresh(world)
    before = target(world)
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    _settle(world)
    _try_again(world, before, before + 1)
    refresh(world)
    after, wanted = target(world), before + accepted
    demand(after == wanted, f"increase_size sent twice made the target {after}, not {wanted}{_late(world)}")


@check(Promise.ONCE, touches=Touch.OWN_CLOUD)
def an_increase_after_a_deletion_buys_again(world: ContractWorld) -> None:
    """After a deletion, an increase from and to the same sizes as an earlier one is a new increase: it buys again."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.client.increase_size(world.group_id, before, before + 1)
    with suppress(CannotSteer):
        world.arrive(world.group_id)
    refresh(world)
    world.client.delete_instances(world.group_id, [min(alive)], target(world))
    with suppress(CannotSteer):
        world.pass_time(_DELETED_SECONDS)
    refresh(world)
    lowered = target(world)
    demand(lowered == before, f"an increase by 1 and a deletion of one machine made {before} machines {lowered}")
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    what = "increase_size from the same size as once before, after a deletion,"
    demand(accepted == 1, f"{what} accepted {accepted}, not 1")
    demand_target(world, before + 1, what)


@check(Promise.ONCE, touches=Touch.RESIZES)
def repeated_increase_by_a_restarted_process_changes_nothing(world: ContractWorld) -> None:
    """The same increase sent again after a refresh, as by a restarted process, raises the target once."""
    refresh(world)
    before = target(world)
    accepted = world.client.increase_size(world.group_id, before, before + 2)
    refresh(world)
    _try_again(world, before, before + 2)
    demand_target(world, before + accepted, "increase_size repeated after a refresh")


@check(Promise.EXPECTED_TARGET, touches=Touch.REFUSED)
def wrong_expected_target_refuses_increase(world: ContractWorld) -> None:
    """An increase whose expected_target is not the target raises TargetChanged and changes nothing."""
    refresh(world)
    before = target(world)
    wrong = before + 1
    what = "increase_size with a wrong expected_target"
    demand_target_changed(lambda: world.client.increase_size(world.group_id, wrong, wrong + 1), what)
    demand_target(world, before, what)


@check(Promise.EXPECTED_TARGET, touches=Touch.RESIZES)
def resize_from_outside_refuses_increase(world: ContractWorld) -> None:
    """An increase after an outside resize, without a refresh between, raises TargetChanged and changes nothing."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.set_target(world.group_id, before + 1)
    error = refusal(
        lambda: world.client.increase_size(world.group_id, before, before + 2),
        "increase_size after a resize from outside",
    )
    demand(isinstance(error, TargetChanged), f"a resize from outside made increase_size raise {type(error).__name__}")
    if isinstance(error, TargetChanged):
        demand(error.actual == before + 1, f"TargetChanged says {error.actual}, but the target is {before + 1}")
    refresh(world)
    demand(
        target(world) == before + 1,
        f"a refused increase_size replaced the target set from outside with {target(world)}",
    )
    demand_alive(world, alive, "a refused increase_size")


@check(Promise.ACCEPTED, touches=Touch.OWN_CLOUD)
def increase_beyond_the_maximum_is_refused(world: ContractWorld) -> None:
    """An increase never goes beyond the group's maximum."""
    refresh(world)
    before, most = target(world), group(world).max_size
    accepted = unless_refused(
        lambda: world.client.increase_size(world.group_id, before, most + 1), 0, "increase_size beyond the maximum"
    )
    refresh(world)
    demand(target(world) <= most, f"increase_size went to {target(world)}, beyond the maximum of {most}")
    demand(target(world) == before + accepted, f"increase_size accepted {accepted} and made {target(world)}")


def _settle(world: ContractWorld) -> None:
    """Wait until listings show a write, as the core does before it sends a write again."""
    if world.client.info.settles_after:
        refresh(world)


def _late(world: ContractWorld) -> str:
    """Return the end of a sentence with a possible reason why a write did not show in the cloud's listings."""
    said = world.client.info.settles_after
    return f"; settles_after is {said:g} s: set it higher if the cloud's listings are later than that"


def _try_again(world: ContractWorld, expected: int, wanted: int) -> None:
    with suppress(TargetChanged):  # the plugin may refuse the repeated call or recognize it
        world.client.increase_size(world.group_id, expected, wanted)


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def decrease_never_kills(world: ContractWorld) -> None:
    """A decrease below the number of running machines ends no machine and withdraws nothing."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    accepted = decrease(world, before, before - 1)
    demand_alive(world, alive, "decrease_target_size below the number of running machines")
    demand(accepted == 0, f"decrease_target_size withdrew {accepted}, although every requested machine runs")
    refresh(world)
    demand(target(world) == before, f"decrease_target_size left {target(world)} for {len(alive)} machines")


@check(Promise.ACCEPTED, touches=Touch.RESIZES)
def decrease_withdraws_capacity_without_a_machine(world: ContractWorld) -> None:
    """A decrease lowers the target by the accepted number, at once and after the next refresh."""
    alive = world.machines(world.group_id)
    raised = ask_without_arrival(world, 2)
    refresh(world)
    errors_before = errors(world, "decrease_target_size")
    accepted = decrease(world, raised, raised - 1)
    demand_answered(world, "decrease_target_size", errors_before)
    demand_target(world, raised - accepted, f"decrease_target_size by 1, {accepted} accepted,")
    demand_alive(world, alive, "decrease_target_size")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def decrease_stops_at_what_runs(world: ContractWorld) -> None:
    """A decrease never lowers the target below the number of machines that exist."""
    alive = world.machines(world.group_id)
    raised = ask_without_arrival(world, 1)
    refresh(world)
    decrease(world, raised, 0)
    _demand_kept(world, alive, "decrease_target_size to 0")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def a_starting_machine_survives_decrease(world: ContractWorld) -> None:
    """A decrease withdraws no machine that exists and does not run yet."""
    raised = ask_without_arrival(world, 1)
    world.begin(world.group_id)
    refresh(world)
    alive = world.machines(world.group_id)
    decrease(world, raised, raised - 1)
    _demand_kept(world, alive, "decrease_target_size while a machine starts")


@check(Promise.NOTHING_DIES, touches=Touch.OWN_CLOUD)
def machine_that_arrives_meanwhile_survives_decrease(world: ContractWorld) -> None:
    """A machine that arrives between the refresh and the decrease survives."""
    raised = ask_without_arrival(world, 1)
    refresh(world)
    world.arrive(world.group_id)
    alive = world.machines(world.group_id)
    decrease(world, raised, raised - 1)
    _demand_kept(world, alive, "decrease_target_size after an arrival")


@check(Promise.EXPECTED_TARGET, touches=Touch.RESIZES)
def wrong_expected_target_refuses_decrease(world: ContractWorld) -> None:
    """A decrease whose expected_target is not the target raises TargetChanged and changes nothing."""
    raised = ask_without_arrival(world, 2)
    refresh(world)
    _demand_refused(world, raised - 1, raised - 2)
    demand_target(world, raised, "decrease_target_size with a wrong expected_target")


@check(Promise.EXPECTED_TARGET, touches=Touch.RESIZES)
def resize_from_outside_refuses_decrease(world: ContractWorld) -> None:
    """A decrease after an outside resize, without a refresh between, raises TargetChanged; no machine ends."""
    alive = world.machines(world.group_id)
    raised = ask_without_arrival(world, 2)
    refresh(world)
    world.set_target(world.group_id, raised - 1)
    _demand_refused(world, raised, raised - 2)
    demand_alive(world, alive, "decrease_target_size after a resize from outside")
    refresh(world)
    demand(target(world) == raised - 1, f"a refused decrease_target_size made the target {target(world)}")


@check(Promise.ONCE, touches=Touch.RESIZES)
def repeated_decrease_withdraws_once(world: ContractWorld) -> None:
    """The same decrease sent twice lowers the target once."""
    raised = ask_without_arrival(world, 2)
    refresh(world)
    accepted = decrease(world, raised, raised - 1)
    _settle(world)
    decrease(world, raised, raised - 1)
    demand(accepted <= 1, f"decrease_target_size by 1 withdrew {accepted}")
    refresh(world)
    after = target(world)
    demand(after >= raised - 1, f"decrease_target_size sent twice made the target {after}{_late(world)}")


def _demand_kept(world: ContractWorld, alive: frozenset[str], after: str) -> None:
    """Raise BrokenPromise unless these machines run and the target is at least their number."""
    demand_alive(world, alive, after)
    refresh(world)
    demand(target(world) >= len(alive), f"decrease_target_size left {target(world)} for {len(alive)} machines")


def _demand_refused(world: ContractWorld, expected: int, wanted: int) -> None:
    what = "decrease_target_size with an expected_target that is not the target"
    demand_target_changed(lambda: world.client.decrease_target_size(world.group_id, expected, wanted), what)
