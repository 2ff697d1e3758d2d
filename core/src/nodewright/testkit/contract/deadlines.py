"""Checks of clouds that are slow or do not answer: each call ends by itself, before the core abandons it."""

from collections.abc import Callable
from typing import TypeVar

from nodewright.adapters.provider.calls import UnansweredCall
from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError
from nodewright.spec.hooks import CloudProvisioningRequest
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, refusal, unless_refused
from nodewright.testkit.contract.situations import (
    ask_without_arrival,
    demand_target,
    new_group,
    refresh,
    some_machine,
    target,
)
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch

# Longer than any deadline of a call.
_HUNG_SECONDS = 3600.0
T = TypeVar("T")


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD)
def a_call_ends_by_itself(world: ContractWorld) -> None:
    """A refresh of a cloud that does not answer for an hour ends before its deadline; it or reads raise a ProviderError."""
    refresh(world)
    world.slow(_HUNG_SECONDS)

    def read() -> None:
        world.client.refresh(frozenset({world.group_id}))
        target(world)

    _demand_ended(read, "refresh of a cloud that does not answer, with a read of the group,")


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD)
def a_write_ends_by_itself(world: ContractWorld) -> None:
    """An increase in a cloud that does not answer for an hour raises a ProviderError before its deadline."""
    refresh(world)
    before = target(world)
    world.slow(_HUNG_SECONDS)
    what = "increase_size in a cloud that does not answer"
    _demand_ended(lambda: world.client.increase_size(world.group_id, before, before + 1), what)


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD)
def a_decrease_ends_by_itself(world: ContractWorld) -> None:
    """A decrease in a cloud that does not answer for an hour raises a ProviderError before its deadline."""
    raised = ask_without_arrival(world, 2)
    refresh(world)
    world.slow(_HUNG_SECONDS)
    what = "decrease_target_size in a cloud that does not answer"
    _demand_ended(lambda: world.client.decrease_target_size(world.group_id, raised, raised - 1), what)


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD)
def a_deletion_ends_by_itself(world: ContractWorld) -> None:
    """A deletion in a cloud that does not answer for an hour raises a ProviderError before its deadline."""
    refresh(world)
    before, victim = target(world), some_machine(world)
    world.slow(_HUNG_SECONDS)
    what = "delete_instances in a cloud that does not answer"
    _demand_ended(lambda: world.client.delete_instances(world.group_id, [victim], before), what)


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD)
def a_slow_cloud_is_waited_for(world: ContractWorld) -> None:
    """In a cloud that takes two seconds for every answer, an increase is exact."""
    world.slow(2.0)
    refresh(world)
    before = target(world)
    accepted = world.client.increase_size(world.group_id, before, before + 1)
    demand(accepted == 1, f"increase_size by 1 in a slow cloud accepted {accepted}")
    demand_target(world, before + 1, "increase_size in a slow cloud")


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD, capability=Capability.ATOMIC_RESIZE)
def an_atomic_increase_ends_by_itself(world: ContractWorld) -> None:
    """An atomic increase in a cloud that does not answer for an hour raises a ProviderError before its deadline."""
    refresh(world)
    before = target(world)
    world.slow(_HUNG_SECONDS)
    what = "atomic_increase_size in a cloud that does not answer"
    _demand_ended(lambda: world.client.atomic_increase_size(world.group_id, before, before + 1), what)


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD, capability=Capability.FORCE_DELETE)
def a_forced_deletion_ends_by_itself(world: ContractWorld) -> None:
    """A forced deletion in a cloud that does not answer for an hour raises a ProviderError before its deadline."""
    refresh(world)
    before, victim = target(world), some_machine(world)
    world.slow(_HUNG_SECONDS)
    what = "force_delete_instances in a cloud that does not answer"
    _demand_ended(lambda: world.client.force_delete_instances(world.group_id, [victim], before), what)


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def making_a_group_ends_by_itself(world: ContractWorld) -> None:
    """Creating a group in a cloud that does not answer for an hour raises a ProviderError before its deadline."""
    _, wanted = new_group(world)
    world.slow(_HUNG_SECONDS)
    _demand_ended(lambda: world.client.create_node_group(wanted), "create_node_group in a cloud that does not answer")


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD, capability=Capability.AUTOPROVISIONING)
def removing_a_group_ends_by_itself(world: ContractWorld) -> None:
    """Deleting a group in a cloud that does not answer for an hour ends before its deadline, and does not return True."""
    _, wanted = new_group(world)
    world.client.create_node_group(wanted)
    world.slow(_HUNG_SECONDS)
    what = "delete_node_group in a cloud that does not answer"
    gone = _ended(lambda: world.client.delete_node_group(wanted.group_id), False, what)
    demand(not gone, f"{what} returned that the group is gone")


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD, capability=Capability.PROVISIONING_CLASSES)
def provisioning_ends_by_itself(world: ContractWorld) -> None:
    """A provisioning call in a cloud that does not answer for an hour ends before its deadline, and accepts nothing."""
    classes = world.client.provisioning_classes()
    if not classes:
        raise CannotSteer("the provider lists no class of ProvisioningRequests")
    refresh(world)
    world.slow(_HUNG_SECONDS)
    request = CloudProvisioningRequest(key="contract/slow", class_name=classes[0].name, pod_count=1)
    what = "provision in a cloud that does not answer"
    verdict = _ended(lambda: world.client.provision(request), None, what)
    demand(verdict is None or not verdict.accepted, f"{what} accepted the request")


@check(Promise.DEADLINES, touches=Touch.OWN_CLOUD, capability=Capability.DIAGNOSIS)
def a_diagnosis_ends_by_itself(world: ContractWorld) -> None:
    """A diagnosis of a cloud that does not answer for an hour ends before its deadline: with findings, or an error."""
    refresh(world)
    world.slow(_HUNG_SECONDS)
    _ended(world.client.diagnose, None, "diagnose in a cloud that does not answer")


def _demand_ended(call: Callable[[], object], what: str) -> None:
    """Raise BrokenPromise unless the provider itself gives up, with an error of nodewright, before the core abandons it."""
    _demand_own_end(refusal(call, what), what)


def _ended(call: Callable[[], T], refused: T, what: str) -> T:
    """Return the result of ``call``, or ``refused`` if it raises an error of nodewright.

    Raise BrokenPromise if the core abandoned the call, or if it raises another error.
    """

    def told() -> T:
        try:
            return call()
        except ProviderError as error:
            _demand_own_end(error, what)
            raise

    return unless_refused(told, refused, what)


def _demand_own_end(error: ProviderError, what: str) -> None:
    """Raise BrokenPromise if ``error`` says that the core abandoned the call."""
    cause: BaseException | None = error
    while isinstance(cause, ProviderError):
        abandoned = isinstance(cause, UnansweredCall)
        demand(not abandoned, f"{what} waited for the cloud until the core abandoned it: {error}")
        cause = cause.__context__
