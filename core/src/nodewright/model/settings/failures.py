"""Settings of failures: how long a group may take, and what happens if it takes longer."""

from typing import Annotated, Literal

from msgspec import Meta

from nodewright.model.policy import SizeCorrection
from nodewright.model.settings_base import Duration, Help, Section

Hedging = Literal["auto", "on", "off"]
ORDINARY_PROVISION_SECONDS = 900.0


class FailureSettings(Section, frozen=True, kw_only=True):
    """Settings for the time that a group has to deliver machines, and for its backoff after a failure."""

    size_correction: Annotated[
        SizeCorrection,
        Help(
            "The rule by which a group that does not deliver is corrected. prompt withdraws what is overdue in the loop of its "
            "timeout and plans its pods elsewhere. ca is the rule of today's cluster-autoscaler, seed that of an older "
            "one (docs/adr/0006-size-correction.md). The profile ca implies ca.",
            ca="",
        ),
    ] = "prompt"
    probe_after_backoff: Annotated[
        bool,
        Help(
            "After a backoff, ask a group for few machines first, until it delivers. If false, it gets what pods need at once. It "
            "has an effect only with --size-correction=prompt (docs/adr/0008-probation-and-learned-time.md).",
            ca="",
        ),
    ] = True
    max_node_provision_time: Annotated[
        Duration | Literal["auto"],
        Help(
            "A machine that is not a node after this time is overdue: it is withdrawn or deleted, and its group is backed "
            "off. auto learns the time of each group from its own machines. A provider may say otherwise for a group.",
            raised="Slow clouds get more time; pods wait longer for another group when one fails.",
        ),
    ] = ORDINARY_PROVISION_SECONDS
    min_learned_provision_time: Annotated[
        Duration,
        Help(
            "No learned provision time is shorter than this. A group with a known history is not silent before it, either.",
            raised="Fast groups are given up later.",
            ca="",
        ),
    ] = 120.0
    max_learned_provision_time: Annotated[
        Duration,
        Help(
            "No learned provision time is longer than this.",
            raised="Slow groups are given up later.",
            ca="",
        ),
    ] = 1800.0
    max_node_startup_time: Annotated[
        Duration,
        Help(
            "A node younger than this that is not ready is starting; an older one is unready. A provider may say otherwise "
            "for a group.",
            raised="Slow nodes are counted on for longer; pods wait longer when a node never becomes ready.",
        ),
    ] = 900.0
    initial_node_group_backoff_duration: Annotated[
        Duration,
        Help(
            "How long a group is not grown after its first failure. Each failure after a backoff has ended doubles the time, up to "
            "--max-node-group-backoff-duration.",
            raised="A failing group is asked less often; pods that fit nowhere else wait longer.",
        ),
    ] = 300.0
    max_node_group_backoff_duration: Annotated[
        Duration,
        Help(
            "The longest time for which a failing group is not grown.",
            raised="A group that fails for long is asked less often.",
        ),
    ] = 1800.0
    node_group_backoff_reset_timeout: Annotated[
        Duration,
        Help(
            "This long after the last failure of a group, its failures are forgotten. The next one counts as the first.",
            raised="Rare failures still lengthen the backoff.",
        ),
    ] = 10800.0
    force_delete_unregistered_nodes: Annotated[
        bool,
        Help(
            "Delete machines that never became nodes even where their group then falls below its minimum size. Where the "
            "provider can, they are deleted by force."
        ),
    ] = False
    force_delete_failed_nodes: Annotated[
        bool, Help("Delete machines whose creation failed by force, where the provider can.")
    ] = False
    hedging: Annotated[
        Hedging,
        Help(
            "Buy a second machine elsewhere for pods that wait for a silent group (docs/adr/0022-hedging.md). auto does so where "
            "--max-node-provision-time is auto. It has an effect only with --size-correction=prompt.",
            ca="",
        ),
    ] = "auto"
    hedging_delay: Annotated[
        Duration,
        Help(
            "A group whose usual time is not known is silent after this time without a new node.",
            raised="Fewer machines are bought twice; pods wait longer for a group that fails.",
            ca="",
        ),
    ] = 300.0
    max_hedged_nodes: Annotated[
        str,
        Meta(pattern=r"^[0-9]{1,6}%?$"),
        Help(
            "At most this many machines may turn out to be bought twice. A number, or a share of the nodes "
            "such as 10%, which stands for 2 at least. 0: none.",
            raised="More pods are helped while a cloud is silent; more machines may be surplus for a time.",
            unit="machines, or percent of the nodes",
            ca="",
        ),
    ] = "10%"

    @property
    def learns_provision_time(self) -> bool:
        return self.max_node_provision_time == "auto"

    def most_hedged(self, nodes: int) -> int:
        """Return how many machines of a cluster with ``nodes`` nodes may be bought twice at a time."""
        number = int(self.max_hedged_nodes.rstrip("%"))
        if not self.max_hedged_nodes.endswith("%"):
            return number
        return max(2, number * nodes // 100) if number else 0

    @property
    def ordinary_provision_seconds(self) -> float:
        """Return the provision time of a group for which no other time is set or learned."""
        given = self.max_node_provision_time
        return ORDINARY_PROVISION_SECONDS if given == "auto" else given
