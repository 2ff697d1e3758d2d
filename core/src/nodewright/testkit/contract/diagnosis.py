"""Checks of the diagnosis: it changes nothing, and API calls are counted."""

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand
from nodewright.testkit.contract.situations import demand_alive, demand_target, refresh, target
from nodewright.testkit.contract.world import ContractWorld, Touch

_DIAGNOSIS = Capability.DIAGNOSIS


@check(Promise.DIAGNOSIS, capability=_DIAGNOSIS)
def diagnosis_changes_nothing(world: ContractWorld) -> None:
    """A diagnosis changes no target and ends no machine."""
    refresh(world)
    before, alive = target(world), world.machines(world.group_id)
    world.client.diagnose()
    demand_target(world, before, "diagnose")
    demand_alive(world, alive, "diagnose")


@check(Promise.DIAGNOSIS, capability=_DIAGNOSIS)
def findings_say_what_and_how(world: ContractWorld) -> None:
    """Every finding has a subject and a message, and names only groups that node_groups lists."""
    refresh(world)
    groups = {listed.id for listed in world.client.node_groups()}
    found = world.client.diagnose() or ()
    demand(bool(found), "diagnose returned no finding")
    for finding in found:
        demand(bool(finding.subject and finding.message), f"a finding lacks its subject or message: {finding!r}")
        strange = finding.group_id not in groups and finding.group_id != ""
        demand(not strange, f"a finding names {finding.group_id}, which node_groups does not list")


@check(Promise.DIAGNOSIS, capability=_DIAGNOSIS)
def minimal_policy_is_told(world: ContractWorld) -> None:
    """minimal_policy returns the needed permissions without a call to the cloud."""
    before = _total(world)
    demand(bool(world.client.minimal_policy()), "minimal_policy is empty")
    demand(_total(world) == before, "minimal_policy called the cloud")


@check(Promise.DIAGNOSIS, touches=Touch.REFUSED, capability=_DIAGNOSIS)
def calls_are_counted(world: ContractWorld) -> None:
    """api_calls counts refreshes and refused writes; reads between them make no call."""
    refresh(world)
    first = _total(world)
    demand(first > 0, "api_calls counts nothing after a refresh")
    target(world)
    world.client.instances(world.group_id)
    demand(_total(world) == first, "a read between refreshes called the cloud")
    try:
        world.client.increase_size(world.group_id, target(world) + 1, target(world) + 2)
    except ProviderError:
        demand(_total(world) > first, "a refused increase_size was not counted")


def _total(world: ContractWorld) -> int:
    return sum(made.calls for made in world.client.api_calls() or ())
