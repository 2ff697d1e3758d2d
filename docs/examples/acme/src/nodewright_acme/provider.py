"""Acme Cloud node groups: one pool is one node group."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from nodewright import spec
from nodewright_acme import sdk

_ERRORS: dict[str, type[spec.ProviderError]] = {
    "SOLD_OUT": spec.OutOfCapacity,
    "QUOTA": spec.QuotaExceeded,
    "TOO_MANY_CALLS": spec.Throttled,
    "LOCKED": spec.OperationInProgress,
    "FORBIDDEN": spec.AccessDenied,
    "UNAVAILABLE": spec.ProviderUnavailable,
    "TIMEOUT": spec.ProviderUnavailable,
    "NO_SUCH_POOL": spec.NodeGroupNotFound,
}
_CLASSES = {"SOLD_OUT": spec.ErrorClass.OUT_OF_RESOURCES, "QUOTA": spec.ErrorClass.QUOTA}
_STATES = {"creating": spec.InstanceState.CREATING, "deleting": spec.InstanceState.DELETING}


class Options(msgspec.Struct, forbid_unknown_fields=True):
    endpoint: str = "https://api.acme.example"
    cluster: str = "default"
    timeout_seconds: float = 15.0


class AcmeProvider:
    """Answers reads from the pools as of the last refresh or our own last write."""

    def __init__(self, context: spec.ProviderContext) -> None:
        options = spec.decode_options(context.options, Options, "options of provider acme")
        self._api = sdk.Client(options.endpoint, options.timeout_seconds)
        self._cluster = options.cluster
        self._flags = {flag.name: flag for flag in map(spec.parse_node_group_flag, context.node_group_specs)}
        self._pools: dict[str, sdk.Pool] = {}

    @spec.hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        can = {spec.Capability.FAST_FAILURE_DETECTION, spec.Capability.PRICING, spec.Capability.INTERRUPTION}
        return spec.ProviderInfo(
            name="acme",
            spec_version=(1, 0),
            capabilities=frozenset(can),
            settles_after=5.0,  # a list may be so late
        )

    @spec.hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        del wanted  # nothing is kept from one refresh to the next
        with _translated():
            pools = {pool.id: pool for pool in self._api.list_pools(self._cluster)}
            for pool in pools.values():
                pool.vms = self._read_vms(pool.id)
        self._pools = pools  # only now: after a failed read the old state stays
        return True

    @spec.hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        listed = [pool for pool in self._pools.values() if pool.id in self._flags or not self._flags]
        return [spec.NodeGroup(id=pool.id, min_size=self._min(pool), max_size=self._max(pool)) for pool in listed]

    @spec.hookimpl
    def target_size(self, group_id: str) -> int:
        return self._pool(group_id).desired

    @spec.hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        there = [vm for vm in self._pool(group_id).vms if not vm.error]
        return [spec.Instance(id=vm.uri, state=_STATES.get(vm.state, spec.InstanceState.RUNNING)) for vm in there]

    @spec.hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        pool = self._pool(group_id)
        failed = [(vm.uri, vm.uri, vm.error) for vm in pool.vms if vm.error]
        without_vm = [(name, None, code) for name, code in pool.failures.items()]
        return [
            spec.FailedInstance(
                failure_id=name, instance_id=vm, code=code, error_class=_CLASSES.get(code, spec.ErrorClass.OTHER)
            )
            for name, vm, code in (*failed, *without_vm)
        ]

    @spec.hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        pool = self._pool(group_id)
        offered = {"cpu": str(pool.vcpus), "memory": pool.memory, "pods": "110"}
        amounts = {name: spec.Quantity.of(amount) for name, amount in offered.items()}
        return spec.NodeTemplate(allocatable=amounts, labels=pool.labels)

    @spec.hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return spec.Price(per_hour=self._pool(group_id).price, source="the Acme Cloud price list")

    @spec.hookimpl
    def interruptions(self) -> Sequence[spec.Interruption]:
        doomed = [vm for pool in self._pools.values() for vm in pool.vms if vm.taken_at is not None]
        kind = spec.InterruptionKind.RECLAIM
        return [spec.Interruption(id=vm.uri, instance_id=vm.uri, kind=kind, deadline=vm.taken_at) for vm in doomed]

    @spec.hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        pool = self._pool(group_id)
        if target > self._max(pool):
            raise spec.ProviderError(f"{group_id} may have {self._max(pool)} machines at most", code="aboveMaximum")
        with _translated():
            self._api.grow(group_id, if_desired=expected_target, desired=target)
        pool.desired = target
        return target - expected_target

    @spec.hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        pool = self._pool(group_id)
        with _translated():
            pool.desired = self._api.withdraw(group_id, if_desired=expected_target, desired=target)
        return expected_target - pool.desired

    @spec.hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        pool = self._pool(group_id)
        with _translated():
            deleted = self._api.delete(group_id, expected_target, instance_ids)
        pool.vms = [vm for vm in pool.vms if vm.uri not in deleted]
        pool.failures = {name: code for name, code in pool.failures.items() if name not in deleted}
        pool.desired = expected_target - len(deleted)
        return deleted

    def _read_vms(self, pool_id: str) -> list[sdk.Vm]:
        vms, page = self._api.list_vms(pool_id)
        while page is not None:
            more, page = self._api.list_vms(pool_id, page)
            vms += more
        return vms

    def _min(self, pool: sdk.Pool) -> int:
        return self._flags[pool.id].min_size if pool.id in self._flags else 0

    def _max(self, pool: sdk.Pool) -> int:
        return min(pool.max, self._flags[pool.id].max_size) if pool.id in self._flags else pool.max

    def _pool(self, group_id: str) -> sdk.Pool:
        if group_id not in self._pools:
            raise spec.NodeGroupNotFound(f"Acme Cloud has no pool {group_id}")
        return self._pools[group_id]


@contextmanager
def _translated() -> Iterator[None]:
    """Translate each error of the SDK into an error of nodewright."""
    try:
        yield
    except sdk.ApiError as error:
        if error.code == "CONFLICT":
            raise spec.TargetChanged(actual=error.desired) from error
        kind = _ERRORS.get(error.code, spec.ProviderError)
        raise kind(str(error), code=error.code) from error
