"""Checks of increases: they are exact, respect expected_target, and take effect once."""

from contextlib import suppress

from nodewright.model.errors import TargetChanged
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, demand_target_changed, refusal, unless_refused
from nodewright.testkit.contract.situations import (
    demand_alive,
    demand_answered,
    demand_target,
    errors,
    group,
    refresh,
    target,
)
from nodewright.testkit.contract.world import ContractWorld, Touch


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
    _try_again(world, before, before + 1)
    demand_target(world, before + accepted, "increase_size sent twice")


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


def _try_again(world: ContractWorld, expected: int, wanted: int) -> None:
    with suppress(TargetChanged):  # the plugin may refuse the repeated call or recognize it
        world.client.increase_size(world.group_id, expected, wanted)
