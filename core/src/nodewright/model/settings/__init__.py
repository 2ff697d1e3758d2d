"""Every setting, once: flags, variables, files, ``--help``, docs/settings.md and the schemas are all made from this tree.

A field's name with dashes is its flag, and cluster-autoscaler's flag where that has one. ``Help`` says what it does.
"""

from typing import Annotated

from nodewright.model.group import GroupOptions
from nodewright.model.settings.failures import ORDINARY_PROVISION_SECONDS, FailureSettings, Hedging, SizeCorrection
from nodewright.model.settings.process import ClusterSettings, LeaderSettings, ProviderSettings, ServingSettings
from nodewright.model.settings.scale_down import DrainSettings, SafetySettings, ScaleDownSettings
from nodewright.model.settings.scale_up import (
    AutoprovisioningSettings,
    BufferSettings,
    LimitSettings,
    LoopSettings,
    PodSettings,
    Profile,
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
    "DrainSettings",
    "FailureSettings",
    "Hedging",
    "LeaderSettings",
    "LimitSettings",
    "LoopSettings",
    "PodSettings",
    "Profile",
    "ProviderSettings",
    "ProvisioningSettings",
    "SafetySettings",
    "ScaleDownSettings",
    "ScaleUpSettings",
    "ServingSettings",
    "Settings",
    "SizeCorrection",
    "TemplateSettings",
    "default_options",
]

# For so long cluster-autoscaler holds the room of a provisioned request.
_LEAST_RESERVATION_SECONDS = 600.0


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
    providers: Annotated[
        dict[str, ProviderSettings],
        Help("The clouds. The name of each is that of its plugin, as nodewright providers lists them.", ca=""),
    ] = {}

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
