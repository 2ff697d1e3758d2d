"""Settings of the loop and of scale-up: pending pods, templates, expansion, requests, buffers, limits."""

from typing import Annotated, Literal

from msgspec import Meta

from nodewright.model.policy import Profile
from nodewright.model.settings_base import Count, Duration, Help, Ratio, Section


class LoopSettings(Section, frozen=True, kw_only=True):
    """Settings for the interval of the loop, and for a cluster that is too broken to act on."""

    profile: Annotated[
        Profile,
        Help(
            "Whose rules decide: nodewright's, or only those of cluster-autoscaler (ca). The profile ca switches off everything "
            "in which nodewright departs from cluster-autoscaler on purpose. It is meant for comparison and migration.",
            ca="",
        ),
    ] = "nodewright"
    scan_interval: Annotated[
        Duration,
        Help(
            "Time from the start of one loop to the start of the next. A loop that takes longer is followed at once. "
            "Pending pods do not wait for it: see --frequent-loops-enabled.",
            raised="Fewer calls to the cloud and less CPU; timeouts and unneeded nodes are noticed later.",
        ),
    ] = 10.0
    frequent_loops_enabled: Annotated[
        bool,
        Help(
            "Start a loop as soon as kube-scheduler reports a pod that fits nowhere. If false, every loop waits for "
            "--scan-interval."
        ),
    ] = True
    batch_idle_duration: Annotated[
        Duration,
        Help(
            "A loop started by pending pods first waits until no new one has come for this long. The wait ends after "
            "--batch-max-duration at the latest. One decision over all pods of a burst buys fewer nodes with fewer calls. "
            "Karpenter has the same setting; cluster-autoscaler starts at once.",
            raised="Bursts are planned together more often; a single pod waits longer.",
            ca="",
        ),
    ] = 1.0
    batch_max_duration: Annotated[
        Duration,
        Help(
            "The longest wait for further pending pods, from the first one. See --batch-idle-duration. It is up to "
            "twice as long while pods keep arriving and each loop asks several groups for machines, to make about 15 requests a minute.",
            raised="Slow bursts are planned together; their first pod waits longer.",
            ca="",
        ),
    ] = 10.0
    ok_total_unready_count: Annotated[
        Count,
        Help(
            "This many unready nodes are always tolerated. The cluster is unhealthy, and nothing is planned, while more nodes "
            "are unready than both this count and --max-total-unready-percentage allow. The same test is made for each "
            "group before it grows. nodewright does not count nodes that never became ready after a scale-up; the profile ca does.",
            raised="Planning goes on while more nodes are broken.",
            unit="nodes",
        ),
    ] = 3
    max_total_unready_percentage: Annotated[
        float,
        Meta(ge=0, le=100),
        Help(
            "This share of unready nodes is always tolerated, in percent of all nodes. See --ok-total-unready-count.",
            raised="Planning goes on while more nodes are broken.",
            unit="percent",
        ),
    ] = 45.0
    max_unhealthy_duration: Annotated[
        Duration,
        Help(
            "After this time in an unhealthy cluster, planning goes on without the groups at fault. It does so only if "
            "few nodes of the other groups are unready. cluster-autoscaler waits without an end, and so does the profile ca.",
            raised="Nothing is planned in an unhealthy cluster for longer.",
            ca="",
        ),
    ] = 1200.0
    scale_up_from_zero: Annotated[
        bool, Help("Plan in a cluster without ready nodes, too. If false, nothing is planned until a node is ready.")
    ] = True


class PodSettings(Section, frozen=True, kw_only=True):
    """Settings for the pods that count as pending."""

    expendable_pods_priority_cutoff: Annotated[
        int,
        Help(
            "Pods with a priority below this one are expendable. They cause no scale-up, they do not keep a node from being "
            "removed, and their room counts as free. A pod without a priority is never expendable.",
            raised="More pods are expendable.",
            unit="pod priority",
        ),
    ] = -10
    new_pod_scale_up_delay: Annotated[
        Duration,
        Help(
            "A pending pod younger than this causes no scale-up. The annotation "
            "cluster-autoscaler.kubernetes.io/pod-scale-up-delay on a pod asks for more, never for less.",
            raised="Pods that other means help in time buy fewer nodes; all pending pods wait longer.",
        ),
    ] = 0.0
    allowed_scheduler_names: Annotated[
        tuple[str, ...],
        Help("Only pods of these schedulers (spec.schedulerName) cause a scale-up. Empty: pods of all schedulers."),
    ] = ()
    bypassed_scheduler_names: Annotated[
        tuple[str, ...],
        Help(
            "Pods of these schedulers count as pending before the scheduler has tried to place them. Where "
            "--allowed-scheduler-names is given, it must name them, too."
        ),
    ] = ()


class TemplateSettings(Section, frozen=True, kw_only=True):
    """Settings for the prediction of a group's next node from one that exists."""

    startup_taint: Annotated[
        tuple[str, ...],
        Help(
            "Keys of taints that a node loses once it is ready for pods. A node with one of them counts as not ready, and "
            "the next node of the group is planned without it. Keys with the prefix "
            "startup-taint.cluster-autoscaler.kubernetes.io/ need not be named."
        ),
    ] = ()
    startup_taint_prefix: Annotated[
        tuple[str, ...], Help("Prefixes of keys of taints that are treated like --startup-taint.")
    ] = ()
    ignore_taint: Annotated[
        tuple[str, ...],
        Help(
            "The older name of --startup-taint, with the same effect. Keys with the prefix "
            "ignore-taint.cluster-autoscaler.kubernetes.io/ need not be named."
        ),
    ] = ()
    status_taint: Annotated[
        tuple[str, ...],
        Help(
            "Keys of taints that say something of one node only. The next node of the group is planned without them; "
            "unlike --startup-taint they do not make a node count as not ready. Keys with the prefix "
            "status-taint.cluster-autoscaler.kubernetes.io/ need not be named."
        ),
    ] = ()
    force_ds: Annotated[
        bool,
        Help(
            "Plan the pods of every DaemonSet that fits onto the next node, even if the sampled node lacks them. If false, "
            "only node-critical DaemonSets are added to a sampled node; a provider's description always gets all of them."
        ),
    ] = False
    scale_from_unschedulable: Annotated[
        bool,
        Help(
            "If the sampled node of a group is cordoned, plan the next node as schedulable all the same. If false, such a "
            "group looks as if its new nodes were cordoned, too, and is not grown."
        ),
    ] = False


class ScaleUpSettings(Section, frozen=True, kw_only=True):
    """Settings for the estimate and the choice of an expansion, and its spread over groups."""

    expander: Annotated[
        str,
        Help(
            "The expanders that choose among groups, of least-cost, random, most-pods, least-waste, least-nodes, price and priority; "
            "empty stands for least-cost,least-waste, and with the profile ca for least-waste. A list separated by commas is a chain: each expander leaves the best options to the next, and chance "
            "decides among those that are left. least-cost plans a mix of several groups at the least price; it passes the choice on if "
            "a group that could help has no price. priority reads the ConfigMap cluster-autoscaler-priority-expander in --namespace."
        ),
    ] = ""
    prices: Annotated[
        str,
        Help(
            "A YAML file with what the operator pays: prices by machine type, discounts, and capacity that is already paid "
            "(docs/prices.md). It has precedence over providers' prices, and is read again when it changes.",
            ca="",
        ),
    ] = ""
    assume_prices: Annotated[
        bool,
        Help(
            "Let a group without a price take part with the price of the nearest machine type, by cores and GiB. If false, "
            "such a group is planned without a price.",
            ca="",
        ),
    ] = False
    least_cost_budget: Annotated[
        Duration,
        Help(
            "The expander least-cost improves its mix for this time. The first mix is made in any case.",
            raised="Nodes cost some per cent less; loops with pods to plan for take longer.",
            ca="",
        ),
    ] = 0.2
    max_nodes_per_scaleup: Annotated[
        Count,
        Help(
            "At most this many nodes are estimated for one expansion of a group. 0: no limit.",
            raised="A large backlog is helped in fewer loops; one wrong decision buys more nodes.",
            unit="nodes",
        ),
    ] = 1000
    max_nodegroup_binpacking_duration: Annotated[
        Duration,
        Help(
            "After this time, the estimate for one group adds no more nodes. 0: no limit.",
            raised="Larger backlogs are packed in one loop, which takes longer.",
        ),
    ] = 10.0
    max_binpacking_time: Annotated[
        Duration,
        Help(
            "After this time, no further group is estimated once one would help. 0: no limit.",
            raised="More groups are compared in a cluster with many of them; the loop takes longer.",
        ),
    ] = 300.0
    fastpath_binpacking_enabled: Annotated[
        bool,
        Help(
            "Estimate the largest kind of equal pods by arithmetic. One node is packed, and every further node counts as holding as "
            "many. It is faster, and less exact where nodes differ from the first."
        ),
    ] = False
    enforce_node_group_min_size: Annotated[
        bool,
        Help("Grow a group whose size is below its minimum, without pods that need it."),
    ] = False
    parallel_scale_up: Annotated[
        bool,
        Help(
            "With the profile ca: go on with the other groups of an expansion after the cloud refused one. The profile nodewright always "
            "does. cluster-autoscaler makes the calls in parallel as well."
        ),
    ] = False
    salvo_scale_up: Annotated[
        bool,
        Help(
            "Plan expansion after expansion in one loop until no pod is left that one would help. If false, one per loop."
        ),
    ] = False
    salvo_scale_up_budget: Annotated[
        Duration,
        Help(
            "After this time, --salvo-scale-up begins no further expansion in this loop. 0: no limit.",
            raised="More expansions in one loop, which takes longer.",
        ),
    ] = 60.0
    balance_similar_node_groups: Annotated[
        bool,
        Help(
            "Spread an expansion over similar groups, so that their sizes stay equal. Groups are similar if their nodes "
            "agree in labels and, within the ratios below, in resources; --balancing-label replaces that test."
        ),
    ] = False
    balancing_ignore_label: Annotated[
        tuple[str, ...],
        Help("Labels that may differ between similar groups. Zone, region, hostname and a few others always may."),
    ] = ()
    balancing_label: Annotated[
        tuple[str, ...],
        Help("If given, groups are similar if and only if their nodes have these labels with equal values."),
    ] = ()
    max_allocatable_difference_ratio: Annotated[
        Ratio,
        Help(
            "How much allocatable resources of similar groups may differ, as a share of the larger amount.",
            raised="More groups count as similar.",
            unit="share from 0 to 1",
        ),
    ] = 0.05
    max_free_difference_ratio: Annotated[
        Ratio,
        Help(
            "How much free resources of empty nodes of similar groups may differ, as a share of the larger amount. Free "
            "is what the pods of DaemonSets and mirror pods leave.",
            raised="More groups count as similar.",
            unit="share from 0 to 1",
        ),
    ] = 0.05
    memory_difference_ratio: Annotated[
        Ratio,
        Help(
            "How much the memory capacity of similar groups may differ, as a share of the larger amount. All other "
            "capacities must be equal.",
            raised="More groups count as similar.",
            unit="share from 0 to 1",
        ),
    ] = 0.015


class ProvisioningSettings(Section, frozen=True, kw_only=True):
    """ProvisioningRequests: capacity for a set of pods that do not exist yet (docs/provisioning-requests.md)."""

    enable_provisioning_requests: Annotated[
        bool, Help("Serve ProvisioningRequest objects. Their CustomResourceDefinition must be installed.")
    ] = False
    enable_provisioning_classes: Annotated[
        bool,
        Help(
            "Let ProvisioningClass objects say which classes of requests there are. They say who may use a class and how "
            "much each namespace may hold. If false, the classes are those of cluster-autoscaler, for everyone.",
            ca="",
        ),
    ] = False
    provisioning_request_initial_backoff_time: Annotated[
        Duration,
        Help(
            "How long a request waits after it was first examined in vain. Each further failure doubles the wait, up to "
            "--provisioning-request-max-backoff-time.",
            raised="Requests are examined less often, and served later once there is room.",
        ),
    ] = 60.0
    provisioning_request_max_backoff_time: Annotated[
        Duration,
        Help(
            "The longest wait between two attempts to serve a request.",
            raised="Requests that found no capacity for long are examined less often.",
        ),
    ] = 600.0
    provisioning_request_reservation_time: Annotated[
        Duration | Literal["auto"],
        Help(
            "How long the room of a provisioned request is held for its pods. It is free as soon as they run. auto is "
            "--scale-down-unneeded-time, and ten minutes at least. The profile ca always holds it for ten minutes.",
            raised="Pods that come late still find their room; unused room is paid for longer.",
            ca="",
        ),
    ] = "auto"
    check_capacity_batch_processing: Annotated[
        bool,
        Help(
            "With the profile ca: examine several check-capacity requests in one loop. The profile nodewright examines all "
            "requests that are due."
        ),
    ] = False
    check_capacity_provisioning_request_max_batch_size: Annotated[
        Count,
        Help(
            "With the profile ca: at most this many check-capacity requests are examined in one loop. 0 and 1 switch "
            "--check-capacity-batch-processing off.",
            raised="More requests are examined in one loop, which takes longer.",
            unit="requests",
        ),
    ] = 10
    check_capacity_processor_instance: Annotated[
        str,
        Help(
            "The name of this process, where several serve check-capacity requests. It serves those with the parameter "
            "processorInstance equal to this name, and no requests of the atomic class. Empty: it serves requests without that parameter."
        ),
    ] = ""


class AutoprovisioningSettings(Section, frozen=True, kw_only=True):
    """Node groups that nodewright creates and deletes itself (docs/autoprovisioning.md)."""

    node_autoprovisioning_enabled: Annotated[
        bool,
        Help(
            "Create node groups for pods that no group helps, and delete them when they are empty. A provider must support it. "
            "cluster-autoscaler had this flag and removed it.",
            ca="",
        ),
    ] = False
    max_autoprovisioned_node_group_count: Annotated[
        Count,
        Help(
            "At most this many created node groups exist at a time. cluster-autoscaler had this flag and removed it.",
            raised="More kinds of pods get groups of their own.",
            unit="node groups",
            ca="",
        ),
    ] = 15


class BufferSettings(Section, frozen=True, kw_only=True):
    """CapacityBuffers: spare capacity for pods that are yet to come (docs/capacity-buffers.md)."""

    capacity_buffer_controller_enabled: Annotated[
        bool, Help("Write into the status of each CapacityBuffer how many pods of which shape it stands for.")
    ] = False
    capacity_buffer_pod_injection_enabled: Annotated[
        bool, Help("Plan nodes for the pods that CapacityBuffers stand for, and keep them while the buffers exist.")
    ] = False

    @property
    def are_read(self) -> bool:
        """Return whether CapacityBuffer objects must be followed."""
        return self.capacity_buffer_controller_enabled or self.capacity_buffer_pod_injection_enabled


class LimitSettings(Section, frozen=True, kw_only=True):
    """Limits for the size of the whole cluster. Every node counts, those of no group included."""

    max_nodes_total: Annotated[
        Count,
        Help(
            "No scale-up lets the cluster have more nodes than this. 0: no limit.",
            raised="The cluster may grow further.",
            unit="nodes",
        ),
    ] = 0
    cores_total: Annotated[
        str,
        Help(
            "Fewest and most CPU cores of the cluster, as min:max. Scale-up keeps to the maximum, scale-down to the minimum.",
            unit="cores",
        ),
    ] = "0:320000"
    memory_total: Annotated[
        str,
        Help(
            "Least and most memory of the cluster, as min:max in GiB. Scale-up keeps to the maximum, scale-down to the minimum.",
            unit="GiB",
        ),
    ] = "0:6400000"
    gpu_total: Annotated[
        tuple[str, ...],
        Help(
            "Fewest and most GPUs of one type, as type:min:max. The type is a value of the provider's GPU label, as in "
            "nvidia-tesla-k80:0:16. Repeat the flag for several types.",
            unit="GPUs",
        ),
    ] = ()
    capacity_quotas_enabled: Annotated[
        bool,
        Help("Keep to the limits of CapacityQuota objects as well. Each limits the nodes that its selector chooses."),
    ] = False
