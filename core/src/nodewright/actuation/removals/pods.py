"""Which pods of a node are evicted, and in which order (behaviour/down.md A14)."""

from collections.abc import Iterable

from nodewright.actuation.removals.priorities import find_ranks, sort_into
from nodewright.actuation.removals.removal import Wave
from nodewright.model.pod import Pod
from nodewright.model.settings import DrainSettings, PodSettings
from nodewright.planner.pending import is_expendable

_DAEMON_EVICTION_ANNOTATION = "cluster-autoscaler.kubernetes.io/enable-ds-eviction"
_FAKE_ANNOTATION, _FAKE = "podtype", "fakepod"


def running_pods(pods: Iterable[Pod], settings: PodSettings) -> tuple[Pod, ...]:
    """Those that somebody would miss."""
    return tuple(pod for pod in pods if not pod.is_terminal and not is_expendable(pod.spec.priority, settings))


def make_waves(pods: Iterable[Pod], settings: DrainSettings, *, is_empty: bool) -> tuple[Wave, ...]:
    """Lower priorities go first. Of a node that counts as empty only DaemonSets' pods may be evicted.

    Where priorities are configured DaemonSets' pods are awaited like others.
    """
    real = [pod for pod in pods if not pod.is_mirror and pod.metadata.annotations.get(_FAKE_ANNOTATION) != _FAKE]
    daemons = [pod for pod in real if pod.is_daemonset_pod and _may_evict_daemon(pod, settings, is_empty=is_empty)]
    others = [] if is_empty else [pod for pod in real if not pod.is_daemonset_pod]
    awaited = not is_empty and bool(settings.drain_priority_config)
    best_effort = set() if awaited else {pod.key for pod in daemons}
    return tuple(
        Wave(
            grace_seconds=rank.grace_seconds,
            full=tuple(pod.key for pod in members if pod.key not in best_effort),
            best_effort=tuple(pod.key for pod in members if pod.key in best_effort),
        )
        for rank, members in sort_into(find_ranks(settings), (*others, *daemons))
    )


def grace_of(pod: Pod, wave: Wave) -> int:
    """Seconds that the pod gets to end."""
    return min(pod.grace_seconds, wave.grace_seconds) if wave.grace_seconds > 0 else pod.grace_seconds


def _may_evict_daemon(pod: Pod, settings: DrainSettings, *, is_empty: bool) -> bool:
    said = pod.metadata.annotations.get(_DAEMON_EVICTION_ANNOTATION)
    if said is not None:
        return said == "true"
    return settings.daemonset_eviction_for_empty_nodes if is_empty else settings.daemonset_eviction_for_occupied_nodes
