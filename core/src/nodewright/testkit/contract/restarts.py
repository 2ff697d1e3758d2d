"""Checks of restarts, which lose a provider's memory, of late listings, and of clocks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date
from types import FrameType

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError, ProviderUnavailable, TargetChanged
from nodewright.model.group import GroupOptions
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand
from nodewright.testkit.contract.situations import (
    ask_and_fail,
    demand_alive,
    demand_target,
    group,
    ids,
    refresh,
    target,
)
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch

_LAG_SECONDS = 5.0
_CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "sleep"}


@check(Promise.RESTART, touches=Touch.OWN_CLOUD)
def a_new_process_sees_the_same(world: ContractWorld) -> None:
    """A new provider object on the same cloud lists the same groups and machines, with the same targets."""
    refresh(world)
    world.client.increase_size(world.group_id, target(world), target(world) + 1)
    before = _seen(world)
    world.reconnect()
    refresh(world)
    after = _seen(world)
    demand(after == before, f"a new provider object sees {after}, the one before saw {before}")


@check(Promise.RESTART, touches=Touch.OWN_CLOUD)
def a_new_process_makes_nothing_twice(world: ContractWorld) -> None:
    """An increase that a new provider object sends again raises the target once."""
    refresh(world)
    before = target(world)
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    world.reconnect()
    refresh(world)
    with suppress(TargetChanged):
        world.client.increase_size(world.group_id, before, before + 1)
    demand_target(world, before + accepted, "increase_size, repeated by a new provider object,")


@check(Promise.RESTART, touches=Touch.OWN_CLOUD, capability=Capability.FAST_FAILURE_DETECTION)
def a_new_process_tells_failures_by_the_same_ids(world: ContractWorld) -> None:
    """A new provider object reports the failures of before, by the same ids."""
    ask_and_fail(world, failures=2)
    before = world.client.failed_instances(world.group_id)
    world.reconnect()
    refresh(world)
    after = world.client.failed_instances(world.group_id)
    demand(after == before, f"a new provider object reports the failures {after}, the one before {before}")


@check(Promise.LATENESS, touches=Touch.OWN_CLOUD)
def late_listings_hide_no_increase(world: ContractWorld) -> None:
    """Where listings are 5 s late, an increase is in the target after settles_after, and is not made twice."""
    refresh(world)
    before = target(world)
    world.lag(_LAG_SECONDS)
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    _demand_seen(world, before + accepted, "the provider object that made an increase")
    with suppress(TargetChanged):
        world.client.increase_size(world.group_id, before, before + 1)
    world.pass_time(4 * _LAG_SECONDS)
    demand_target(world, before + accepted, "increase_size, sent twice in a cloud with late listings,")


@check(Promise.LATENESS, touches=Touch.OWN_CLOUD)
def a_lost_answer_is_not_looked_up_in_a_late_list(world: ContractWorld) -> None:
    """Where listings are 5 s late, an increase whose answer is lost raises the target once, also if the plugin repeats it."""
    world.pass_time(60.0)
    refresh(world)
    before = target(world)
    world.lag(_LAG_SECONDS)
    world.lose_answer(world.group_id)
    with suppress(ProviderUnavailable, TargetChanged):
        world.client.increase_size(world.group_id, before, before + 1)
    world.pass_time(60.0)
    refresh(world)
    after = target(world)
    what = "increase_size by 1, whose answer was lost in a cloud with late listings,"
    demand(after == before + 1, f"{what} made the target {after}, not {before + 1}")


@check(Promise.LATENESS, touches=Touch.OWN_CLOUD)
def late_listings_bring_no_machine_back(world: ContractWorld) -> None:
    """Where listings are 5 s late, a deleted machine is not listed as running after settles_after."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.lag(_LAG_SECONDS)
    victim = min(alive)
    world.client.delete_instances(world.group_id, [victim], before)
    refresh(world)
    demand(target(world) == before - 1, f"after a deletion the target is {target(world)}, not {before - 1}")
    running = {one.id for one in world.client.instances(world.group_id) if one.state.value != "deleting"}
    demand(victim not in running, f"{victim} was deleted, and a late listing brought it back")
    demand_alive(world, alive - {victim}, "delete_instances in a cloud with late listings")


@check(Promise.LATENESS, touches=Touch.OWN_CLOUD)
def late_listings_hide_nothing_from_a_new_process(world: ContractWorld) -> None:
    """Where listings are 5 s late, a new provider object sees an increase that was made right before its start."""
    refresh(world)
    before = target(world)
    world.lag(_LAG_SECONDS)
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    world.reconnect()
    _demand_seen(world, before + accepted, "a new process")


@check(Promise.CLOCK, touches=Touch.OWN_CLOUD)
def time_comes_from_the_context(world: ContractWorld) -> None:
    """The plugin's own code reads no clock except ``ProviderContext.clock``, and sleeps on no other."""
    asked: set[str] = set()
    with _watched(asked):
        refresh(world)
        before = target(world)
        world.client.increase_size(world.group_id, before, before + 1)
        with suppress(CannotSteer):
            world.fail_creation(world.group_id)
        with suppress(CannotSteer):
            world.interrupt(world.group_id)
        world.pass_time(60.0)
        world.client.refresh(frozenset())
        group(world)
        ids(world)
        world.client.failed_instances(world.group_id)
        world.client.template_node(world.group_id)
        world.client.node_price(world.group_id)
        world.client.group_options(world.group_id, GroupOptions())
        world.client.interruptions()
        _ask_for_less(world)
        world.client.delete_instances(world.group_id, sorted(world.machines(world.group_id))[:1], target(world))
        refresh(world)
    demand(not asked, f"{', '.join(sorted(asked))}: the clock is that of the context")


def _ask_for_less(world: ContractWorld) -> None:
    """Decrease, and increase atomically if the provider can; ignore refusals."""
    client, group_id, able = world.client, world.group_id, world.client.info.capabilities
    with suppress(ProviderError):
        client.decrease_target_size(group_id, target(world), target(world) - 1)
    refresh(world)
    if Capability.ATOMIC_RESIZE in able:
        with suppress(ProviderError):
            client.atomic_increase_size(group_id, target(world), target(world) + 1)
        refresh(world)


@contextmanager
def _watched(asked: set[str]) -> Iterator[None]:
    """Add to ``asked`` each call of a real clock by the package whose hook runs, in this thread."""

    def watch(frame: FrameType, event: str, called: object) -> None:
        if event == "c_call" and _is_clock(called) and _package(frame) == _package(_hook_of(frame)):
            asked.add(
                f"{frame.f_globals.get('__name__')} line {frame.f_lineno} calls {getattr(called, '__qualname__', '')}"
            )

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)


def _is_clock(called: object) -> bool:
    name, owner = getattr(called, "__name__", ""), getattr(called, "__self__", None)
    if isinstance(owner, type) and issubclass(owner, date):
        return name in ("now", "utcnow", "today")
    return name in _CLOCKS and getattr(called, "__module__", "") == "time"


def _hook_of(frame: FrameType | None) -> FrameType | None:
    """Return the frame of the hook in which ``frame`` runs; None: it runs in no hook."""
    while frame is not None and frame.f_back is not None:
        if _package(frame.f_back) == "pluggy":
            return frame
        frame = frame.f_back
    return None


def _package(frame: FrameType | None) -> str | None:
    return None if frame is None else str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _seen(world: ContractWorld) -> tuple[object, ...]:
    listed = group(world)
    return listed.id, listed.min_size, listed.max_size, target(world), tuple(sorted(ids(world)))


def _demand_seen(world: ContractWorld, wanted: int, who: str) -> None:
    """Raise BrokenPromise unless the next refresh shows this target, although listings are late."""
    refresh(world)
    late = f"listings are {_LAG_SECONDS:g} s late, and settles_after is {world.client.info.settles_after:g}"
    demand(target(world) == wanted, f"{who} sees the target {target(world)}, not {wanted}; {late}")
