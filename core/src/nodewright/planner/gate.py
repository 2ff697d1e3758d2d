"""Is it time to grow at all? (behaviour/up.md §1.2 step 5, §1.3)"""

from collections.abc import Sequence

from nodewright.clusterstate.accelerators import Accelerators
from nodewright.clusterstate.readiness import is_ready
from nodewright.clusterstate.state import ClusterState
from nodewright.model.pod import Pod
from nodewright.model.reason import ScaleUpResult
from nodewright.model.settings import Settings
from nodewright.planner.candidates import ScaleUpContext

YOUNG_SECONDS = 2.0
_YOUNG_GPU_SECONDS = 30.0


def reason_to_wait(ground: ScaleUpContext, pods: Sequence[Pod]) -> ScaleUpResult | None:
    """Why no growth is planned for these pods now; None when it is."""
    if _is_full(ground):
        return ScaleUpResult.NODE_LIMIT
    settings = ground.settings
    if settings.is_ca and not settings.pods.bypassed_scheduler_names and _are_all_new(ground, pods):
        return ScaleUpResult.IN_COOLDOWN
    return None


def count_ready_nodes(state: ClusterState, settings: Settings) -> int:
    """Nodes of any group or none that are ready and open for pods."""
    accelerators = Accelerators.of(state.observation.providers.values())
    nodes = (node for _, node in state.observation.snapshot.nodes() if not node.spec.unschedulable)
    return sum(is_ready(node, settings.templates) and not accelerators.are_missing(node) for node in nodes)


def _is_full(ground: ScaleUpContext) -> bool:
    """The cluster has its most nodes. CA looks at those that are ready; here those on their way count too."""
    left, limit = ground.nodes_left, ground.settings.limits.max_nodes_total
    if left is None:
        return False
    if ground.settings.is_ca:
        return count_ready_nodes(ground.state, ground.settings) >= limit
    return left <= 0


def _are_all_new(ground: ScaleUpContext, pods: Sequence[Pod]) -> bool:
    """CA waits a moment for more pods to come; pods for accelerators, which are dear, make it wait for longer."""
    now = ground.state.now
    dear = [pod for pod in pods if _wants_accelerator(ground, pod)]
    return _oldest(pods) + YOUNG_SECONDS > now or (bool(dear) and _oldest(dear) + _YOUNG_GPU_SECONDS > now)


def _wants_accelerator(ground: ScaleUpContext, pod: Pod) -> bool:
    return any(name in ground.snapshot.class_of(pod).requests for name in ground.accelerators.resources)


def _oldest(pods: Sequence[Pod]) -> float:
    return min(pod.created for pod in pods)
