"""Is a node up? By its conditions and taints (behaviour/up.md §1.4, §1.5)."""

from nodewright.model.node import TO_BE_DELETED_TAINT, Node, NodeCondition
from nodewright.model.settings import TemplateSettings

_UNREADY_TAINTS = frozenset(
    f"node.kubernetes.io/{what}" for what in ("not-ready", "disk-pressure", "network-unavailable")
)
_STARTUP_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
)
# A kubelet's first status follows its registration by no more than that; clocks differ a little, too.
_FIRST_WORD_SECONDS = 30.0
# The reason that the node controller gives where a kubelet has registered and never reported.
_NEVER_UPDATED = "NodeStatusNeverUpdated"
STATUS_PREFIX = "status-taint.cluster-autoscaler.kubernetes.io/"


def is_ready(node: Node, settings: TemplateSettings) -> bool:
    """Ready, under no disk or network pressure, and done with its start-up taints."""
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    if conditions.get("Ready") != "True":
        return False
    if conditions.get("DiskPressure") == "True" or conditions.get("NetworkUnavailable") == "True":
        return False
    return not any(t.key in _UNREADY_TAINTS or is_startup_taint(t.key, settings) for t in node.spec.taints)


def is_suspended(node: Node) -> bool:
    """Whether somebody has put its machine to sleep: it is neither up nor ill, and nothing is awaited in its place."""
    return any(condition.type == "Suspended" and condition.status == "True" for condition in node.status.conditions)


def ready_since(node: Node) -> float:
    """When the conditions and taints that make up readiness last changed; epoch seconds, 0 if unknown."""
    times = [c.last_transition_time for c in node.status.conditions if c.type in _READINESS_CONDITIONS]
    times += [t.time_added for t in node.spec.taints if t.key in _UNREADY_TAINTS]
    return max((time.timestamp() for time in times if time is not None), default=0.0)


def was_never_ready(node: Node) -> bool:
    """Return whether the node object alone proves that the node was never Ready.

    What the kubelet said first, it still says; or it never said anything, and the control plane tells so.
    """
    created, said = node.metadata.creation_timestamp, ready_condition(node)
    if said is None or said.status == "True":
        return False
    if said.reason == _NEVER_UPDATED:
        return True
    if created is None or said.last_transition_time is None:
        return False
    return (said.last_transition_time - created).total_seconds() <= _FIRST_WORD_SECONDS


def ready_condition(node: Node) -> NodeCondition | None:
    """Return the condition ``Ready``; None while nobody has reported it."""
    return next((c for c in node.status.conditions if c.type == "Ready"), None)


def is_reported_ready(node: Node) -> bool:
    """Return whether the node's condition ``Ready`` holds, whatever taints it bears."""
    said = ready_condition(node)
    return said is not None and said.status == "True"


def is_startup_taint(key: str, settings: TemplateSettings) -> bool:
    """Whether a taint means that the node is still starting."""
    named = key in settings.startup_taint or key in settings.ignore_taint
    return named or key.startswith((*_STARTUP_PREFIXES, *settings.startup_taint_prefix))


def is_being_deleted(node: Node) -> bool:
    return any(taint.key == TO_BE_DELETED_TAINT for taint in node.spec.taints)


_READINESS_CONDITIONS = frozenset({"Ready", "DiskPressure", "NetworkUnavailable"})
