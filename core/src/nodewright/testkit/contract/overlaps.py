"""Checks of plugins with ``parallel_calls``: calls in one thread while another thread is in the middle of a write."""

import threading
from collections.abc import Callable

from nodewright.model.errors import ProviderError, TargetChanged
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand
from nodewright.testkit.contract.situations import demand_target, group, ids, refresh, target
from nodewright.testkit.contract.world import ContractWorld, NotDeclared, Touch

# In real seconds. A plugin may also lock, so that the second call waits for the first.
_LOCKED_AFTER = 1.0
_HUNG_AFTER = 30.0


@check(Promise.OVERLAP, touches=Touch.OWN_CLOUD)
def reads_during_a_write_are_answered(world: ContractWorld) -> None:
    """A refresh and reads during a write return the state before the write or the state after it."""
    refresh(world)
    before, alive = target(world), ids(world)
    seen: list[tuple[int, frozenset[str]]] = []

    def look() -> None:
        world.client.refresh(frozenset({world.group_id}))
        group(world)
        seen.append((target(world), ids(world)))

    other = _Other(world, look)
    world.client.increase_size(world.group_id, before, before + 1)
    errors = other.end()
    demand(not errors, f"a read during increase_size raised {errors}")
    [(size, machines)] = seen
    demand(size in (before, before + 1), f"target_size during increase_size returned {size}")
    demand(machines >= alive, "instances during increase_size lacks machines that existed before it")
    demand_target(world, before + 1, "increase_size with reads during it")


@check(Promise.OVERLAP, touches=Touch.OWN_CLOUD)
def of_overlapping_increases_one_is_accepted(world: ContractWorld) -> None:
    """Of two increases from the same target at the same time, one is accepted and one raises TargetChanged."""
    refresh(world)
    before = target(world)
    accepted: list[int] = []

    def grow() -> None:
        accepted.append(world.client.increase_size(world.group_id, before, before + 1))

    other = _Other(world, grow)
    errors: list[Exception] = []
    try:
        grow()
    except ProviderError as error:
        errors.append(error)
    errors += other.end()
    demand(accepted == [1], f"of two increases from {before} at the same time {len(accepted)} were accepted")
    refused = [error for error in errors if not isinstance(error, TargetChanged)]
    demand(not refused, f"the second of two increases at the same time raised {refused}, not TargetChanged")
    demand_target(world, before + 1, "one of two increases at the same time")


class _Other:
    """A second thread. It starts when the next write arrives at the cloud."""

    def __init__(self, world: ContractWorld, call: Callable[[], object]) -> None:
        if not world.client.info.parallel_calls:
            raise NotDeclared("parallel_calls is not declared")
        self._call = call
        self._errors: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="contract", daemon=True)
        world.before_write(self._start)

    def end(self) -> list[Exception]:
        """Wait for the thread to end. Return the exceptions that its call raised."""
        demand(self._thread.ident is not None, "no write of a size arrived at the cloud")
        self._thread.join(_HUNG_AFTER)
        demand(not self._thread.is_alive(), f"two calls at the same time did not return within {_HUNG_AFTER:g} s")
        return self._errors

    def _start(self) -> None:
        self._thread.start()
        self._thread.join(_LOCKED_AFTER)

    def _run(self) -> None:
        try:
            self._call()
        except Exception as error:  # noqa: BLE001 - the check reports every exception of the thread
            self._errors.append(error)
