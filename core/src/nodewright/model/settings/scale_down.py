"""Settings of scale-down: which nodes go, how they are drained, and how many may be deleted."""

from typing import Annotated, Literal

from nodewright.model.settings_base import Count, Duration, Help, Ratio, Section

ConsolidationPolicy = Literal["auto", "off", "when-empty", "balanced", "when-cheaper"]


class ScaleDownSettings(Section, frozen=True, kw_only=True):
    """Settings for unneeded nodes: the rule, the wait before a removal, and the number of removals at once."""

    scale_down_enabled: Annotated[
        bool, Help("Remove nodes that are not needed. If false, no node is examined, marked or removed.")
    ] = True
    scale_down_unneeded_time: Annotated[
        Duration,
        Help(
            "How long a ready node must be unneeded before it is removed. A provider may say otherwise for a group.",
            raised="Nodes stay for longer, and fewer are bought again soon after.",
        ),
    ] = 600.0
    scale_down_unready_time: Annotated[
        Duration,
        Help(
            "How long an unready node must be unneeded before it is removed. A provider may say otherwise for a group.",
            raised="A broken node has more time to recover, and costs for longer.",
        ),
    ] = 1200.0
    scale_down_unready_enabled: Annotated[bool, Help("Remove unready nodes, too. If false, they stay.")] = True
    scale_down_utilization_threshold: Annotated[
        Ratio,
        Help(
            "A node is examined for removal only if its utilization is not above this. Utilization is the larger share of CPU and "
            "memory that its pods request of what is allocatable. A provider may say otherwise for a group.",
            raised="More nodes are candidates, and more pods are moved.",
            unit="share from 0 to 1",
        ),
    ] = 0.5
    scale_down_gpu_utilization_threshold: Annotated[
        Ratio,
        Help(
            "The same for nodes with GPUs. There only the share of requested GPUs counts, not CPU and memory.",
            raised="More GPU nodes are candidates, and more pods are moved.",
            unit="share from 0 to 1",
        ),
    ] = 0.5
    ignore_daemonsets_utilization: Annotated[
        bool,
        Help(
            "Leave pods of DaemonSets out of the utilization of a node. Their requests are subtracted from what is "
            "allocatable, too. A provider may say otherwise for a group."
        ),
    ] = False
    ignore_mirror_pods_utilization: Annotated[bool, Help("Leave mirror pods out of the utilization of a node.")] = False
    scale_down_delay_after_add: Annotated[
        Duration,
        Help(
            "After nodes were added, no removal begins for this long. Unneeded time goes on counting.",
            raised="Nodes stay for longer after a burst of pods.",
        ),
    ] = 600.0
    scale_down_delay_after_delete: Annotated[
        Duration,
        Help(
            "After a removal began, no other begins for this long.",
            raised="Removals come in steps further apart.",
        ),
    ] = 0.0
    scale_down_delay_after_failure: Annotated[
        Duration,
        Help(
            "After a removal could not begin because a node could not be tainted, no other begins for this long.",
            raised="Fewer attempts while the API server refuses.",
        ),
    ] = 180.0
    scale_down_delay_type_local: Annotated[
        bool,
        Help(
            "Apply the three delays to the node group concerned, not to all groups. Nodes of a group that waits lose "
            "their unneeded time."
        ),
    ] = False
    unremovable_node_recheck_timeout: Annotated[
        Duration,
        Help(
            "A node whose pods found no other place is not examined again for this long. nodewright also waits at least "
            "this long, and at least --scale-down-unneeded-time, after a removal failed.",
            raised="Loops are faster; a node that could go by now stays for longer.",
        ),
    ] = 300.0
    scale_down_simulation_timeout: Annotated[
        Duration,
        Help(
            "After this time, no further node is examined in a loop. The others lose their unneeded time. 0: no limit.",
            raised="More nodes are examined per loop, which takes longer.",
        ),
    ] = 30.0
    max_scale_down_parallelism: Annotated[
        Count,
        Help(
            "At most this many removals are under way at a time. nodewright does not count nodes without pods to move: "
            "--max-empty-deletions-per-window limits those; the profile ca counts all. 0: nothing is removed.",
            raised="The cluster shrinks faster.",
            unit="nodes",
        ),
    ] = 10
    max_drain_parallelism: Annotated[
        Count,
        Help(
            "At most this many removals that move pods are under way at a time. 0: only empty nodes go.",
            raised="The cluster shrinks faster, and more pods are evicted at the same time.",
            unit="nodes",
        ),
    ] = 1
    max_bulk_soft_taint_count: Annotated[
        Count,
        Help(
            "At most this many nodes get or lose the taint DeletionCandidateOfClusterAutoscaler in one loop. That taint asks "
            "kube-scheduler to prefer other nodes. 0: no node gets it.",
            raised="Marks follow changes faster, with more writes to the API server.",
            unit="nodes",
        ),
    ] = 10
    max_bulk_soft_taint_time: Annotated[
        Duration,
        Help(
            "After this time, no further node is marked in a loop. 0: no node is marked. See --max-bulk-soft-taint-count.",
            raised="Marks follow changes faster while the API server is slow; the loop takes longer.",
        ),
    ] = 3.0
    node_deletion_candidate_ttl: Annotated[
        Duration,
        Help(
            "At a start without saved state, a mark younger than this says since when its node is unneeded. 0: the time starts again. "
            "nodewright saves its state, so that this matters for the profile ca and after a change from cluster-autoscaler.",
            raised="Older marks are believed after a restart.",
        ),
    ] = 0.0
    balance_scale_down: Annotated[
        bool,
        Help(
            "Of similar groups, remove nodes of the larger one first. Without it, the order of the groups decides.",
            ca="",
        ),
    ] = False
    max_pod_moves_per_hour: Annotated[
        Count,
        Help(
            "Removals move the pods of one controller at most this many times each within an hour, on average. A removal "
            "that would move them more often waits. 0: no limit.",
            raised="Busy clusters shrink further; pods are restarted more often.",
            unit="moves per pod",
            ca="",
        ),
    ] = 6


class DrainSettings(Section, frozen=True, kw_only=True):
    """Settings for pods that prevent a node's removal, and for the eviction of the others."""

    skip_nodes_with_system_pods: Annotated[
        bool,
        Help(
            "Keep nodes with pods of the namespace kube-system that no PodDisruptionBudget covers. Mirror pods and pods of "
            "DaemonSets never keep a node. See --blocking-system-pod-distruption-timeout."
        ),
    ] = True
    skip_nodes_with_local_storage: Annotated[
        bool,
        Help(
            "Keep nodes with pods that have a hostPath volume or an emptyDir on disk. The annotation "
            "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes names volumes that do not count."
        ),
    ] = True
    skip_nodes_with_custom_controller_pods: Annotated[
        bool,
        Help(
            "Keep nodes with pods whose controller is not a ReplicaSet, ReplicationController, StatefulSet, Job or DaemonSet, "
            "or no longer exists. Pods without any controller always keep their node."
        ),
    ] = True
    min_replica_count: Annotated[
        Count,
        Help(
            "Keep nodes with pods of a ReplicaSet or ReplicationController that has fewer replicas than this. It has an effect only with "
            "--skip-nodes-with-custom-controller-pods.",
            raised="Small workloads keep their nodes.",
            unit="replicas",
        ),
    ] = 0
    blocking_system_pod_distruption_timeout: Annotated[
        Duration,
        Help(
            "A pod of kube-system older than this no longer keeps its node. The misspelling is cluster-autoscaler's.",
            raised="System pods keep their nodes for longer.",
        ),
    ] = 3600.0
    max_graceful_termination_sec: Annotated[
        Count,
        Help(
            "Evicted pods get at most this long to end, even if their grace period is longer. 0: their grace period. Not together with "
            "--drain-priority-config.",
            raised="Slow pods end in good order; removals take longer.",
            unit="seconds",
        ),
    ] = 600
    drain_priority_config: Annotated[
        str,
        Help(
            "Evict pods in the order of their priority, as priority:seconds,priority:seconds. Pods of that priority and above are evicted together, "
            "after all lower ones have ended, and get at most those seconds to end. Pods of DaemonSets are waited for, too."
        ),
    ] = ""
    max_pod_eviction_time: Annotated[
        Duration,
        Help(
            "Evictions that are refused are repeated for this long; then the removal ends and the node stays.",
            raised="PodDisruptionBudgets have more time to allow an eviction; a stuck removal takes up its place for longer.",
        ),
    ] = 120.0
    daemonset_eviction_for_empty_nodes: Annotated[
        bool, Help("Evict pods of DaemonSets before a node without other pods is deleted. Nothing waits for them.")
    ] = False
    daemonset_eviction_for_occupied_nodes: Annotated[
        bool, Help("Evict pods of DaemonSets when a node with other pods is drained. Nothing waits for them.")
    ] = True
    cordon_node_before_terminating: Annotated[
        bool, Help("Cordon a node when its removal begins, besides tainting it. A removal that fails uncordons it.")
    ] = True
    node_delete_delay_after_taint: Annotated[
        Duration,
        Help(
            "Time between tainting a node and evicting its pods, so that kube-scheduler learns of the taint.",
            raised="Fewer pods are placed on a node that is about to go; removals take longer.",
        ),
    ] = 5.0
    node_deletion_delay_timeout: Annotated[
        Duration,
        Help(
            "A drained node with an annotation delay-deletion.cluster-autoscaler.kubernetes.io/… is deleted after this "
            "time at the latest. 0: these annotations are not waited for.",
            raised="Other controllers have more time to clean up a node.",
        ),
    ] = 120.0
    node_deletion_batcher_interval: Annotated[
        Duration,
        Help(
            "Nodes of a group that are drained within this time are deleted by one call. 0: one call for each.",
            raised="Fewer calls to the cloud; nodes are deleted later.",
        ),
    ] = 0.0


class InterruptionSettings(Section, frozen=True, kw_only=True):
    """Settings for notices of a cloud that it will take a machine (docs/interruptions.md)."""

    interruption_handling: Annotated[
        bool,
        Help(
            "Replace and drain nodes whose machine the cloud is about to take. It is off with --profile=ca.",
            ca="",
        ),
    ] = True
    interruption_signal: Annotated[
        tuple[str, ...],
        Help(
            "Taints and conditions of nodes that tell of an interruption, as taint:KEY=KIND or condition:TYPE=KIND, with the time that is "
            "left where it is known (taint:KEY=reclaim:2m). Kinds are reclaim, rebalance, maintenance and unhealthy. A condition counts "
            "while its status is True. Repeat it for several signals. Nodes whose notice has no deadline are drained as scale-down does it, "
            "within the deletion budget.",
            ca="",
        ),
    ] = (
        "taint:aws-node-termination-handler/spot-itn=reclaim:2m",
        "taint:aws-node-termination-handler/rebalance-recommendation=rebalance",
        "taint:aws-node-termination-handler/scheduled-maintenance=maintenance",
        "taint:cloud.google.com/impending-node-termination=reclaim:30s",
        "condition:PreemptionScheduled=reclaim:30s",
        "condition:KernelDeadlock=unhealthy",
        "condition:ReadonlyFilesystem=unhealthy",
    )
    replace_on_rebalance: Annotated[
        bool,
        Help(
            "Replace nodes also when the cloud only recommends it (rebalance), by machines of other groups, within the deletion budget.",
            ca="",
        ),
    ] = False


class SafetySettings(Section, frozen=True, kw_only=True):
    """Limits for the number of machines that are deleted within a time. Deletions beyond that wait, and an event says so.

    Machines that never ran do not count.
    """

    max_deletions_per_window: Annotated[
        Count,
        Help(
            "At most this many machines of a group, and of the cluster, are deleted within --deletion-window. Ready nodes without pods to "
            "move have a budget of their own. 0 stands for 10 or 5 % of the nodes, whichever is more.",
            raised="A mistake of a person or a program costs more machines.",
            unit="machines",
            ca="",
        ),
    ] = 0
    deletion_window: Annotated[
        Duration,
        Help(
            "The time in which --max-deletions-per-window machines may be deleted. 0: no limit.",
            raised="Fewer deletions in the same time.",
            ca="",
        ),
    ] = 600.0
    max_empty_deletions_per_window: Annotated[
        Count,
        Help(
            "At most this many ready nodes without pods to move are deleted within --empty-deletion-window. They are counted in the whole "
            "cluster. 0 stands for 50 or a quarter of the nodes that there were of late, whichever is more.",
            raised="A cluster that is not used any more shrinks faster.",
            unit="nodes",
            ca="",
        ),
    ] = 0
    empty_deletion_window: Annotated[
        Duration,
        Help(
            "The time in which --max-empty-deletions-per-window nodes may be deleted. 0: no limit.",
            raised="Fewer deletions in the same time.",
            ca="",
        ),
    ] = 60.0
    disruption_config: Annotated[
        str,
        Help(
            "A YAML file that says how many nodes may be given up at the same time, when, and for which reasons, and which options of "
            "groups differ at certain times (docs/disruption.md). It is read again when it changes.",
            ca="",
        ),
    ] = ""


class RenewalSettings(Section, frozen=True, kw_only=True):
    """Settings for the replacement of nodes that are too old, or differ from new ones (docs/disruption.md)."""

    node_max_age: Annotated[
        Duration,
        Help(
            "Nodes that are older are replaced: their pods get room first, if need be on new nodes, then the node is drained. 0: "
            "none is replaced for its age. It needs --scale-down-enabled.",
            raised="Nodes run old images and kernels for longer; fewer pods are moved.",
            ca="",
        ),
    ] = 0.0
    node_max_age_jitter: Annotated[
        Ratio,
        Help(
            "Each node is replaced up to this part of --node-max-age earlier, always at the same age, so that nodes that came together do "
            "not go together.",
            raised="Replacements are spread over a longer time; nodes live shorter on average.",
            unit="share from 0 to 1",
            ca="",
        ),
    ] = 0.1
    replace_drifted_nodes: Annotated[
        bool,
        Help(
            "Replace nodes in the same way that differ from what new nodes of their group are: made from another launch template or image, "
            "where the provider tells, or with other labels or taints than the group's template, which has changed since. It needs "
            "--scale-down-enabled.",
            ca="",
        ),
    ] = False


class ConsolidationSettings(Section, frozen=True, kw_only=True):
    """Settings for nodes that are given up because their pods cost less elsewhere."""

    consolidation_policy: Annotated[
        ConsolidationPolicy,
        Help(
            "Which nodes are given up although their pods fit on no other node there is. off: none. when-empty: nodes without "
            "pods to move. balanced: nodes whose share of the savings is at least half their share of the evictions. "
            "when-cheaper: all whose pods cost less elsewhere. auto: balanced, and off with --profile=ca. Nodes whose price "
            "is not known stay: of groups without a price, or of another machine type than new nodes of their group. Only if "
            "balanced or when-cheaper is set do their pods go back to preferred groups (docs/consolidation.md).",
            ca="",
        ),
    ] = "auto"
    consolidate_after: Annotated[
        Duration,
        Help(
            "How long a node is not given up after a pod came to it.",
            raised="Pods are moved less often one after the other; nodes cost for longer.",
            ca="",
        ),
    ] = 300.0
    consolidation_budget: Annotated[
        Duration,
        Help(
            "The search for nodes to give up ends after this time. 0: only the limits of its steps end it.",
            raised="A little more is saved; loops take longer.",
            ca="",
        ),
    ] = 1.0
