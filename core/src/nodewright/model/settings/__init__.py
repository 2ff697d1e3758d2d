"""Every setting, once: flags, variables, files, ``--help``, docs/settings.md and the schemas are all made from this tree.

A field's name with dashes is its flag, and cluster-autoscaler's flag where that has one. ``Help`` says what it does.
"""

from collections.abc import Iterable
from functools import cache
from itertools import compress
from typing import Annotated, NamedTuple

import msgspec

from nodewright.model.group import GroupOptions
from nodewright.model.policy import (
    BALANCE_SCALE_DOWN,
    ENABLE_PROVISIONING_CLASSES,
    HEDGING,
    NO_PARALLEL_SCALE_UP,
    PROBE_AFTER_BACKOFF,
    Policy,
    PolicyInputs,
    Profile,
    SizeCorrection,
    make_policy,
)
from nodewright.model.settings.failures import ORDINARY_PROVISION_SECONDS, FailureSettings, Hedging
from nodewright.model.settings.process import (
    ClusterSettings,
    LeaderSettings,
    LoggingSettings,
    ProviderSettings,
    ServingSettings,
)
from nodewright.model.settings.scale_down import (
    ConsolidationPolicy,
    ConsolidationSettings,
    DrainSettings,
    InterruptionSettings,
    RenewalSettings,
    SafetySettings,
    ScaleDownSettings,
)
from nodewright.model.settings.scale_up import (
    AutoprovisioningSettings,
    BufferSettings,
    LimitSettings,
    LoopSettings,
    PodSettings,
    ProvisioningSettings,
    ScaleUpSettings,
    TemplateSettings,
)
from nodewright.model.settings_base import Help, Section

__all__ = [
    "ORDINARY_PROVISION_SECONDS",
    "AutoprovisioningSettings",
    "BufferSettings",
    "ClusterSettings",
    "ConsolidationSettings",
    "CorrectionSettings",
    "DrainSettings",
    "FailureSettings",
    "Hedging",
    "InterruptionSettings",
    "LeaderSettings",
    "LimitSettings",
    "LoggingSettings",
    "LoopSettings",
    "PodSettings",
    "Profile",
    "ProviderSettings",
    "ProvisioningSettings",
    "RemovalSettings",
    "RenewalSettings",
    "RequestSettings",
    "SafetySettings",
    "ScaleDownSettings",
    "ScaleUpSettings",
    "ServingSettings",
    "Settings",
    "SizeCorrection",
    "TemplateSettings",
    "default_options",
    "take_over",
]

# How long cluster-autoscaler holds the room of a provisioned request, in seconds.
_LEAST_RESERVATION_SECONDS = 600.0


class CorrectionSettings(NamedTuple):
    """The settings that size corrections read."""

    failures: FailureSettings
    loop: LoopSettings
    policy: Policy


class RequestSettings(NamedTuple):
    """The settings that ProvisioningRequests read.

    ``pause``: seconds from a failed deletion to the next attempt. ``reservation``: seconds for which the room of a
    provisioned request is held while its pods do not run.
    """

    provisioning: ProvisioningSettings
    pods: PodSettings
    policy: Policy
    pause: float
    reservation: float


class RemovalSettings(NamedTuple):
    """The settings that removals in progress read."""

    drain: DrainSettings
    pods: PodSettings
    scale_down: ScaleDownSettings
    policy: Policy


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
    interruptions: InterruptionSettings = InterruptionSettings()
    renewal: RenewalSettings = RenewalSettings()
    consolidation: ConsolidationSettings = ConsolidationSettings()
    limits: LimitSettings = LimitSettings()
    failures: FailureSettings = FailureSettings()
    safety: SafetySettings = SafetySettings()
    cluster: ClusterSettings = ClusterSettings()
    leader: LeaderSettings = LeaderSettings()
    serving: ServingSettings = ServingSettings()
    logging: LoggingSettings = LoggingSettings()
    providers: Annotated[
        dict[str, ProviderSettings],
        Help("The clouds. The name of each is that of its plugin, as nodewright providers lists them.", ca=""),
    ] = {}

    @property
    def policy(self) -> Policy:
        """Return the switches in which nodewright differs from cluster-autoscaler."""
        failures, requests = self.failures, self.provisioning
        return _policy_of(
            self.loop.profile,
            failures.size_correction,
            (
                failures.probe_after_backoff,
                failures.hedging == "on" or (failures.hedging == "auto" and failures.learns_provision_time),
                self.scale_down.balance_scale_down,
                requests.enable_provisioning_requests and requests.enable_provisioning_classes,
                not self.scale_up.parallel_scale_up,
            ),
        )

    @property
    def corrections(self) -> CorrectionSettings:
        """Return the settings that size corrections read."""
        return CorrectionSettings(self.failures, self.loop, self.policy)

    @property
    def requests(self) -> RequestSettings:
        """Return the settings that ProvisioningRequests read."""
        pause = self.failures.initial_node_group_backoff_duration
        return RequestSettings(self.provisioning, self.pods, self.policy, pause, self.reservation_seconds)

    @property
    def removals(self) -> RemovalSettings:
        """Return the settings that removals in progress read."""
        return RemovalSettings(self.drain, self.pods, self.scale_down, self.policy)

    @property
    def reservation_seconds(self) -> float:
        """Return for how long the room of a provisioned request is held while its pods do not run."""
        given = self.provisioning.provisioning_request_reservation_time
        if not self.policy.holds_reservations_longer:
            return _LEAST_RESERVATION_SECONDS
        if given == "auto":
            return max(_LEAST_RESERVATION_SECONDS, self.scale_down.scale_down_unneeded_time)
        return given

    @property
    def moves(self) -> ConsolidationSettings:
        """Return the settings of moves, with the policy in force."""
        if self.consolidation.consolidation_policy != "auto":
            return self.consolidation
        policy: ConsolidationPolicy = "balanced" if self.policy.gives_up_dear_nodes else "off"
        return msgspec.structs.replace(self.consolidation, consolidation_policy=policy)

    @property
    def returns_need_prices(self) -> bool:
        """Return whether pods go back to preferred groups only from and to nodes with a known price."""
        return self.consolidation.consolidation_policy == "auto"

    @property
    def seeks_moves(self) -> bool:
        """Return whether nodes are given up for cheaper ones at all."""
        return self.scale_down.scale_down_enabled and self.moves.consolidation_policy != "off"

    @property
    def deletion_limits(self) -> SafetySettings:
        """Return the deletion budget in force."""
        return (
            self.safety
            if self.policy.has_deletion_budget
            else SafetySettings(deletion_window=0.0, empty_deletion_window=0.0)
        )


_FLAGS = (PROBE_AFTER_BACKOFF, HEDGING, BALANCE_SCALE_DOWN, ENABLE_PROVISIONING_CLASSES, NO_PARALLEL_SCALE_UP)


@cache
def _policy_of(profile: Profile, rule: SizeCorrection, flags: tuple[bool, ...]) -> Policy:
    """Return the policy with those of ``_FLAGS`` in force for which ``flags`` is true."""
    return make_policy(PolicyInputs(profile, rule, frozenset(compress(_FLAGS, flags))))


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


def take_over(base: Settings, wanted: Settings, fields: Iterable[tuple[str, str]]) -> Settings:
    """Return ``base`` with the values that these settings (section and field) have in ``wanted``."""
    for section, field in fields:
        value = getattr(getattr(wanted, section), field)
        changed = msgspec.structs.replace(getattr(base, section), **{field: value})
        base = msgspec.structs.replace(base, **{section: changed})
    return base
