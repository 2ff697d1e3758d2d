"""Carries out removals: makes the calls that the pure steps ask for, one after the other."""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from nodewright.actuation.actor import Ended
from nodewright.actuation.inbox import Inbox
from nodewright.actuation.ports import ClusterWrites, EventSink, Eviction, EvictionAnswer
from nodewright.actuation.removals import tell
from nodewright.actuation.removals.batch import Batch, find_batches
from nodewright.actuation.removals.deleter import Calls, Deleter
from nodewright.actuation.removals.marked_nodes import MarkedNodes
from nodewright.actuation.removals.places import PlacementRecheck
from nodewright.actuation.removals.priorities import find_ranks
from nodewright.actuation.removals.removal import ActiveRemoval, EmitEvent, Evict, Finish, Step
from nodewright.actuation.removals.step import (
    EVICTION_RETRY_SECONDS,
    POLL_SECONDS,
    answered,
    asked_to_delete,
    begin,
    next_step,
    postponed,
)
from nodewright.clusterstate.quarantine import DELETION_SECONDS
from nodewright.clusterstate.state import ClusterState
from nodewright.model.action import Done, Failed
from nodewright.model.clock import Clock
from nodewright.model.errors import KubeApiError, NodewrightError, TargetChanged
from nodewright.model.group import GroupRef
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalResult, RemovalStage, Removing
from nodewright.model.settings import Settings

_SPOILED = Finish(result=RemovalResult.FAILED_TO_DELETE, message="another node of its group stays")


@dataclass(frozen=True, kw_only=True)
class ActuatorPorts:
    """Where removals write, and where they tell of it."""

    cluster: ClusterWrites
    calls: Calls
    inbox: Inbox
    events: EventSink
    clock: Clock


class Actuator:
    """All that are under way. ``step`` when ``next_at`` has come; nothing happens in between."""

    def __init__(self, outlet: ActuatorPorts, settings: Settings, name: str) -> None:
        find_ranks(settings.drain)  # raises ConfigError now, not in the middle of a drain
        self._cluster = outlet.cluster
        self._inbox = outlet.inbox
        self._events = outlet.events
        self._clock = outlet.clock
        self._deleter = Deleter(outlet.calls)
        self._settings = settings
        self._name = name
        self._calls = 0
        self._going: dict[str, ActiveRemoval] = {}
        self._marked = MarkedNodes(outlet.cluster, outlet.clock)
        # Zero-or-max groups that have lost a removal since removals were last started: the others may not go either.
        self._spoiled: set[GroupRef] = set()
        self._rests_until = -math.inf

    def use(self, settings: Settings) -> None:
        """Other settings, also for what is under way. Raises ConfigError."""
        find_ranks(settings.drain)
        self._settings = settings

    def under_way(self) -> dict[str, Removing]:
        """By node name."""
        return {name: going.shown for name, going in self._going.items()}

    def learn(self, state: ClusterState, outcomes: Iterable[Ended]) -> None:
        """What the last loop saw of target sizes, and what it did to them."""
        self._deleter.learn(state, outcomes)

    def next_at(self) -> float:
        """When ``step`` is due (epoch seconds); infinity: not before something else happens."""
        moments = [going.next_at for going in self._going.values()]
        moments += [self._due_at(batch) for batch in self._batches()]
        moments += self._marked.due()
        return max(min(moments, default=math.inf), self._rests_until)

    # Beginning

    def start(self, removals: Sequence[NodeRemoval]) -> tuple[NodeRemoval, ...]:
        """Taint all nodes of those that are empty, then of the others; answers which removals began.

        When one node cannot be tainted none of its kind goes, nor any that comes later (A12).
        """
        self._spoiled.clear()
        new = [removal for removal in removals if removal.node not in self._going]
        begun: list[NodeRemoval] = []
        for kind in ([r for r in new if not r.drains], [r for r in new if r.drains]):
            if not self._mark(kind):
                break
            begun += kind
        return tuple(begun)

    def _mark(self, kind: Sequence[NodeRemoval]) -> bool:
        now, marked, problems = self._clock.now(), list[ActiveRemoval](), dict[str, str]()
        for removal in kind:
            node, problem = self._marked.mark(removal.node, now, self._settings)
            if node is not None:
                marked.append(begin(removal, node, now, self._settings))
            else:
                problems[removal.node] = problem
        if problems:
            for going in marked:
                self._marked.give_back(going.name, self._settings)
            first = f"{next(iter(problems))} could not be marked"
            for removal in kind:
                message = problems.get(removal.node, first)
                self._conclude(removal, now, Finish(result=RemovalResult.FAILED_TO_MARK, message=message))
            return False
        for going in marked:
            self._going[going.name] = going
            for event in tell.started(going.removal):
                self._events.record(event)
        return True

    def call_off(self, groups: Collection[GroupRef], why: str) -> None:
        """Nodes of these groups stay, unless their machines are being deleted already."""
        for going in list(self._going.values()):
            if going.removal.group in groups and going.stage != RemovalStage.DELETING and going.name in self._going:
                self._end(going, Finish(result=RemovalResult.INTERNAL, message=why))

    # Going on

    def step(self, paused_until: float = -math.inf) -> tuple[Ended, ...]:
        """Everything that is due by now; answers how the calls to clouds ended. During a pause nothing is evicted or
        deleted.
        """
        now = self._clock.now()
        self._marked.repay(now, self._settings)
        if now < paused_until:
            self._rest(now, paused_until)
            return ()
        places = PlacementRecheck(self._cluster, self._settings)
        for name in [name for name, going in self._going.items() if going.next_at <= now]:
            if name in self._going:  # another one may have taken it along
                self._advance(self._going[name], places)
        due = [batch for batch in self._batches() if self._due_at(batch) <= self._clock.now()]
        # An answer about one batch may end or postpone others.
        outcomes = (self._delete(batch) for batch in due if all(self._is_as_it_was(going) for going in batch.members))
        return tuple(outcome for outcome in outcomes if outcome is not None)

    def _is_as_it_was(self, going: ActiveRemoval) -> bool:
        return self._going.get(going.name) is going

    def _advance(self, going: ActiveRemoval, places: PlacementRecheck) -> None:
        """As far as it goes now."""
        while going.next_at <= self._clock.now():
            try:
                sight = self._cluster.look(going.name)
                taken = places.take(going.removal, sight.pods) if going.stage == RemovalStage.TAINTED else ""
            except KubeApiError:
                self._going[going.name] = replace(going, next_at=self._clock.now() + POLL_SECONDS)
                return
            if taken:
                self._end(going, Finish(result=RemovalResult.INTERNAL, message=taken))
                return
            going, steps = next_step(going, sight, self._clock.now(), self._settings)
            self._going[going.name] = going
            for step in steps:
                self._do(step, going.name)
            if going.name not in self._going:
                return
            going = self._going[going.name]
        if going.is_ready and going.removal.group in self._spoiled:
            self._end(going, _SPOILED)

    def _do(self, step: Step, name: str) -> None:
        match step:
            case EmitEvent():
                self._events.record(step.event)
            case Finish():
                self._end(self._going[name], step)
            case Evict():
                answer = self._evict(step)
                self._going[name] = answered(self._going[name], step.pod.key, answer, self._clock.now())

    def _evict(self, step: Evict) -> Eviction:
        try:
            return self._cluster.evict(step.pod, step.grace_seconds)
        except KubeApiError as error:
            return Eviction(answer=EvictionAnswer.REFUSED, message=str(error))

    def _rest(self, now: float, until: float) -> None:
        """Wait for the end of a pause; one that is longer than pods may take to be evicted is not waited for."""
        seconds = min(EVICTION_RETRY_SECONDS, until - now)
        self._rests_until = now + seconds
        too_long = until - now > self._settings.drain.max_pod_eviction_time
        for going in list(self._going.values()):
            if going.stage == RemovalStage.DELETING or not too_long:
                self._going[going.name] = postponed(going, seconds)
            elif going.name in self._going:
                self._end(going, Finish(result=RemovalResult.INTERNAL, message="writes to clouds are paused"))

    # Deleting

    def _batches(self) -> list[Batch]:
        return find_batches(self._going.values(), self._settings.drain.node_deletion_batcher_interval)

    def _due_at(self, batch: Batch) -> float:
        """A group whose target is not known waits until it is, for a while."""
        known = self._deleter.knows(batch.group)
        return batch.due_at if known else batch.due_at + DELETION_SECONDS

    def _delete(self, batch: Batch) -> Ended | None:
        if not self._deleter.knows(batch.group):
            if batch.due_at + DELETION_SECONDS <= self._clock.now():
                self._end_all(batch, "the target size of its group cannot be read")
            return None
        self._calls += 1
        try:
            outcome = self._deleter.delete(batch, f"{self._name}-removal-{self._calls}")
        except NodewrightError:  # no audit, no call
            for going in batch.members:
                self._going[going.name] = replace(going, ready_at=self._clock.now() + EVICTION_RETRY_SECONDS)
            return None
        self._take(batch, outcome)
        return outcome

    def _take(self, batch: Batch, outcome: Ended) -> None:
        """An answer that leaves open which machines go is settled by looking."""
        match outcome:
            case Done(accepted=accepted) if accepted == len(batch.members):
                for going in batch.members:
                    self._end(going, Finish(result=RemovalResult.OK))
            case Done(accepted=0):
                self._end_all(batch, "the cloud accepted none of the machines")
            case Failed(code=TargetChanged.code):
                return
            case Failed(retry_after=float(seconds)) if self._may_ask_later(batch, seconds):
                self._postpone(batch.group, self._clock.now() + _pause(seconds))
            case Failed():
                self._end_all(batch, outcome.message)
            case _:
                for going in batch.members:
                    self._going[going.name] = asked_to_delete(going, self._clock.now())

    def _may_ask_later(self, batch: Batch, seconds: float) -> bool:
        """May a busy cloud be asked again while the nodes are still worth waiting for?"""
        ends = min(going.began for going in batch.members) + DELETION_SECONDS
        return self._clock.now() + _pause(seconds) <= ends

    def _postpone(self, group: GroupRef, until: float) -> None:
        """Ask for nothing of a busy group before that: one call tells as much as one for each node."""
        for name, going in self._going.items():
            if going.removal.group == group and going.is_ready:
                self._going[name] = replace(going, ready_at=max(going.ready_at, until))

    # Ending

    def _end_all(self, batch: Batch, message: str) -> None:
        for going in batch.members:
            if going.name in self._going:
                self._end(going, Finish(result=RemovalResult.FAILED_TO_DELETE, message=message))

    def _end(self, going: ActiveRemoval, end: Finish) -> None:
        del self._going[going.name]
        if end.result != RemovalResult.OK:
            self._marked.give_back(going.name, self._settings)
        self._conclude(going.removal, going.started, end, going.evicted)
        if end.result != RemovalResult.OK and going.removal.batch > 1:
            self._spoil(going.removal.group)

    def _spoil(self, group: GroupRef) -> None:
        """The others of a zero-or-max group cannot go without this one."""
        self._spoiled.add(group)
        for going in [held for held in self._going.values() if held.removal.group == group and held.is_ready]:
            if going.name in self._going:
                self._end(going, _SPOILED)

    def _conclude(self, removal: NodeRemoval, started: float, end: Finish, evicted: tuple[str, ...] = ()) -> None:
        over = RemovalEnded(
            removal=removal,
            started=started,
            at=self._clock.now(),
            result=end.result,
            message=end.message,
            evicted=evicted,
        )
        self._inbox.post_ended(over)
        self._events.record(tell.ended(over))


def _pause(retry_after: float) -> float:
    """Seconds until a busy cloud is asked again."""
    return max(EVICTION_RETRY_SECONDS, retry_after)
