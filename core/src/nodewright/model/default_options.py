"""The options of a node group of which its provider says nothing else."""

from nodewright.model.group import GroupOptions
from nodewright.model.settings import Settings


def default_options(settings: Settings) -> GroupOptions:
    """As the settings have them."""
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
