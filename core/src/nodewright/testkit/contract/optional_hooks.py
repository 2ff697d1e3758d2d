"""Checks of hooks that few providers have: classes of ProvisioningRequests, notices of interruptions, and the diagnosis."""

from nodewright.model.capability import Capability
from nodewright.model.errors import ProviderError
from nodewright.spec.hooks import CloudProvisioningRequest, ProvisioningVerdict
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, unless_refused
from nodewright.testkit.contract.situations import demand_alive, demand_target, ids, refresh, some_machine, target
from nodewright.testkit.contract.world import CannotSteer, ContractWorld, Touch

_NO_CLASS = "no-such-class.of-the-contract-suite"
_REPETITIONS = 2


@check(Promise.PROVISIONING, capability=Capability.PROVISIONING_CLASSES)
def provisioning_classes_have_names(world: ContractWorld) -> None:
    """Classes of ProvisioningRequests have unique, non-empty names."""
    names = _class_names(world)
    demand(all(names) and len(set(names)) == len(names), f"provisioning_classes names {names}")


@check(Promise.PROVISIONING, touches=Touch.REFUSED, capability=Capability.PROVISIONING_CLASSES)
def unknown_provisioning_classes_are_refused(world: ContractWorld) -> None:
    """A request of a class that the provider does not list is not accepted."""
    refresh(world)
    request = CloudProvisioningRequest(key="contract/suite", class_name=_NO_CLASS, pod_count=1)
    verdict = _provision(world, request)
    demand(verdict is not None and not verdict.accepted, f"provision accepted the unknown class {_NO_CLASS}")


@check(Promise.PROVISIONING, touches=Touch.OWN_CLOUD, capability=Capability.PROVISIONING_CLASSES)
def provision_under_one_key_makes_nothing_twice(world: ContractWorld) -> None:
    """Further calls with the same key, also after a refresh, create no more machines than the first call."""
    names = _class_names(world)
    if not names:
        raise CannotSteer("the provider lists no class of ProvisioningRequests")
    for name in names:
        request = CloudProvisioningRequest(key=f"contract/{name}", class_name=name, pod_count=1)
        refresh(world)
        before = _asked_for(world)
        _provision(world, request)
        refresh(world)
        once = _asked_for(world)
        for _ in range(_REPETITIONS):
            _provision(world, request)
        refresh(world)
        extra = _asked_for(world) - once
        demand(
            not extra, f"provision with one key created {once - before} machines, and {extra} more when called again"
        )


def _class_names(world: ContractWorld) -> list[str]:
    return [served.name for served in world.client.provisioning_classes() or ()]


def _provision(world: ContractWorld, request: CloudProvisioningRequest) -> ProvisioningVerdict | None:
    no = ProvisioningVerdict(accepted=False, reason="Refused")
    return unless_refused(lambda: world.client.provision(request), no, f"provision of class {request.class_name}")


def _asked_for(world: ContractWorld) -> int:
    """Return the sum of the targets of all groups, because a request may use any group."""
    return sum(world.client.target_size(listed.id) for listed in world.client.node_groups())


_LONG_SECONDS = 1.0


@check(Promise.INTERRUPTIONS, capability=Capability.INTERRUPTION)
def notices_are_told_of_machines_that_exist(world: ContractWorld) -> None:
    """Notices have unique ids, and each names a machine; without an interruption no notice is about the group's machines."""
    refresh(world)
    some_machine(world)
    told = {notice.instance_id for notice in world.client.interruptions() or ()} & ids(world)
    demand(not told, f"interruptions tells of {', '.join(sorted(told))}, which nothing interrupts")


@check(Promise.INTERRUPTIONS, touches=Touch.OWN_CLOUD, capability=Capability.INTERRUPTION)
def a_notice_names_its_machine_until_it_is_gone(world: ContractWorld) -> None:
    """A notice has the machine's id in ``instances``, and is reported under one id in every refresh until the machine is gone."""
    refresh(world)
    interrupted = world.interrupt(world.group_id)
    rounds = []
    for _ in range(2):
        refresh(world)
        told = [notice for notice in world.client.interruptions() or () if notice.instance_id == interrupted]
        demand(bool(told), f"interruptions does not tell of {interrupted}, of which the cloud gave notice")
        demand(interrupted in ids(world), f"instances does not list {interrupted}, which runs until its deadline")
        rounds.append(sorted(notice.id for notice in told))
    first, second = rounds
    demand(first == second, f"interruptions tells of {interrupted} as {first}, and after the next refresh as {second}")
    expected = world.client.target_size(world.group_id)
    world.client.delete_instances(world.group_id, [interrupted], expected)
    world.pass_time(3600.0)
    refresh(world)
    left = [notice.id for notice in world.client.interruptions() or () if notice.instance_id == interrupted]
    demand(not left, f"interruptions still tells of {interrupted}, which is gone")


@check(Promise.INTERRUPTIONS, touches=Touch.OWN_CLOUD, capability=Capability.INTERRUPTION)
def waiting_ends_when_a_notice_comes(world: ContractWorld) -> None:
    """A provider that can wait for notices returns True once for a new notice, and False without one."""
    refresh(world)
    idle = world.client.await_interruption(_LONG_SECONDS)
    demand(not idle, "await_interruption returned True although the cloud gave no notice")
    world.interrupt(world.group_id)
    came = world.client.await_interruption(_LONG_SECONDS)
    demand(came is not False, "await_interruption returned False although the cloud had given notice")
    again = world.client.await_interruption(_LONG_SECONDS)
    demand(not again, "await_interruption returned True twice for one notice")


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
