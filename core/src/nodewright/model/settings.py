"""Every setting, once: names, units and defaults. Flags, environment and files are all made from this tree.

Here are those on which decisions depend; process_settings.py has the others. A field's name with dashes is its flag, and
CA's flag where CA has one. Where a default differs from CA's, the docstring says why.
"""

from typing import Annotated, Literal

from msgspec import Meta

from nodewright.model.group import GroupOptions
from nodewright.model.process_settings import ClusterSettings, LeaderSettings, ProviderSettings, ServingSettings
from nodewright.model.settings_base import Count, Duration, Ratio, Section

SizeCorrection = Literal["prompt", "ca", "seed"]
Profile = Literal["nodewright", "ca"]
Hedging = Literal["auto", "on", "off"]
ORDINARY_PROVISION_SECONDS = 900.0
# For so long CA holds the room of a provisioned request.
_LEAST_RESERVATION_SECONDS = 600.0


class LoopSettings(Section, frozen=True, kw_only=True):
    """How often the loop runs and when the cluster is too broken to act on.

    ``profile`` "ca" switches off everything that departs from CA: for comparison and migration.
    ``frequent_loops_enabled`` runs a loop when kube-scheduler finds no place for a pod, without waiting for the scan
    interval. That loop first waits until no new pending pod came for ``batch_idle_duration``, at most for
    ``batch_max_duration`` after the first: one decision over all of them buys fewer nodes with fewer calls. Both are
    Karpenter's; profile "ca" starts at once, as CA does.

    While more nodes are unready than both ``ok_total_unready_count`` and ``max_total_unready_percentage`` allow, nothing
    is planned. After ``max_unhealthy_duration`` planning goes on without the groups at fault, if few nodes of the others
    are unready; profile "ca" waits without an end, as CA does.
    """

    profile: Profile = "nodewright"
    scan_interval: Duration = 10.0
    frequent_loops_enabled: bool = True
    batch_idle_duration: Duration = 1.0
    batch_max_duration: Duration = 10.0
    ok_total_unready_count: Count = 3
    max_total_unready_percentage: Annotated[float, Meta(ge=0, le=100)] = 45.0
    max_unhealthy_duration: Duration = 1200.0
    scale_up_from_zero: bool = True


class PodSettings(Section, frozen=True, kw_only=True):
    """Which pods count as pending."""

    expendable_pods_priority_cutoff: int = -10
    new_pod_scale_up_delay: Duration = 0.0
    allowed_scheduler_names: tuple[str, ...] = ()
    bypassed_scheduler_names: tuple[str, ...] = ()


class TemplateSettings(Section, frozen=True, kw_only=True):
    """How the node that a group would add is imagined."""

    startup_taint: tuple[str, ...] = ()
    startup_taint_prefix: tuple[str, ...] = ()
    ignore_taint: tuple[str, ...] = ()
    status_taint: tuple[str, ...] = ()
    force_ds: bool = False
    scale_from_unschedulable: bool = False


class ScaleUpSettings(Section, frozen=True, kw_only=True):
    """How an expansion is estimated, chosen and spread.

    ``max_nodegroup_binpacking_duration`` is how long packing for one group may take before it adds no more nodes,
    ``max_binpacking_time`` after how long no further group is looked at once some group would help.

    ``parallel_scale_up`` goes on with the other groups of an expansion after one was refused; without it only
    profile "ca" stops there. ``salvo_scale_up`` plans expansions until no pod is left that one would help, or
    ``salvo_scale_up_budget`` is used up; of no budget of time 0 ever is.
    """

    expander: str = "least-waste"
    max_nodes_per_scaleup: Count = 1000
    max_nodegroup_binpacking_duration: Duration = 10.0
    max_binpacking_time: Duration = 300.0
    fastpath_binpacking_enabled: bool = False
    enforce_node_group_min_size: bool = False
    parallel_scale_up: bool = False
    salvo_scale_up: bool = False
    salvo_scale_up_budget: Duration = 60.0
    balance_similar_node_groups: bool = False
    balancing_ignore_label: tuple[str, ...] = ()
    balancing_label: tuple[str, ...] = ()
    max_allocatable_difference_ratio: Ratio = 0.05
    max_free_difference_ratio: Ratio = 0.05
    memory_difference_ratio: Ratio = 0.015


class ProvisioningSettings(Section, frozen=True, kw_only=True):
    """Requests for the capacity of groups of pods (docs/provisioning-requests.md).

    What was not found is looked for again after ``provisioning_request_initial_backoff_time``, twice as long with each
    failure, up to the maximum. ``check_capacity_processor_instance`` is the name under which this process serves requests.
    CA examines one request of a loop, or with ``check_capacity_batch_processing`` as many as fit in a batch; here as many
    are examined in every profile but "ca".

    Room of a provisioned request is held for ``provisioning_request_reservation_time`` or until its pods run. "auto" holds
    it for ``scale_down_unneeded_time``, as seed 004 says, and for ten minutes at least, as CA does; profile "ca" always for
    ten minutes. ``enable_provisioning_classes``: ProvisioningClass objects say which classes
    there are, for whom, and how much each namespace may hold; CA knows none.
    """

    enable_provisioning_requests: bool = False
    enable_provisioning_classes: bool = False
    provisioning_request_initial_backoff_time: Duration = 60.0
    provisioning_request_max_backoff_time: Duration = 600.0
    provisioning_request_reservation_time: Duration | Literal["auto"] = "auto"
    check_capacity_batch_processing: bool = False
    check_capacity_provisioning_request_max_batch_size: Count = 10
    check_capacity_processor_instance: str = ""


class BufferSettings(Section, frozen=True, kw_only=True):
    """Spare capacity for pods that are yet to come (docs/capacity-buffers.md).

    The controller says in the status of each CapacityBuffer how many pods of which shape it stands for; injection plans
    for these pods.
    """

    capacity_buffer_controller_enabled: bool = False
    capacity_buffer_pod_injection_enabled: bool = False

    @property
    def are_read(self) -> bool:
        """Does anything depend on them?"""
        return self.capacity_buffer_controller_enabled or self.capacity_buffer_pod_injection_enabled


class AutoprovisioningSettings(Section, frozen=True, kw_only=True):
    """Node groups made for pods that no group helps, and deleted when they are empty (docs/autoprovisioning.md). The
    flags are those that CA had as long as it had them.
    """

    node_autoprovisioning_enabled: bool = False
    max_autoprovisioned_node_group_count: Count = 15


class ScaleDownSettings(Section, frozen=True, kw_only=True):
    """Which nodes are not needed, for how long before they go, and how many at once (behaviour/down.md A0).

    ``balance_scale_down`` takes the node of the larger one of similar groups where CA would not care.
    ``max_pod_moves_per_hour`` (0: any number) is how often the pods of one controller may be moved by removals
    before removals that move them again wait. Both are off under profile "ca". ``scale_down_simulation_timeout`` is
    after how long no further node is looked at in a loop. ``max_scale_down_parallelism`` bounds removals under way;
    only under profile "ca" does it bound those of empty nodes too, which have a deletion budget of their own.
    """

    scale_down_enabled: bool = True
    scale_down_unneeded_time: Duration = 600.0
    scale_down_unready_time: Duration = 1200.0
    scale_down_unready_enabled: bool = True
    scale_down_utilization_threshold: Ratio = 0.5
    scale_down_gpu_utilization_threshold: Ratio = 0.5
    ignore_daemonsets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    scale_down_delay_after_add: Duration = 600.0
    scale_down_delay_after_delete: Duration = 0.0
    scale_down_delay_after_failure: Duration = 180.0
    scale_down_delay_type_local: bool = False
    unremovable_node_recheck_timeout: Duration = 300.0
    scale_down_simulation_timeout: Duration = 30.0
    max_scale_down_parallelism: Count = 10
    max_drain_parallelism: Count = 1
    max_bulk_soft_taint_count: Count = 10
    max_bulk_soft_taint_time: Duration = 3.0
    node_deletion_candidate_ttl: Duration = 0.0
    balance_scale_down: bool = False
    max_pod_moves_per_hour: Count = 6


class DrainSettings(Section, frozen=True, kw_only=True):
    """Which pods may be moved, and how a node is emptied and deleted (behaviour/down.md A7, A12 to A15)."""

    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: Count = 0
    blocking_system_pod_distruption_timeout: Duration = 3600.0
    max_graceful_termination_sec: Count = 600
    drain_priority_config: str = ""
    max_pod_eviction_time: Duration = 120.0
    daemonset_eviction_for_empty_nodes: bool = False
    daemonset_eviction_for_occupied_nodes: bool = True
    cordon_node_before_terminating: bool = True
    node_delete_delay_after_taint: Duration = 5.0
    node_deletion_delay_timeout: Duration = 120.0
    node_deletion_batcher_interval: Duration = 0.0


class LimitSettings(Section, frozen=True, kw_only=True):
    """What the whole cluster may grow to. Totals are CA's ``min:max``; memory counts GiB. ``capacity_quotas_enabled``
    limits kinds of nodes besides, as CapacityQuota objects say (docs/capacity-quotas.md).
    """

    max_nodes_total: Count = 0
    cores_total: str = "0:320000"
    memory_total: str = "0:6400000"
    gpu_total: tuple[str, ...] = ()
    capacity_quotas_enabled: bool = False


class FailureSettings(Section, frozen=True, kw_only=True):
    """How long a group may take, what follows when it takes longer, and how long it is left alone then.

    ``size_correction``: "prompt" withdraws what is overdue in the loop of its timeout; "ca" and "seed" are the rules
    of today's and of an older CA (docs/adr/0006-size-correction.md). ``max_node_provision_time`` "auto" learns each
    group's own from its arrivals, within the two bounds; ``probe_after_backoff`` asks little of a group that failed
    until it delivers (docs/adr/0008-probation-and-learned-time.md).

    ``hedging`` has pods that wait for a silent group planned on another one too (docs/adr/0022-hedging.md): "auto" where
    provision times are learned. A group of which nothing is known is silent after ``hedging_delay``.
    ``max_hedged_nodes`` is how many machines may be bought twice at a time: a number, or a share of the cluster's nodes
    (``10%``) that stands for 2 at least; 0: none.
    """

    size_correction: SizeCorrection = "prompt"
    probe_after_backoff: bool = True
    max_node_provision_time: Duration | Literal["auto"] = ORDINARY_PROVISION_SECONDS
    min_learned_provision_time: Duration = 120.0
    max_learned_provision_time: Duration = 1800.0
    max_node_startup_time: Duration = 900.0
    initial_node_group_backoff_duration: Duration = 300.0
    max_node_group_backoff_duration: Duration = 1800.0
    node_group_backoff_reset_timeout: Duration = 10800.0
    force_delete_unregistered_nodes: bool = False
    force_delete_failed_nodes: bool = False
    hedging: Hedging = "auto"
    hedging_delay: Duration = 300.0
    max_hedged_nodes: Annotated[str, Meta(pattern=r"^[0-9]{1,6}%?$")] = "10%"

    @property
    def learns_provision_time(self) -> bool:
        return self.max_node_provision_time == "auto"

    def most_hedged(self, nodes: int) -> int:
        """Return how many machines of a cluster with so many nodes may be bought twice at a time."""
        number = int(self.max_hedged_nodes.rstrip("%"))
        if not self.max_hedged_nodes.endswith("%"):
            return number
        return max(2, number * nodes // 100) if number else 0

    @property
    def ordinary_provision_seconds(self) -> float:
        """How long a group may take of which nothing else is said or learned."""
        given = self.max_node_provision_time
        return ORDINARY_PROVISION_SECONDS if given == "auto" else given


class SafetySettings(Section, frozen=True, kw_only=True):
    """How much may be taken away. Of each group, and of the whole cluster, at most ``max_deletions_per_window``
    machines are deleted within any ``deletion_window``; those that never ran do not count. 0 machines stands for 10
    or 5 % of the nodes, whichever is more; a window of 0 sets no limit.

    Ready nodes without pods to move do not count there: of the whole cluster at most ``max_empty_deletions_per_window``
    of them are deleted within any ``empty_deletion_window``. Such a deletion is no mistake: the watch, a fresh list of
    the node's pods right before the call and the cloud's listing agree. 0 nodes stands for 50 or a quarter of the nodes
    that there were of late, whichever is more.
    """

    max_deletions_per_window: Count = 0
    deletion_window: Duration = 600.0
    max_empty_deletions_per_window: Count = 0
    empty_deletion_window: Duration = 60.0


class Settings(Section, frozen=True, kw_only=True):
    """The tree. ``providers`` maps a provider's name to its settings."""

    loop: LoopSettings = LoopSettings()
    pods: PodSettings = PodSettings()
    templates: TemplateSettings = TemplateSettings()
    scale_up: ScaleUpSettings = ScaleUpSettings()
    provisioning: ProvisioningSettings = ProvisioningSettings()
    autoprovisioning: AutoprovisioningSettings = AutoprovisioningSettings()
    buffers: BufferSettings = BufferSettings()
    scale_down: ScaleDownSettings = ScaleDownSettings()
    drain: DrainSettings = DrainSettings()
    limits: LimitSettings = LimitSettings()
    failures: FailureSettings = FailureSettings()
    safety: SafetySettings = SafetySettings()
    cluster: ClusterSettings = ClusterSettings()
    leader: LeaderSettings = LeaderSettings()
    serving: ServingSettings = ServingSettings()
    providers: dict[str, ProviderSettings] = {}

    @property
    def is_ca(self) -> bool:
        """Whether everything is to be decided as CA does."""
        return self.loop.profile == "ca"

    @property
    def serves_classes(self) -> bool:
        """Whether ProvisioningClass objects say which requests are served: CA does not know them."""
        provisioning = self.provisioning
        return provisioning.enable_provisioning_requests and provisioning.enable_provisioning_classes and not self.is_ca

    @property
    def reservation_seconds(self) -> float:
        """Return for how long the room of a provisioned request is held while its pods do not run."""
        given = self.provisioning.provisioning_request_reservation_time
        if self.is_ca:
            return _LEAST_RESERVATION_SECONDS
        if given == "auto":
            return max(_LEAST_RESERVATION_SECONDS, self.scale_down.scale_down_unneeded_time)
        return given

    @property
    def stops_at_refusal(self) -> bool:
        """Whether the other groups of an expansion wait for the next loop after one was refused."""
        return self.is_ca and not self.scale_up.parallel_scale_up

    @property
    def balances_removals(self) -> bool:
        """Whether the larger one of similar groups loses its node first: CA does not care."""
        return self.scale_down.balance_scale_down and not self.is_ca

    @property
    def deletion_limits(self) -> SafetySettings:
        """The budget in force: CA has none."""
        return SafetySettings(deletion_window=0.0, empty_deletion_window=0.0) if self.is_ca else self.safety

    @property
    def size_correction(self) -> SizeCorrection:
        """The rule in force: the profile is stronger than the flag."""
        return "ca" if self.is_ca else self.failures.size_correction

    @property
    def probes_after_backoff(self) -> bool:
        """Whether a group that failed must prove itself: no version of CA asks that."""
        return self.failures.probe_after_backoff and self.size_correction == "prompt"

    @property
    def hedges(self) -> bool:
        """Whether pods that wait for a silent group are planned on another one too: no version of CA does that."""
        hedging = self.failures.hedging
        wanted = hedging == "on" or (hedging == "auto" and self.failures.learns_provision_time)
        return wanted and self.size_correction == "prompt"


def default_options(settings: Settings) -> GroupOptions:
    """Return the options of a node group for which the provider sets none."""
    failures, scale_down = settings.failures, settings.scale_down
    return GroupOptions(
        max_node_provision_seconds=failures.ordinary_provision_seconds,
        max_node_startup_seconds=failures.max_node_startup_time,
        scale_down_unneeded_seconds=scale_down.scale_down_unneeded_time,
        scale_down_unready_seconds=scale_down.scale_down_unready_time,
        scale_down_utilization_threshold=scale_down.scale_down_utilization_threshold,
        scale_down_gpu_utilization_threshold=scale_down.scale_down_gpu_utilization_threshold,
        ignore_daemonsets_utilization=scale_down.ignore_daemonsets_utilization,
    )
