"""What a removal does next, from what the API server says now (docs/adr/0009-scale-down.md). Pure."""

import math

from msgspec.structs import replace

from nodewright.actuation.ports import Eviction, EvictionAnswer, NodeView
from nodewright.actuation.removals import tell
from nodewright.actuation.removals.pods import grace_of, make_waves, running_pods
from nodewright.actuation.removals.removal import ActiveRemoval, EmitEvent, Evict, Finish, Move, Step
from nodewright.clusterstate.quarantine import DELETION_SECONDS
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval, RemovalResult, RemovalStage
from nodewright.model.settings import Settings
from nodewright.planner.scale_down.drainability import evaluate_pods
from nodewright.planner.scale_down.pdb import DisruptionBudgets
from nodewright.snapshot.workloads import Workloads

EVICTION_RETRY_SECONDS = 10.0
POLL_SECONDS = 5.0
EVICTION_HEADROOM_SECONDS = 30.0
DELAY_DELETION_PREFIX = "delay-deletion.cluster-autoscaler.kubernetes.io/"


def begin(removal: NodeRemoval, node: Node, now: float, settings: Settings) -> ActiveRemoval:
    """The removal once its node is tainted; ``node`` is as it was when it was."""
    return ActiveRemoval(
        removal=removal,
        stage=RemovalStage.TAINTED,
        started=now,
        next_at=now + settings.drain.node_delete_delay_after_taint,
        holds=settings.drain.node_deletion_delay_timeout > 0 and _is_held(node),
    )


def next_step(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """The removal as it goes on and what is to be done for it; nothing before ``going.next_at``."""
    problem = _stranger(going.removal, sight)
    if now < going.next_at:
        return going, ()
    if problem and going.stage != RemovalStage.DELETING:
        return going, (Finish(result=RemovalResult.INTERNAL, message=problem),)
    return _move(going, sight, now, settings)


def answered(going: ActiveRemoval, pod: str, eviction: Eviction, now: float) -> ActiveRemoval:
    """The removal after the API server's answer about one of its pods."""
    if eviction.answer == EvictionAnswer.REFUSED:
        retry = now + max(EVICTION_RETRY_SECONDS, eviction.retry_after)
        return replace(going, refusal=f"{pod}: {eviction.message}", next_at=max(going.next_at, retry))
    left = tuple(other for other in going.unanswered if other != pod)
    leaving = (*going.leaving, pod) if pod in going.waves[0].full else going.leaving
    told = replace(going, unanswered=left, leaving=leaving, evicted=(*going.evicted, pod))
    # When the last of them has been told, it is time to see who is gone.
    return told if left else replace(told, told_at=now, next_at=now)


def asked_to_delete(going: ActiveRemoval, now: float) -> ActiveRemoval:
    """The call was made and nobody knows how it ended: the world will show."""
    return replace(going, stage=RemovalStage.DELETING, began=now, next_at=now + POLL_SECONDS, ready_at=math.inf)


def postponed(going: ActiveRemoval, seconds: float) -> ActiveRemoval:
    """The removal as if time had stood still for so long."""
    ready_at = going.ready_at if going.is_ready else math.inf
    began, told_at = going.began + seconds, going.told_at + seconds
    return replace(going, began=began, told_at=told_at, next_at=going.next_at + seconds, ready_at=ready_at)


def _move(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    match going.stage:
        case RemovalStage.TAINTED:
            return _look_again(going, sight, now, settings)
        case RemovalStage.DRAINING if going.unanswered:
            return _evict(going, sight, now, settings)
        case RemovalStage.DRAINING:
            return _await_departure(going, sight, now, settings)
        case RemovalStage.READY:
            return _respect_holds(going, sight, now, settings)
        case RemovalStage.DELETING:
            return _await_deletion(going, sight, now)


def _stranger(removal: NodeRemoval, sight: NodeView) -> str:
    """Why the node of that name is not the one that was to go; empty: it is."""
    if sight.node is None:
        return "the node is gone"
    provider_id = sight.node.spec.provider_id
    if provider_id.lower() != removal.instance_id.lower():
        return f"it is another machine by now: {provider_id}"
    return ""


def _look_again(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Pods may have come since the plan was made, and budgets may have shrunk (A12)."""
    pods = running_pods(sight.pods, settings.pods)
    problem = _why_not(going.removal, pods, sight.workloads, settings, now)
    if problem:
        return going, (Finish(result=RemovalResult.INTERNAL, message=problem),)
    if going.removal.places:  # a plan that is CA's says nothing of the order
        turns = {key: turn for turn, key in enumerate(going.removal.pods)}
        pods = tuple(sorted(pods, key=lambda pod: turns.get(pod.key, len(turns))))
    waves = make_waves(pods, settings.drain, is_empty=not going.removal.drains)
    return _next_wave(replace(going, waves=waves), sight, now, settings)


def _why_not(removal: NodeRemoval, pods: tuple[Pod, ...], workloads: Workloads, settings: Settings, now: float) -> str:
    if removal.drains:
        budgets = DisruptionBudgets.of(workloads, settings)
        verdict = evaluate_pods(pods, workloads, budgets, settings.drain, now, as_ca=settings.is_ca)
    else:
        verdict = evaluate_pods(pods, Workloads(), None, settings.drain, now, as_ca=settings.is_ca)
    if verdict.blocking is not None:
        return f"pod {verdict.blocking.pod} keeps it: {verdict.blocking.message or verdict.blocking.code.value}"
    there = [pod.key for pod in (*verdict.pods, *verdict.on_completion)]
    # As in CA, what is to be drained takes others along, unless each pod was promised a place.
    known = set(there if removal.drains and not removal.places else removal.pods)
    new = [pod for pod in there if pod not in known]
    return f"new pods run on it, {new[0]} for one" if new else ""


def _next_wave(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Start the first wave that is left; after the last one only the call remains."""
    if not going.waves:
        return _drained(going, sight, now, settings)
    wave = going.waves[0]
    unanswered = (*wave.full, *wave.best_effort)
    draining = replace(going, stage=RemovalStage.DRAINING, began=now, unanswered=unanswered, leaving=())
    draining, calls = _evict(draining, sight, now, settings)
    return draining, (*(EmitEvent(event=tell.evicting(pod)) for pod in unanswered), *calls)


def _evict(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Ask for all that has not been accepted yet, until time is up. The first time everybody is asked."""
    wave = going.waves[0]
    if now > going.began and now >= going.began + settings.drain.max_pod_eviction_time:
        return _give_up(going, sight, now, settings)
    present = {pod.key: pod for pod in sight.pods}
    gone = [pod for pod in going.unanswered if pod not in present]
    going = replace(going, next_at=now + EVICTION_RETRY_SECONDS)
    for pod in gone:
        going = answered(going, pod, Eviction(answer=EvictionAnswer.GONE), now)
    calls = [Evict(pod=present[pod], grace_seconds=grace_of(present[pod], wave)) for pod in going.unanswered]
    return going, tuple(calls)


def _give_up(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Those that only got the call are no reason to stop; the others are."""
    stuck = [pod for pod in going.unanswered if pod in going.waves[0].full]
    if not stuck:
        return _await_departure(replace(going, unanswered=(), told_at=now), sight, now, settings)
    steps: list[Step] = [EmitEvent(event=tell.not_evicted(pod)) for pod in stuck]
    message = f"{len(stuck)} pods could not be evicted; {going.refusal}"
    return going, (*steps, Finish(result=RemovalResult.FAILED_TO_EVICT, message=message))


def _await_departure(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Evicted pods end when they are ready to, within their grace."""
    present = {pod.key for pod in sight.pods}
    leaving = tuple(pod for pod in going.leaving if pod in present)
    if not leaving:
        return _next_wave(replace(going, waves=going.waves[1:], leaving=(), refusal=""), sight, now, settings)
    if now >= going.told_at + going.waves[0].grace_seconds + EVICTION_HEADROOM_SECONDS:
        message = f"{len(leaving)} evicted pods do not end, {leaving[0]} for one"
        steps = [EmitEvent(event=tell.not_evicted(pod)) for pod in leaving]
        return going, (*steps, Finish(result=RemovalResult.FAILED_TO_EVICT, message=message))
    return replace(going, leaving=leaving, next_at=now + POLL_SECONDS), ()


def _drained(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Everything that had to leave has left."""
    return _respect_holds(replace(going, stage=RemovalStage.READY, began=now), sight, now, settings)


def _respect_holds(going: ActiveRemoval, sight: NodeView, now: float, settings: Settings) -> Move:
    """Somebody (a storage or load-balancer controller) may have to tidy up first; its patience ends."""
    ready = replace(going, next_at=math.inf, ready_at=now)
    if not going.holds or sight.node is None or not _is_held(sight.node):
        return ready, ()
    if now >= going.began + settings.drain.node_deletion_delay_timeout:
        return ready, (EmitEvent(event=tell.still_held(going.name)),)
    return replace(going, next_at=now + POLL_SECONDS), ()


def _await_deletion(going: ActiveRemoval, sight: NodeView, now: float) -> Move:
    """The call did not answer. Once the node is gone it is known to have succeeded."""
    if sight.node is None:
        return going, (Finish(result=RemovalResult.OK),)
    if now >= going.began + DELETION_SECONDS:
        return going, (
            Finish(result=RemovalResult.FAILED_TO_DELETE, message="the call did not answer, the node stays"),
        )
    return replace(going, next_at=now + POLL_SECONDS), ()


def _is_held(node: Node) -> bool:
    return any(key.startswith(DELAY_DELETION_PREFIX) for key in node.metadata.annotations)
