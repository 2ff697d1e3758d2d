"""The differences of nodewright from cluster-autoscaler: one switch for each difference, with the reason beside it.

A switch says what holds while it is on. It is built once from the profile, the rule of size correction and a few flags.
docs/differences.md shows this file as a table. This file has more than 500 lines because it is one table: all differences
are read together, each beside its reason.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Literal, NamedTuple

Profile = Literal["nodewright", "ca"]
SizeCorrection = Literal["prompt", "ca", "seed"]

# Flags on which some switches depend besides.
PROBE_AFTER_BACKOFF = "probe-after-backoff"
HEDGING = "hedging"
BALANCE_SCALE_DOWN = "balance-scale-down"
ENABLE_PROVISIONING_CLASSES = "enable-provisioning-classes"
NO_PARALLEL_SCALE_UP = "parallel-scale-up=false"


class When(Enum):
    """The condition for a switch to be on: with all of the first options, and without any of the second ones."""

    PROFILE_NODEWRIGHT = ((), ("--profile=ca",))
    PROFILE_CA = (("--profile=ca",), ())
    RULE_PROMPT = (("--size-correction=prompt",), ("--profile=ca",))
    RULE_NOT_CA = ((), ("--profile=ca", "--size-correction=ca"))


class Difference(NamedTuple):
    """One row of the table: what nodewright and cluster-autoscaler do, and why they differ."""

    switch: str
    area: str
    nodewright: str
    ca: str
    why: str
    when: When
    flag: str

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the options without which the switch is off."""
        return (*self.when.value[0], *((f"--{self.flag}",) if self.flag else ()))

    @property
    def bars(self) -> tuple[str, ...]:
        """Return the options with which the switch is off."""
        bars: tuple[str, ...] = self.when.value[1]
        return bars

    def is_on(self, given: AbstractSet[str]) -> bool:
        """Return whether the switch is on with the given options."""
        return given >= set(self.needs) and given.isdisjoint(self.bars)


def _row(area: str, nodewright: str, ca: str, why: str, *, when: When = When.PROFILE_NODEWRIGHT, flag: str = "") -> Any:
    """Return the field of one switch."""
    return field(metadata={"row": (area, nodewright, ca, why, when, flag)})


_NODES, _SIZES, _UP, _DOWN = "Reading the cluster", "Correcting sizes", "Scale-up", "Scale-down"
_WRITES, _REQUESTS = "Writes", "ProvisioningRequests"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """The switches. ``rule`` is the rule of size correction in force: the profile is stronger than the flag.

    The rule picks one of three implementations, in one table each of ``clusterstate/fold.py`` and
    ``planner/make_plan.py``. It is compared nowhere: what differs in a detail is a switch.
    """

    rule: SizeCorrection

    # Reading the cluster

    keeps_unlisted_groups: bool = _row(
        _NODES,
        "Keeps a group for five minutes after its provider stopped listing it.",
        "Forgets it at once.",
        "One list of a cloud may leave a group out by mistake.",
    )
    samples_newest_node: bool = _row(
        _NODES,
        "Takes a group's next node to be like the newest one that was bought.",
        "Takes the first good node of the group.",
        "Older nodes may be of a size that the group no longer has.",
    )
    learns_templates: bool = _row(
        _NODES,
        "Corrects a provider's template by the last real nodes, also over a restart, and ignores readiness.k8s.io/ taints.",
        "Copies a real node, even one that is gone, as long as the process lives.",
        "docs/adr/0035-learned-templates.md",
    )
    keeps_timers_over_restart: bool = _row(
        _NODES,
        "Continues the timers of scale-down after a restart.",
        "Begins all of them again.",
        "Restarts would otherwise keep unneeded nodes forever.",
    )
    recognizes_never_ready_nodes: bool = _row(
        _NODES,
        "Tells nodes that never became ready from nodes that broke, and deletes their machines.",
        "Counts both as unready.",
        "A failed scale-up does not mean that the cluster is unhealthy.",
        when=When.RULE_PROMPT,
    )
    resumes_while_unhealthy: bool = _row(
        _NODES,
        "Plans for the groups that are not at fault after --max-unhealthy-duration.",
        "Plans nothing while the cluster is unhealthy.",
        "One broken group should not stop all others.",
        when=When.RULE_PROMPT,
    )

    # Correcting sizes

    spares_machines_that_ran: bool = _row(
        _SIZES,
        "Does not believe that a machine failed to start if it ran or is a node, and lists the nodes again before it deletes.",
        "Deletes what the cloud reports as failed.",
        "A wrong status of a cloud would delete machines with running pods.",
        when=When.RULE_NOT_CA,
    )
    awaits_corrections: bool = _row(
        _SIZES,
        "Does not grow a group in the loop that corrects its size, and asks only for decreases that the cloud can make.",
        "Plans on as if its corrections had been carried out.",
        "The outcome of a call is known only in the next loop.",
        when=When.RULE_NOT_CA,
    )
    corrects_without_ready_nodes: bool = _row(
        _SIZES,
        "Corrects sizes while no node is ready and --scale-up-from-zero is off.",
        "Does nothing at all then.",
        "Removing what failed may be what brings ready nodes back.",
    )
    growth_goes_before_deletion: bool = _row(
        _SIZES,
        "Grows a group for pods before it deletes machines that never registered.",
        "Deletes first.",
        "A deletion may hang or wait for a budget; pods should not.",
        when=When.RULE_PROMPT,
    )
    waits_for_late_machines: bool = _row(
        _SIZES,
        "Gives a machine that exists two to four provision times to register.",
        "Deletes it after one provision time.",
        "A machine that exists costs less to wait for than to replace.",
        when=When.RULE_PROMPT,
    )
    deletes_never_ran_below_minimum: bool = _row(
        _SIZES,
        "Deletes machines that never ran first, and below the group's minimum size too.",
        "Stops at the minimum size.",
        "Otherwise a dead machine counts towards the minimum forever.",
        when=When.RULE_PROMPT,
    )
    rests_failed_deletions: bool = _row(
        _SIZES,
        "Waits for a backoff before it deletes the same machine again.",
        "Tries again in each loop.",
        "A deletion that hangs would hold up each loop.",
        when=When.RULE_PROMPT,
    )
    forgets_lost_machines: bool = _row(
        _SIZES,
        "Expects no machine of an unreadable group whose node is gone.",
        "Counts the group as it last was.",
        "Pods would wait for machines that do not exist.",
        when=When.RULE_PROMPT,
    )
    tracks_reservations: bool = _row(
        _SIZES,
        "Follows the machines of an all-or-nothing request until all are ready, and takes them back otherwise.",
        "Forgets the request once its increase is accepted.",
        "A part of the machines is useless and would stay.",
    )
    blames_groups_for_reservations: bool = _row(
        _SIZES,
        "Backs off a group that delivered too little of a reservation.",
        "Has no reservations.",
        "The next try should go to another group.",
        when=When.RULE_PROMPT,
    )

    # Scale-up

    gathers_pods_before_loop: bool = _row(
        _UP,
        "Gathers new pods for a second (--batch-idle-duration) before a loop that they start.",
        "Starts at once, and plans nothing while all pods are newer than two seconds.",
        "A burst of pods then costs one call and fewer nodes.",
    )
    counts_upcoming_in_total: bool = _row(
        _UP,
        "Counts upcoming nodes for --max-nodes-total.",
        "Counts ready nodes only.",
        "The limit would be exceeded while nodes start.",
    )
    limits_minimum_sizes_together: bool = _row(
        _UP,
        "Holds --max-nodes-total when groups grow to their minimum sizes.",
        "Compares the limit with the size of each single group.",
        "Together the groups would exceed the limit.",
    )
    buys_only_used_nodes: bool = _row(
        _UP,
        "Asks for as many nodes as its estimate puts pods on.",
        "Also counts existing nodes that took a pod in the estimate.",
        "The surplus nodes would be empty.",
    )
    sees_pods_of_all_schedulers: bool = _row(
        _UP,
        "Counts running pods of every scheduler as using their node.",
        "Sees no running pods of schedulers that --allowed-scheduler-names does not name.",
        "Their room is not free.",
    )
    counts_on_preempted_room: bool = _row(
        _UP,
        "Lets pods wait for the room of preempted pods while these end.",
        "Buys nodes for them.",
        "kube-scheduler preempted those pods to make this room.",
    )
    ignores_ending_namespaces: bool = _row(
        _UP,
        "Buys no nodes for pods of a namespace that is being deleted.",
        "Buys them.",
        "Such pods can never be bound.",
    )
    remembers_purchases: bool = _row(
        _UP,
        "Remembers for which pods a group grew, and does not grow it again for pods that its nodes do not take.",
        "Buys the same node again and again.",
        "docs/adr/0027-vain-purchases.md",
    )
    probes_after_backoff: bool = _row(
        _UP,
        "Asks a group for one machine, then two, then four, after its backoff ended.",
        "Asks for all machines at once.",
        "A group that failed may fail again: docs/adr/0008-probation-and-learned-time.md",
        when=When.RULE_PROMPT,
        flag=PROBE_AFTER_BACKOFF,
    )
    mixes_groups: bool = _row(
        _UP,
        "Plans a mix of several groups at the least price, unless --expander says otherwise or a group has no price.",
        "Chooses one group for each expansion, by default the one with the least waste.",
        "A mix costs some 5 to 40 % less: docs/cost.md",
    )
    prefers_other_failure_domains: bool = _row(
        _UP,
        "Prefers another zone or machine type, then another quota, for pods that waited for a group that timed out.",
        "Lets the expander choose alone.",
        "A timeout does not say what the cloud is short of.",
        when=When.RULE_PROMPT,
    )
    doubts_silent_groups: bool = _row(
        _UP,
        "Does not count on machines of groups that are silent or on probation, and withdraws hedges that are not needed.",
        "Counts on all upcoming machines.",
        "Pods would wait until the timeout: docs/adr/0022-hedging.md",
        when=When.RULE_PROMPT,
    )
    hedges: bool = _row(
        _UP,
        "Buys machines elsewhere for pods that wait for a silent group.",
        "Waits for the timeout.",
        "docs/adr/0022-hedging.md",
        when=When.RULE_PROMPT,
        flag=HEDGING,
    )
    runs_again_after_work: bool = _row(
        _UP,
        "Runs the next loop at once after a refusal, or where a group grew and another one helps the pods that are left.",
        "Runs twice at once after a loop that did something (--frequent-loops-enabled).",
        "Other loops would find nothing new.",
        when=When.PROFILE_CA,
    )

    wakes_at_deadlines: bool = _row(
        _UP,
        "Starts a loop as soon as a deadline passes that pods wait for, such as that of machines that do not come.",
        "Finds that in the next scan.",
        "Pods would wait up to a scan interval more for the next group.",
    )
    looks_after_new_nodes: bool = _row(
        _UP,
        "Starts a loop a second after all machines that pods wait for are Ready, and up to four more until their pods are bound.",
        "Finds in the next scan that kube-scheduler left a pod without room.",
        "That pod would wait up to a scan interval more for its machine.",
    )

    # Scale-down

    confirms_removals: bool = _row(
        _DOWN,
        "Simulates the chosen removals once more together, and plans where each pod goes and in which order nodes go.",
        "Takes a part of its simulated chain as it is.",
        "A part of the chain need not hold without the rest.",
    )
    counts_leaving_nodes: bool = _row(
        _DOWN,
        "Holds the minimum totals of the cluster with the nodes that exist and stay.",
        "Also counts nodes under way in either direction.",
        "For a while there would be less than the minimum.",
        when=When.PROFILE_CA,
    )
    balances_removals: bool = _row(
        _DOWN,
        "Removes nodes of the larger one of similar groups first.",
        "Removes them in the order of nodes.",
        "Balanced groups should stay balanced.",
        flag=BALANCE_SCALE_DOWN,
    )
    empty_removals_are_free: bool = _row(
        _DOWN,
        "Does not count nodes without pods to move for --max-scale-down-parallelism.",
        "Counts them.",
        "They need no drain; a budget of deletions limits them.",
    )
    has_deletion_budget: bool = _row(
        _DOWN,
        "Limits deletions within a time (--max-deletions-per-window, --max-empty-deletions-per-window).",
        "Has no such limit.",
        "A mistake should not empty the cluster.",
    )
    limits_failed_simulations: bool = _row(
        _DOWN,
        "Stops looking at candidates after many that have no other place for their pods.",
        "Looks at all of them.",
        "In a full cluster the loop would take long and find nothing.",
    )
    uses_scan_interval: bool = _row(
        _DOWN,
        "Takes --scan-interval for the time between two loops.",
        "Measures it.",
        "Loops that would change nothing are left out.",
    )
    uses_smaller_size: bool = _row(
        _DOWN,
        "Plans removals with the smaller one of a group's size now and after this loop's calls.",
        "Reads sizes again after its calls.",
        "A call may be refused.",
    )
    replaced_pods_need_no_place: bool = _row(
        _DOWN,
        "Needs no place for a terminating pod that its controller has replaced already.",
        "Looks for a place.",
        "The replacement has its own place.",
    )
    applies_all_drain_rules: bool = _row(
        _DOWN,
        "Applies every drain rule to old pods of kube-system without a disruption budget.",
        "Applies no further rule to them.",
        "Local storage or a missing controller matters there too.",
    )
    refuses_several_budgets: bool = _row(
        _DOWN,
        "Keeps a node with a pod that several disruption budgets select.",
        "Tries to drain it in vain.",
        "The eviction API refuses such pods.",
    )
    defines_division_by_zero: bool = _row(
        _DOWN,
        "Measures utilization as 0 where nothing is requested, and as infinite where nothing is offered.",
        "Divides by zero.",
        "NaN compares with nothing, and the node stays forever.",
    )
    completes_atomic_batches: bool = _row(
        _DOWN,
        "Removes a zero-or-max group with as many nodes as are registered, and holds an overspent budget.",
        "May wait for a missing node forever, and treats an overspent budget as not used up.",
        "The group would never go, or too many nodes at once.",
    )
    rechecks_future_taints: bool = _row(
        _DOWN,
        "Looks again at a node whose deletion taint has a time in the future.",
        "Waits until that time has come.",
        "The clock was set back.",
    )
    spares_shared_machines: bool = _row(
        _DOWN,
        "Removes no node whose machine another node object claims as well.",
        "Removes it.",
        "The other node's pods would go with it.",
    )
    quarantines_groups: bool = _row(
        _DOWN,
        "Removes nothing from a group for half an hour after other machines went with a deletion.",
        "Does not look for that.",
        "The cloud deleted machines that it was not asked to delete.",
    )
    pauses_after_removals: bool = _row(
        _DOWN,
        "Pauses before it retries a node that could not be removed, and where groups or controllers' pods go back and forth.",
        "Retries at once.",
        "Each attempt evicts pods.",
    )
    holds_removals_while_unhealthy: bool = _row(
        _DOWN,
        "Holds removals under way while the cluster is unhealthy.",
        "Continues them.",
        "Evicted pods may find no healthy node.",
    )
    replaces_interrupted_nodes: bool = _row(
        _DOWN,
        "Replaces and drains nodes of which the cloud gives notice that it takes them (--interruption-handling).",
        "Reads no notices; other programs drain such nodes.",
        "The replacement starts while the pods still run.",
    )
    gives_up_dear_nodes: bool = _row(
        _DOWN,
        "Gives up nodes whose pods cost less on other or new nodes, unless --consolidation-policy says otherwise.",
        "Removes a node only if its pods fit on the nodes that exist.",
        "A large node with few pods would stay forever: docs/consolidation.md",
    )
    rereads_pods_before_deleting: bool = _row(
        _DOWN,
        "Reads the pods of a node again right before its machine is deleted, and gives the node back if new pods run on it.",
        "Deletes the machine, however long ago its pods were read.",
        "Calls to a cloud wait for each other, for a busy cloud and for their batch.",
    )
    compares_pods_with_controllers: bool = _row(
        _DOWN,
        "Removes no node while the list of pods lacks more than a tenth of those that their controllers count as ready.",
        "Takes nodes for empty if no pods are listed on them.",
        "A list that is empty, partial or old shows no pods where pods run.",
    )
    looks_twice_before_deleting: bool = _row(
        _DOWN,
        "Deletes nothing in the first loop of a process.",
        "Deletes in the first loop.",
        "The first look may be incomplete.",
    )

    # Writes

    stops_at_refusal: bool = _row(
        _WRITES,
        "Asks the other groups of a scale-up after one group was refused.",
        "Stops at the first refusal, unless --parallel-scale-up is set.",
        "The other groups can help some of the pods.",
        when=When.PROFILE_CA,
        flag=NO_PARALLEL_SCALE_UP,
    )
    waits_for_busy_clouds: bool = _row(
        _WRITES,
        "Waits as a busy cloud asks, and counts no failure.",
        "Backs the group off as after a failure.",
        "docs/adr/0020-refusals-and-busy-clouds.md",
    )
    uncordons_own_nodes_only: bool = _row(
        _WRITES,
        "Uncordons a node only if nodewright cordoned it.",
        "Uncordons it in any case.",
        "An operator may have cordoned it.",
    )
    keeps_taints_of_deleted_machines: bool = _row(
        _WRITES,
        "Keeps the deletion taint of a node whose machine is being deleted.",
        "Removes it at a start.",
        "kube-scheduler would place pods there.",
    )

    # Gangs

    serves_gangs: bool = _row(
        _UP,
        "Helps a gang of pods completely or not at all, and keeps it complete in scale-down.",
        "Has no gangs, and buys nodes for some of the pods.",
        "docs/adr/0034-gangs.md",
    )

    # ProvisioningRequests

    shares_capacity_fairly: bool = _row(
        _REQUESTS,
        "Serves pending pods and requests in each loop, each beside what the others get.",
        "Serves pods or one request in turn.",
        "Requests would keep pods waiting, and pods requests.",
    )
    serves_provisioning_classes: bool = _row(
        _REQUESTS,
        "Reads ProvisioningClass objects.",
        "Has no such objects.",
        "docs/adr/0016-provisioning-classes.md",
        flag=ENABLE_PROVISIONING_CLASSES,
    )
    holds_reservations_longer: bool = _row(
        _REQUESTS,
        "Holds the room of a provisioned request for --provisioning-request-reservation-time.",
        "Holds it for ten minutes.",
        "Scale-down would keep the nodes longer than the room is held.",
    )
    accepts_more_class_names: bool = _row(
        _REQUESTS,
        "Also serves the class names of the first design documents.",
        "Serves its own two class names.",
        "Requests that were written for them go on working.",
    )
    checks_class_of_consumers: bool = _row(
        _REQUESTS,
        "Emits an event for a pod whose class annotation does not match its request.",
        "Does not compare them.",
        "Such a pod would wait without an explanation.",
    )
    ends_all_requests_at_once: bool = _row(
        _REQUESTS,
        "Ends all finished requests in one loop.",
        "Ends at most twenty in a loop.",
        "Room would be held for finished requests.",
    )
    knows_revoked_capacity: bool = _row(
        _REQUESTS,
        "Treats a request whose capacity was revoked as ended.",
        "Does not know that capacity can be revoked.",
        "Nothing is held for it any more.",
    )
    reads_valid_until: bool = _row(
        _REQUESTS,
        "Reads the parameter ValidUntilSeconds of a request.",
        "Reads no parameter.",
        "The owner of the request says how long it is useful.",
    )
    keeps_condition_times: bool = _row(
        _REQUESTS,
        "Dates a condition by when its status changed.",
        "Dates it again at each write.",
        "Kubernetes defines lastTransitionTime so, and ages are read from it.",
    )
    applies_conditions: bool = _row(
        _REQUESTS,
        "Writes conditions by server-side apply.",
        "Updates the whole status.",
        "Conditions of other controllers stay.",
    )
    cancels_deleted_requests: bool = _row(
        _REQUESTS,
        "Stops serving a request as soon as it is being deleted.",
        "Serves it until the object is gone.",
        "A finalizer may keep the object for long.",
    )
    remembers_provisioner: bool = _row(
        _REQUESTS,
        "Goes on serving a request by the class that served it first.",
        "Has no such classes.",
        "An edited ProvisioningClass must not move a request that is under way.",
    )


class PolicyInputs(NamedTuple):
    """The values from which the switches follow; ``flags`` are those of this module that are in force."""

    profile: Profile
    size_correction: SizeCorrection
    flags: frozenset[str] = frozenset()


def make_policy(basis: PolicyInputs) -> Policy:
    """Return the policy for a profile, a rule of size correction and flags."""
    rule: SizeCorrection = "ca" if overrules(basis.profile, basis.size_correction) else basis.size_correction
    given = {f"--profile={basis.profile}", f"--size-correction={rule}", *(f"--{flag}" for flag in basis.flags)}
    return Policy(rule=rule, **{row.switch: row.is_on(given) for row in differences()})


def overrules(profile: Profile, rule: SizeCorrection) -> bool:
    """Return whether the profile decides by another rule of size correction than this one."""
    return profile == "ca" and rule != "ca"


def most_switches(profile: Profile) -> Policy:
    """Return the policy with all switches that the profile allows: the rule prompt, and every flag in force."""
    flags = frozenset(row.flag for row in differences() if row.flag)
    return make_policy(PolicyInputs(profile, "prompt", flags))


def differences() -> Iterator[Difference]:
    """Yield the rows of the table, in the order of this file."""
    for one in fields(Policy):
        if "row" in one.metadata:
            yield Difference(one.name, *one.metadata["row"])
