"""Decide which pods may be moved off a node: the twelve drain rules, in CA's order.

Each rule returns None if it does not decide. The first rule that decides wins. A last rule checks all pods of a node
together: a gang that runs must keep its minimum of pods, or be evicted as a whole. Rules read the annotations listed
in ``pod_index.py``: a new rule that reads another annotation must add it there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from nodewright.model.cluster import ReplicaSet, ReplicationController
from nodewright.model.meta import OwnerReference
from nodewright.model.pod import SAFE_TO_EVICT_ANNOTATION, SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION, Pod, Volume
from nodewright.model.reason import BlockingCode
from nodewright.model.settings import DrainSettings
from nodewright.planner.scale_down.pdb import BrokenGang, DisruptionBudgets
from nodewright.planner.scale_down.pod_index import PodKind, PodSubset, subset_of
from nodewright.snapshot.context import Controller, Workloads

SYSTEM_NAMESPACE = "kube-system"
_LONG_TERMINATING_SECONDS = 30
_KNOWN_CONTROLLERS = frozenset({"ReplicationController", "Job", "ReplicaSet", "StatefulSet"})


class DrainOutcome(StrEnum):
    """The outcome for a pod when its node is removed."""

    MOVE = "move"
    DAEMON = "daemon"
    SKIP = "skip"
    AWAIT = "await"
    BLOCK = "block"


class PodDrainability(NamedTuple):
    """The outcome for one pod, and the rule that decided it.

    ``code`` and ``message`` are set if the pod blocks the drain. ``message`` says what is wrong and what would unblock the
    pod.
    """

    outcome: DrainOutcome
    rule: str
    code: BlockingCode | None = None
    message: str = ""


class DrainabilityRules(NamedTuple):
    """The input of the rules. ``budgets`` None: do not check budgets.

    ``now`` in epoch seconds. ``applies_all``: also to old pods of kube-system without a budget; CA does not.
    """

    workloads: Workloads
    budgets: DisruptionBudgets | None
    settings: DrainSettings
    now: float
    applies_all: bool = True

    def evaluate(self, pod: Pod) -> PodDrainability:
        """Return the result of the first rule that decides. A pod for which none decides is moved."""
        metadata = pod.metadata
        asked = _RulePod(
            pod, metadata.controller, pod.is_daemonset_pod, metadata.annotations.get(SAFE_TO_EVICT_ANNOTATION)
        )
        for rule in _RULES:
            status = rule(asked, self)
            if status is not None:
                return status
        return _DAEMON if asked.is_daemon else _MOVE


class _RulePod(NamedTuple):
    """A pod, and what several rules need to know of it."""

    pod: Pod
    owner: OwnerReference | None
    is_daemon: bool
    safe_to_evict: str | None


Rule = Callable[[_RulePod, DrainabilityRules], PodDrainability | None]


def is_long_terminating(pod: Pod, now: float) -> bool:
    """Return whether a pod should have ended a while ago.

    The API's deletion time already includes the grace period; CA adds it again, and so do we.
    """
    expected = overdue_after(pod)
    return expected is not None and expected < now


def overdue_after(pod: Pod) -> float | None:
    """Return when a terminating pod counts as long terminating (epoch seconds); None: it is not terminating."""
    deleted = pod.metadata.deletion_timestamp
    return deleted.timestamp() + pod.grace_seconds + _LONG_TERMINATING_SECONDS if deleted is not None else None


def _mirror(asked: _RulePod, _: DrainabilityRules) -> PodDrainability | None:
    return _SKIP_MIRROR if asked.pod.is_mirror else None


def _long_terminating(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    return _SKIP_TERMINATING if is_long_terminating(asked.pod, rules.now) else None


def _replica_count(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    """Block if the controller is missing or wants too few replicas.

    If controllers were not listed, they are assumed to exist.
    """
    owner, controllers = asked.owner, rules.workloads.controllers
    if controllers is None or owner is None or not rules.settings.skip_nodes_with_custom_controller_pods:
        return None
    if not _is_listed(asked, owner):
        return None
    found = controllers.get((owner.kind, f"{asked.pod.metadata.namespace}/{owner.name}"))
    if found is None:
        return _block(
            "ReplicaCount",
            BlockingCode.CONTROLLER_NOT_FOUND,
            f"its {owner.kind} {owner.name} does not exist, so that nothing would start it again; delete the pod, or "
            "create its controller again",
        )
    return None if asked.is_daemon else _enough_replicas(found, rules.settings.min_replica_count)


def _is_listed(asked: _RulePod, owner: OwnerReference) -> bool:
    """Return whether controllers of this kind are looked up at all (in CA's order)."""
    group, slash, version = owner.api_version.partition("/")
    if "/" in version:
        return False
    is_apps = bool(slash) and group == "apps"
    if owner.kind == "ReplicationController":
        return True
    if asked.is_daemon:
        return is_apps and owner.kind == "DaemonSet"
    return owner.kind in ("Job", "ReplicaSet") or (owner.kind == "StatefulSet" and is_apps)


def _enough_replicas(controller: Controller, least: int) -> PodDrainability | None:
    if not isinstance(controller, ReplicaSet | ReplicationController):
        return None
    wanted = controller.spec.replicas
    if wanted is None or wanted >= least:
        return None
    return _block(
        "ReplicaCount",
        BlockingCode.MIN_REPLICAS_REACHED,
        f"its {type(controller).__name__} {controller.name} wants {wanted} replicas, fewer than --min-replica-count "
        f"{least}; raise its spec.replicas, or lower the setting",
    )


def _daemon_set(asked: _RulePod, _: DrainabilityRules) -> PodDrainability | None:
    return _DAEMON if asked.is_daemon else None


def _safe_to_evict(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    """Move a pod that is annotated as safe to evict, unless two budgets select it: the API server never evicts such a pod."""
    return (_conflict(asked, rules) or _SAFE) if asked.safe_to_evict == "true" else None


def _terminal(asked: _RulePod, _: DrainabilityRules) -> PodDrainability | None:
    phase, policy = asked.pod.status.phase, asked.pod.spec.restart_policy
    is_over = phase == "Failed" or (phase == "Succeeded" and policy in ("Never", "OnFailure"))
    return _TERMINAL if is_over else None


def _on_completion(asked: _RulePod, _: DrainabilityRules) -> PodDrainability | None:
    return _ON_COMPLETION if asked.safe_to_evict == "on-completion" else None


def _replicated(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    """Block a pod that no controller would create again."""
    owner = asked.owner
    if owner is None:
        return _block(
            "Replicated",
            BlockingCode.NOT_REPLICATED,
            f'no controller would start it again; give it one, delete it, or annotate it {SAFE_TO_EVICT_ANNOTATION}: "true"',
        )
    if not rules.settings.skip_nodes_with_custom_controller_pods or owner.kind in _KNOWN_CONTROLLERS:
        return None
    return _block(
        "Replicated",
        BlockingCode.NOT_REPLICATED,
        f"its controller {owner.name} is of kind {owner.kind or '(none)'}, which is not known to start pods again; "
        f'annotate the pod {SAFE_TO_EVICT_ANNOTATION}: "true", or set --skip-nodes-with-custom-controller-pods=false',
    )


def _system(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    """Block a kube-system pod that no budget selects, for the first hour of its life.

    After the hour only this rule ends: an annotation or a local volume still blocks an old pod
    (docs/adr/0024-seeds.md). CA applies no further rule to an old pod.
    """
    if not rules.settings.skip_nodes_with_system_pods or asked.pod.metadata.namespace != SYSTEM_NAMESPACE:
        return None
    if rules.budgets is not None and rules.budgets.covers(asked.pod):
        return None
    created, patience = asked.pod.metadata.creation_timestamp, rules.settings.blocking_system_pod_distruption_timeout
    if created is not None and created.timestamp() + patience < rules.now:
        return None if rules.applies_all else _OLD_SYSTEM
    left = (
        ""
        if created is None
        else f", or wait {_seconds(created.timestamp() + patience - rules.now)} until it is old enough"
    )
    return _block(
        "System",
        BlockingCode.UNMOVABLE_SYSTEM_POD,
        f"it is in {SYSTEM_NAMESPACE} and no PodDisruptionBudget selects it; create one{left}",
    )


def _not_safe_to_evict(asked: _RulePod, _: DrainabilityRules) -> PodDrainability | None:
    if asked.safe_to_evict != "false":
        return None
    return _block(
        "NotSafeToEvict",
        BlockingCode.NOT_SAFE_TO_EVICT,
        f'it is annotated {SAFE_TO_EVICT_ANNOTATION}: "false"; take the annotation away once it may be moved',
    )


def _local_storage(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    volumes = asked.pod.spec.volumes
    if not volumes or not rules.settings.skip_nodes_with_local_storage:
        return None
    listed = asked.pod.metadata.annotations.get(SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION, "")
    allowed = frozenset(listed.split(",")) if listed else frozenset[str]()
    kept = next((volume for volume in volumes if _is_local(volume) and volume.name not in allowed), None)
    if kept is None:
        return None
    return _block(
        "LocalStorage",
        BlockingCode.LOCAL_STORAGE,
        f"its volume {kept.name} is on the node and would be lost; name it in the annotation {SAFE_TO_EVICT_LOCAL_VOLUMES_ANNOTATION} (a comma "
        "between names, no space), or set --skip-nodes-with-local-storage=false",
    )


def _is_local(volume: Volume) -> bool:
    return volume.host_path is not None or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")


def _conflict(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    budgets = rules.budgets.conflicting(asked.pod) if rules.budgets is not None else ()
    if not budgets:
        return None
    names = " and ".join(budget.key for budget in budgets)
    text = f"more than one PodDisruptionBudget selects it ({names}), so that the API server refuses to evict it; keep only one"
    return _block("Pdb", BlockingCode.NOT_ENOUGH_PDB, text)


def _budget(asked: _RulePod, rules: DrainabilityRules) -> PodDrainability | None:
    conflict = _conflict(asked, rules)
    if conflict is not None:
        return conflict
    exhausted = rules.budgets.exhausted(asked.pod) if rules.budgets is not None else None
    if exhausted is None:
        return None
    if exhausted.status.disruptions_allowed > 0:
        text = (
            f"nodes that could go before it use up what the PodDisruptionBudget {exhausted.key} allows now "
            f"({exhausted.status.disruptions_allowed}); its turn comes when their pods are healthy elsewhere"
        )
    else:
        text = f"the PodDisruptionBudget {exhausted.key} allows no disruption now; it needs more healthy pods, or a higher limit"
    return _block("Pdb", BlockingCode.NOT_ENOUGH_PDB, text)


def _block(rule: str, code: BlockingCode, message: str) -> PodDrainability:
    return PodDrainability(DrainOutcome.BLOCK, rule, code, message)


def _seconds(duration: float) -> str:
    return f"{max(0.0, duration):.0f} s"


_MOVE = PodDrainability(DrainOutcome.MOVE, "")
_DAEMON = PodDrainability(DrainOutcome.DAEMON, "DaemonSet")
_SKIP_MIRROR = PodDrainability(DrainOutcome.SKIP, "Mirror")
_SKIP_TERMINATING = PodDrainability(DrainOutcome.SKIP, "LongTerminating")
_SAFE = PodDrainability(DrainOutcome.MOVE, "SafeToEvict")
_TERMINAL = PodDrainability(DrainOutcome.MOVE, "Terminal")
_ON_COMPLETION = PodDrainability(DrainOutcome.AWAIT, "OnCompletion")
_OLD_SYSTEM = PodDrainability(DrainOutcome.MOVE, "System")
_RULES: tuple[Rule, ...] = (
    _mirror,
    _long_terminating,
    _replica_count,
    _daemon_set,
    _safe_to_evict,
    _terminal,
    _on_completion,
    _replicated,
    _system,
    _not_safe_to_evict,
    _local_storage,
    _budget,
)


class Blocker(NamedTuple):
    """The pod (``namespace/name``) that blocks the drain of its node, why, and what would unblock it."""

    pod: str
    code: BlockingCode
    message: str


@dataclass(frozen=True, kw_only=True)
class NodeDrainability:
    """The outcome for the pods of a node, in the node's order; the lists hold the pods before ``blocking``.

    ``moving`` are moved, ``daemons`` go with the node, ``on_completion`` are awaited.
    """

    moving: PodSubset
    daemons: tuple[Pod, ...] = ()
    on_completion: tuple[Pod, ...] = ()
    blocking: Blocker | None = None

    @property
    def is_empty(self) -> bool:
        """Return whether no pod moves and none blocks; there may be pods to wait for."""
        return self.blocking is None and not self.moving

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Return the pods to move."""
        return tuple(self.moving.pods)


class DrainabilityCache:
    """The rules' results by kind of pod. Kinds that a budget selects are evaluated again each time."""

    def __init__(self, rules: DrainabilityRules) -> None:
        self._rules = rules
        self._final: dict[PodKind, PodDrainability] = {}

    def broken_gang(self, subset: PodSubset) -> BrokenGang | None:
        """Return a gang that would keep too few pods if the moving pods were evicted; None if there is none."""
        budgets = self._rules.budgets
        if budgets is None or not budgets.has_gangs:
            return None
        moving = {kind for kind in subset.distinct_kinds if self.of(kind).outcome is DrainOutcome.MOVE}
        return budgets.broken_gang(subset.only(moving).pods) if moving else None

    def of(self, kind: PodKind) -> PodDrainability:
        """Return what happens to pods of this kind."""
        status = self._final.get(kind)
        if status is None:
            status = self._rules.evaluate(kind.pod)
            if self._rules.budgets is None or not self._rules.budgets.covers(kind.pod):
                self._final[kind] = status
        return status


def describe_broken(broken: BrokenGang) -> str:
    """Return why a pod of a gang must not be evicted, as the end of a sentence about the pod."""
    return (
        f"its gang {broken.ref.key} needs {broken.min_count} pods that run together, and would keep {broken.left}; "
        "the node may go when the gang has ended"
    )


def evaluate_pods(pods: Sequence[Pod], rules: DrainabilityRules) -> NodeDrainability:
    """Evaluate the pods of a node until one blocks."""
    return evaluate_subset(subset_of(pods), DrainabilityCache(rules))


def evaluate_subset(subset: PodSubset, verdicts: DrainabilityCache) -> NodeDrainability:
    """Evaluate pods as ``evaluate_pods`` does, once for each kind."""
    kinds_by_outcome: dict[DrainOutcome, set[PodKind]] = {}
    blocking, stop = None, len(subset)
    for kind in subset.distinct_kinds if len(subset.distinct_kinds) == 1 else dict.fromkeys(subset.kinds):
        status = verdicts.of(kind)
        if status.code is not None:
            stop = subset.kinds.index(kind)
            blocking = Blocker(subset.pods[stop].key, status.code, status.message)
            break
        kinds_by_outcome.setdefault(status.outcome, set()).add(kind)
    met = subset.part(0, stop)
    broken = verdicts.broken_gang(met) if blocking is None else None
    if broken is not None:
        blocking = Blocker(broken.pod.key, BlockingCode.GANG_MINIMUM, describe_broken(broken))
        met = subset.part(0, subset.pods.index(broken.pod))
    moving, daemons, awaited = (
        met.only(kinds_by_outcome.get(outcome, set()))
        for outcome in (DrainOutcome.MOVE, DrainOutcome.DAEMON, DrainOutcome.AWAIT)
    )
    return NodeDrainability(
        moving=moving, daemons=tuple(daemons.pods), on_completion=tuple(awaited.pods), blocking=blocking
    )
