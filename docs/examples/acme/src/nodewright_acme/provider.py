"""Acme Cloud node groups: one pool is one node group."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from nodewright import spec
from nodewright_acme import sdk


class Options(msgspec.Struct, forbid_unknown_fields=True):
    endpoint: str = "https://api.acme.example"


class AcmeProvider:
    """Answers reads from the pools that the last refresh, or our own last write, brought."""

    def __init__(self, context: spec.ProviderContext) -> None:
        options = spec.decode_options(context.options, Options, "options of provider acme")
        self._api = sdk.Client(options.endpoint)
        self._pools: dict[str, sdk.Pool] = {}

    @spec.hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        capabilities = frozenset({spec.Capability.FAST_FAILURE_DETECTION})
        return spec.ProviderInfo(name="acme", spec_version=(1, 0), capabilities=capabilities)

    @spec.hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        del wanted  # nothing is kept from one refresh to the next
        self._pools = {pool.id: pool for pool in self._api.pools()}
        return True

    @spec.hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [spec.NodeGroup(id=pool.id, min_size=0, max_size=pool.max) for pool in self._pools.values()]

    @spec.hookimpl
    def target_size(self, group_id: str) -> int:
        return self._pool(group_id).desired

    @spec.hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        there = [vm for vm in self._pool(group_id).vms if not vm.error]
        return [spec.Instance(id=vm.uri, state=spec.InstanceState(vm.state)) for vm in there]

    @spec.hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        failed = [vm for vm in self._pool(group_id).vms if vm.error]
        return [spec.FailedInstance(failure_id=vm.uri, instance_id=vm.uri, code=vm.error) for vm in failed]

    @spec.hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        pool = self._pool(group_id)
        offered = {"cpu": str(pool.vcpus), "memory": pool.memory, "pods": "110"}
        return spec.NodeTemplate(allocatable={name: spec.Quantity.of(amount) for name, amount in offered.items()})

    @spec.hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _translated(group_id):
            self._pools[group_id] = self._api.grow(group_id, if_desired=expected_target, desired=target)
        return self._pools[group_id].desired - expected_target

    @spec.hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        with _translated(group_id):
            self._pools[group_id] = self._api.withdraw(group_id, if_desired=expected_target, desired=target)
        return expected_target - self._pools[group_id].desired

    @spec.hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with _translated(group_id):
            self._pools[group_id], deleted = self._api.delete(group_id, expected_target, list(instance_ids))
        return deleted

    def _pool(self, group_id: str) -> sdk.Pool:
        if group_id not in self._pools:
            raise spec.NodeGroupNotFound(f"Acme Cloud has no pool {group_id}")
        return self._pools[group_id]


@contextmanager
def _translated(group_id: str) -> Iterator[None]:
    """Every error of the SDK becomes one of nodewright's tree, once."""
    try:
        yield
    except sdk.Conflict as error:
        raise spec.TargetChanged(actual=error.desired) from error
    except sdk.NoSuchPool as error:
        raise spec.NodeGroupNotFound(f"Acme Cloud has no pool {group_id}") from error
    except sdk.Refused as error:
        raise spec.ProviderError(str(error), code="refused") from error
