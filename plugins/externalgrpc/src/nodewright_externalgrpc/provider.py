"""The plugin object: serves the provider contract from a server of the externalgrpc protocol."""

from collections.abc import Mapping, Sequence
from typing import Any

from nodewright import spec
from nodewright.spec import Capability, InstanceState, ProviderError, TargetChanged, hookimpl
from nodewright.spec.cache import attempt_each, unwrap
from nodewright.spec.meter import EXAMINED_WITHIN
from nodewright_externalgrpc.channel import Channel
from nodewright_externalgrpc.doctor import POLICY, examine
from nodewright_externalgrpc.options import load_options
from nodewright_externalgrpc.traits import Traits
from nodewright_externalgrpc.view import FailureNames, View, read_failures, read_instances
from nodewright_externalgrpc.wire import ACCEPTED, DELETING, EXPECTED, WANTED, messages

_NEEDS = {"NodeGroupGetOptions": Capability.GROUP_OPTIONS, "PricingNodePrice": Capability.PRICING}


class ExternalGrpcProvider:
    """Serves reads from the views that the last ``refresh``, or our own last write, took."""

    def __init__(self, context: spec.ProviderContext) -> None:
        self._options = load_options(context)
        self._channel = Channel(self._options, context.clock)
        self._names = FailureNames()
        self._views: dict[str, View | ProviderError] = {}
        self._groups: dict[str, tuple[int, int]] = {}
        self._gpu: tuple[str, tuple[str, ...]] | None = None
        seconds = float(self._options.template_interval)
        self._traits = Traits(self._channel, context.clock, context.random, seconds)

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        able = {Capability.GROUP_OPTIONS, Capability.PRICING, Capability.DIAGNOSIS}
        if self._options.detect_failures:
            able.add(Capability.FAST_FAILURE_DETECTION)
        if self._options.gpu_resources:
            able.add(Capability.GPU)
        return spec.ProviderInfo(name="externalgrpc", spec_version=(1, 0), capabilities=frozenset(able))

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        self._channel.write("Refresh", {WANTED: sorted(wanted)})
        listed = self._channel.read("NodeGroups").nodeGroups
        self._groups = {group.id: (group.minSize, group.maxSize) for group in listed if group.id}
        views = attempt_each(self._read, self._groups, self._options.parallel_calls)
        self._views = dict(zip(self._groups, views, strict=True))
        self._traits.load_missing(self._groups)
        return True

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        return [
            spec.NodeGroup(id=name, min_size=least, max_size=most, switched_off=self._switched_off(name))
            for name, (least, most) in self._groups.items()
        ]

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._view(group_id).target

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        return self._view(group_id).instances

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        return self._view(group_id).failures

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        self._demand_known(group_id)
        return self._traits.template(group_id)

    @hookimpl
    def group_options(self, group_id: str, defaults: spec.GroupOptions) -> spec.GroupOptions:
        self._demand_known(group_id)
        return self._traits.options(group_id, defaults)

    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        self._demand_known(group_id)
        return self._traits.price(group_id)

    @hookimpl
    def gpu_label(self) -> str:
        return self._read_gpu()[0]

    @hookimpl
    def gpu_types(self) -> Sequence[str]:
        return self._read_gpu()[1]

    @hookimpl
    def gpu_resources(self) -> Sequence[str]:
        return self._options.gpu_resources

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._demand_target(group_id, expected_target)
        most = self._groups[group_id][1]
        if target > most:
            raise ProviderError(f"{target} is above the maximum of {most}", code="aboveMaximum")
        return self._resize("NodeGroupIncreaseSize", group_id, expected_target, target)

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        self._demand_target(group_id, expected_target)
        there = [one for one in read_instances(self._list_nodes(group_id)) if one.state != InstanceState.DELETING]
        lowest = max(target, len(there))
        if lowest >= expected_target:
            return 0
        return self._resize("NodeGroupDecreaseTargetSize", group_id, expected_target, lowest)

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        self._demand_target(group_id, expected_target)
        there = {one.id for one in self._list_nodes(group_id) if one.status.instanceState != DELETING}
        known = [name for name in instance_ids if name in there]
        if not known:
            return ()
        nodes = [messages.ExternalGrpcNode(providerID=name) for name in known]
        answer = self._channel.write("NodeGroupDeleteNodes", {EXPECTED: expected_target}, id=group_id, nodes=nodes)
        told = answer.trailing.get(ACCEPTED)
        self._names.forget(group_id, known)
        self._look_again(group_id)
        return [name for name in known if not isinstance(told, list) or name in told]

    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        with self._channel.meter.within(EXAMINED_WITHIN):
            return tuple(examine(self._channel, {name: self._traits.lacks(name) for name in self._groups}))

    @hookimpl
    def minimal_policy(self) -> str:
        return POLICY

    @hookimpl
    def api_calls(self) -> Sequence[spec.ApiCalls]:
        return self._channel.meter.made()

    def _read_gpu(self) -> tuple[str, tuple[str, ...]]:
        """Return GPU label and types. They are read once and never again, as in cluster-autoscaler."""
        if self._gpu is None:
            label = self._channel.read("GPULabel").label
            if not label:
                raise ProviderError(f"{self._channel.address} returns no GPU label", code="noGpuLabel")
            self._gpu = (label, tuple(sorted(self._channel.read("GetAvailableGPUTypes").gpuTypes)))
        return self._gpu

    def _read(self, group_id: str) -> View:
        target = self._channel.read("NodeGroupTargetSize", id=group_id).targetSize
        listed = self._list_nodes(group_id)
        return View(
            target=target,
            instances=read_instances(listed),
            failures=read_failures(group_id, listed, self._names),
        )

    def _list_nodes(self, group_id: str) -> Sequence[Any]:
        listed: Sequence[Any] = self._channel.read("NodeGroupNodes", id=group_id).instances
        return listed

    def _resize(self, method: str, group_id: str, expected_target: int, target: int) -> int:
        """Resize the group and return how many machines were accepted.

        A nodewright server reports the number; for another server it follows from the target read afterwards.
        """
        delta = target - expected_target
        answer = self._channel.write(method, {EXPECTED: expected_target}, id=group_id, delta=delta)
        self._look_again(group_id)
        told = answer.trailing.get(ACCEPTED)
        if isinstance(told, int):
            return told
        moved = self._view(group_id).target - expected_target
        return max(0, min(abs(delta), moved if delta > 0 else -moved))

    def _look_again(self, group_id: str) -> None:
        """Read the group again, so that reads show our own write at once."""
        self._views[group_id] = self._read(group_id)

    def _demand_target(self, group_id: str, expected: int) -> None:
        """Raise TargetChanged if the target is not ``expected``.

        The protocol has no conditional writes, so the target is read right before the write. A nodewright server also
        checks the condition itself.
        """
        self._demand_known(group_id)
        actual = self._channel.read("NodeGroupTargetSize", id=group_id).targetSize
        if actual != expected:
            raise TargetChanged(actual=actual)

    def _demand_known(self, group_id: str) -> None:
        if group_id not in self._groups:
            raise spec.NodeGroupNotFound(f"{self._channel.address} serves no group {group_id}", group_id=group_id)

    def _view(self, group_id: str) -> View:
        self._demand_known(group_id)
        return unwrap(self._views[group_id])

    def _switched_off(self, group_id: str) -> Mapping[Capability, str]:
        lacking = [method for method in self._traits.lacks(group_id) if method in _NEEDS]
        return {_NEEDS[method]: f"the server does not offer {method}" for method in lacking}
