"""The plugin object: serves the provider contract from the fake cloud."""

from collections.abc import Sequence

from msgspec.structs import replace

from nodewright import spec
from nodewright.spec import Capability, ConfigError, hookimpl
from nodewright_fake.cloud import FakeCloud
from nodewright_fake.diagnosis import CallCount, find
from nodewright_fake.machines import GroupView, template_of, view_of
from nodewright_fake.options import load_options


class FakeProvider:
    """Serves reads from the views that the last ``refresh`` took. Writes go to the cloud at once.

    Without ``cloud`` it builds one from the context's options.
    """

    def __init__(self, context: spec.ProviderContext, cloud: FakeCloud | None = None) -> None:
        if context.auto_discovery_specs:
            raise ConfigError("--node-group-auto-discovery: the fake provider discovers no groups")
        if cloud is None:
            options = load_options(context.options, context.node_group_specs)
            cloud = FakeCloud(options, context.clock, context.random)
        self.cloud = cloud
        self._clock = context.clock
        self._notices: tuple[spec.Interruption, ...] = ()
        self._notices_told = 0
        self._calls = CallCount(context.clock)
        self._views: dict[str, GroupView] = {}
        self._read_at: dict[str, float] = {}

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        options = self.cloud.options
        return spec.ProviderInfo(
            name="fake",
            spec_version=(1, 0),
            capabilities=frozenset(Capability) - frozenset(options.switched_off),
            parallel_calls=options.parallel_calls,
            ignores_id_case=options.ignores_id_case,
            settles_after=float(options.settles_after),
        )

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        with self._calls.counted("refresh"), self.cloud.faults.around("refresh"):
            now, interval = self._clock.now(), self.cloud.options.refresh_interval
            fresh: dict[str, GroupView] = {}
            for name in self.cloud.group_names():
                seen = self._views.get(name)
                keeps = name not in wanted and now - self._read_at.get(name, float("-inf")) < interval
                if seen is None or not keeps:
                    seen = self.cloud.old_reads.apply(self.cloud.view(name), now)
                    self._read_at[name] = now
                fresh[name] = seen
            self._views = fresh
            self._notices = self.cloud.interruptions()
        return True

    @hookimpl
    def node_groups(self) -> Sequence[spec.NodeGroup]:
        with self.cloud.faults.around("node_groups"):
            return [view.group for view in self._views.values()]

    @hookimpl
    def target_size(self, group_id: str) -> int:
        with self.cloud.faults.around("target_size", group_id):
            return max(0, self._view(group_id).target + self.cloud.faults.size_error(group_id))

    @hookimpl
    def instances(self, group_id: str) -> Sequence[spec.Instance]:
        with self.cloud.faults.around("instances", group_id):
            return self._view(group_id).instances

    @hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        with self.cloud.faults.around("template_node", group_id):
            return self._view(group_id).template

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._calls.counted("increase_size"), self.cloud.faults.around("increase_size", group_id):
            allowed = self.cloud.faults.at_most("increase_size", group_id, target - expected_target)
            accepted = self.cloud.increase(group_id, expected_target, expected_target + allowed)
            self._look_again(group_id)
        return accepted

    @hookimpl
    def atomic_increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._calls.counted("atomic_increase_size"), self.cloud.faults.around("atomic_increase_size", group_id):
            accepted = self.cloud.increase(group_id, expected_target, target, atomic=True)
            self._look_again(group_id)
        return accepted

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._calls.counted("decrease_target_size"), self.cloud.faults.around("decrease_target_size", group_id):
            allowed = self.cloud.faults.at_most("decrease_target_size", group_id, expected_target - target)
            accepted = self.cloud.decrease(group_id, expected_target, expected_target - allowed)
            self._look_again(group_id)
        return accepted

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with self._calls.counted("delete_instances"), self.cloud.faults.around("delete_instances", group_id):
            allowed = self.cloud.faults.at_most("delete_instances", group_id, len(instance_ids))
            accepted = self.cloud.delete(group_id, instance_ids[:allowed], expected_target)
            self._look_again(group_id)
        return accepted

    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with (
            self._calls.counted("force_delete_instances"),
            self.cloud.faults.around("force_delete_instances", group_id),
        ):
            accepted = self.cloud.delete(group_id, instance_ids, expected_target, force=True)
            self._look_again(group_id)
        return accepted

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[spec.FailedInstance]:
        with self.cloud.faults.around("failed_instances", group_id):
            return self._view(group_id).failures

    @hookimpl
    def group_options(self, group_id: str, defaults: spec.GroupOptions) -> spec.GroupOptions:
        with self.cloud.faults.around("group_options", group_id):
            own = self._view(group_id).config.behaviour
        changes = {
            "max_node_provision_seconds": own.max_node_provision,
            "max_node_startup_seconds": own.max_node_startup,
            "zero_or_max_node_scaling": own.zero_or_max,
        }
        return replace(defaults, **{name: value for name, value in changes.items() if value is not None})

    @hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        with self.cloud.faults.around("node_price", group_id):
            return self._view(group_id).config.price

    @hookimpl
    def machine_types(self) -> Sequence[spec.MachineType]:
        with self.cloud.faults.around("machine_types"):
            return [
                spec.MachineType(
                    name=kind.name,
                    template=template_of(kind, zone=kind.zone, instance_type=kind.name),
                    price=kind.price,
                )
                for kind in self.cloud.options.machine_types
            ]

    @hookimpl
    def create_node_group(self, spec: spec.NewNodeGroup) -> spec.NodeGroup:
        with self._calls.counted("create_node_group"), self.cloud.faults.around("create_node_group", spec.group_id):
            view = view_of(self.cloud.provide_group(spec))
            self._views[spec.group_id] = view
        return view.group

    @hookimpl
    def delete_node_group(self, group_id: str) -> bool:
        with self._calls.counted("delete_node_group"), self.cloud.faults.around("delete_node_group", group_id):
            gone = self.cloud.remove_empty_group(group_id)
            if gone:
                self._views.pop(group_id, None)
        return gone

    @hookimpl
    def gpu_label(self) -> str:
        return self.cloud.options.gpu.label

    @hookimpl
    def gpu_types(self) -> Sequence[str]:
        return self.cloud.options.gpu.types

    @hookimpl
    def gpu_resources(self) -> Sequence[str]:
        return self.cloud.options.gpu.resources

    @hookimpl
    def ignored_labels(self) -> Sequence[str]:
        return self.cloud.options.similarity.ignored_labels

    @hookimpl
    def same_group_labels(self) -> Sequence[str]:
        return self.cloud.options.similarity.same_group_labels

    @hookimpl
    def provisioning_classes(self) -> Sequence[spec.CloudProvisioningClass]:
        return [
            spec.CloudProvisioningClass(name=served.name, description=served.description)
            for served in self.cloud.options.provisioning_classes
        ]

    @hookimpl
    def provision(self, request: spec.CloudProvisioningRequest) -> spec.ProvisioningVerdict:
        with self.cloud.faults.around("provision"):
            classes = {served.name: served for served in self.cloud.options.provisioning_classes}
            served, pods = classes.get(request.class_name), request.pod_count
            if served is None:
                return spec.ProvisioningVerdict(accepted=False, reason="UnknownClass", message=request.class_name)
            if pods > served.max_pods:
                why = f"{pods} pods are more than {served.max_pods}"
                return spec.ProvisioningVerdict(accepted=False, reason="TooLarge", message=why)
            running = self.cloud.serve(request.key, served.group, pods) if served.group else pods
            reason = "Provisioned" if running == pods else "InProgress"
            return spec.ProvisioningVerdict(accepted=running == pods, reason=reason, message=f"{running} of {pods} run")

    @hookimpl
    def interruptions(self) -> Sequence[spec.Interruption]:
        with self.cloud.faults.around("interruptions"):
            return self._notices

    @hookimpl
    def await_interruption(self, timeout: float) -> bool:
        end = self._clock.now() + timeout
        while (given := self.cloud.notices_given()) <= self._notices_told:
            left = end - self._clock.now()
            if left <= 0:
                return False
            self._clock.sleep(min(1.0, left))
        self._notices_told = given
        return True

    @hookimpl
    def diagnose(self) -> Sequence[spec.Finding]:
        with self.cloud.faults.around("diagnose"):
            return tuple(find(self.cloud))

    @hookimpl
    def minimal_policy(self) -> str:
        return "no permissions needed: this cloud exists in memory only"

    @hookimpl
    def api_calls(self) -> Sequence[spec.ApiCalls]:
        return self._calls.made()

    @hookimpl
    def running_machines(self) -> Sequence[spec.NodeStart]:
        return self.cloud.running_machines()

    @hookimpl
    def next_change(self) -> float:
        return min(self.cloud.next_change(), self.cloud.old_reads.next_change(self._clock.now()))

    def _view(self, group_id: str) -> GroupView:
        try:
            return self._views[group_id]
        except KeyError:
            raise spec.NodeGroupNotFound(f"the fake cloud has no group {group_id}", group_id=group_id) from None

    def _look_again(self, group_id: str) -> None:
        """Read the group again, so that reads show our own write at once."""
        self._views[group_id] = self.cloud.view(group_id)
        if self.cloud.options.settles_after:
            self.cloud.old_reads.note(self._views[group_id], self._clock.now())
