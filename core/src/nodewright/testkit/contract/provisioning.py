"""Checks of providers that provision classes of ProvisioningRequests themselves."""

from nodewright.model.capability import Capability
from nodewright.spec.hooks import CloudProvisioningRequest, ProvisioningVerdict
from nodewright.testkit.contract.promises import Promise
from nodewright.testkit.contract.registry import check, demand, unless_refused
from nodewright.testkit.contract.situations import refresh
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
