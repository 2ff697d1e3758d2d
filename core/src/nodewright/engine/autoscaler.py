"""One loop: observe, fold, plan, check, save, act."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from nodewright.actuation import (
    CloudWriter,
    EventFilter,
    Inbox,
    WriteGate,
    loop_events,
    saved_state_events,
    violation_events,
)
from nodewright.actuation.actuator import Actuator, ActuatorPorts
from nodewright.actuation.cloud_writes import CloudWriteRules, WriteOutcome
from nodewright.actuation.events import buffer_events
from nodewright.actuation.status_writes import StatusWriter
from nodewright.actuation.taints import StartupCleanup
from nodewright.actuation.write_gate import DeletionRecheck
from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory, PlanMemory
from nodewright.clusterstate.observed_groups import as_if_made, unsettled, with_evidence, with_held_groups
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.daemon import BatchWindow, Scope
from nodewright.engine.intent import (
    WriteAheadLog,
    last_write,
    machines_of,
    with_intent,
    with_removals,
    without_charge,
)
from nodewright.engine.planning import Planning, without_violations
from nodewright.engine.ports import Loaded, Ports
from nodewright.engine.report import LoopReport
from nodewright.engine.timers import PlacementLooks, WakeUps, next_deadline, next_timer
from nodewright.model.action import Action, DeleteInstances
from nodewright.model.clock import Clock
from nodewright.model.errors import InvariantError, NodewrightError
from nodewright.model.group import Machine
from nodewright.model.plan import HeldBack, Plan, PlannedAction
from nodewright.model.pod import Pod
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalResult, Removing
from nodewright.model.settings import PodSettings, Settings, default_options
from nodewright.observe import Observer
from nodewright.planner.scale_down.missing_pods import CachedPods, MissingPods
from nodewright.planner.scale_up.pending_pods import hint_key, is_pending
from nodewright.snapshot.observation import Observation
from nodewright.validate import PlanViolation

# Seconds until the next check whether held removals may go on.
_LOOK_AGAIN_SECONDS = 10.0


@dataclass
class _Step:
    """The progress of a loop. ``memory`` is what the next loop will know if this one ends now."""

    memory: Memory
    state: ClusterState | None = None
    plan: Plan | None = None
    outcomes: tuple[WriteOutcome, ...] = ()
    violations: tuple[PlanViolation, ...] = field(default_factory=tuple)
    problem: str = ""
    begun: tuple[NodeRemoval, ...] = ()


class Autoscaler:
    """Runs the loop. Between loops it keeps its memory, and the results of calls that no loop has folded into it yet.

    ``saved`` is what the store held when this process began to lead.
    """

    def __init__(
        self,
        ports: Ports,
        clock: Clock,
        settings: Settings,
        random: Random,
        saved: Loaded,
        *,
        planning: Planning | None = None,
    ) -> None:
        self._ports = ports
        self._clock = clock
        self._settings = settings
        self._random = random
        self._planning = planning or Planning()
        self._inbox = Inbox()
        self._observer = Observer(
            ports.cluster,
            ports.providers,
            default_options(settings),
            keeps_unlisted=settings.policy.keeps_unlisted_groups,
            prices=ports.prices,
            disruption=ports.disruption,
        )
        self._write_ahead = WriteAheadLog(ports.store, ports.gate, clock)
        self._cloud_writer = CloudWriter(
            ports.providers,
            clock,
            self._inbox,
            ports.audit,
            rules=CloudWriteRules(
                stops_at_refusal=settings.policy.stops_at_refusal, defers_busy=settings.policy.waits_for_busy_clouds
            ),
            cover=self._cover,
        )
        self._status_writer = StatusWriter(ports.cluster, ports.providers, clock, ports.audit)
        self._filter = EventFilter(0.0) if settings.cluster.record_duplicated_events else EventFilter()
        self._memory: Memory = saved.memory
        self._warning = saved.warning
        for provider in ports.providers:
            provider.note_last_write(last_write(saved.memory, provider.name, clock.now()))
        self._has_looked = False
        self._name = f"{clock.now():.3f}"
        self._loops = 0
        # Whether each of the last two loops grew a group, began a removal or served a request.
        self._did_something = (False, False)
        self._wake_ups = WakeUps()
        self._placement_looks = PlacementLooks()
        actuator_ports = ActuatorPorts(
            reader=ports.cluster,
            cluster=ports.cluster,
            calls=self._cloud_writer,
            inbox=self._inbox,
            events=ports.events,
            clock=clock,
            find_cached=self._find_cached,
        )
        self._actuator = Actuator(actuator_ports, settings.removals, self._name)
        self._startup_cleanup = StartupCleanup(ports.cluster, ports.events)
        # Ended removals that the current loop has taken from the inbox.
        self._ended_removals: tuple[RemovalEnded, ...] = ()
        self._is_halted = False
        # The pending pods of the last loop.
        self._last_pending: tuple[Pod, ...] = ()

    def use(self, settings: Settings) -> None:
        """Use other settings from the next loop on. The profile, the providers and the ports stay."""
        self._actuator.use(settings.removals)
        self._observer.use(default_options(settings))
        self._settings = settings

    def run_once(self, scope: Scope = Scope.ALL) -> LoopReport:
        """Run one loop. If the cluster or the store fails, the loop ends; an InvariantError also ends the process.

        Pods outside the ``scope`` wait for a later loop. A LOOK that finds no failed group makes no writes.
        """
        now = self._clock.now()
        self._loops += 1
        step = _Step(without_future_times(self._memory, now))  # the clock may be set back at any time
        try:
            state, step.problem = self._observe(now, step.memory, scope)
            step.memory, step.state, self._is_halted = state.memory, state, state.is_halted
            begun = self._clock.now()
            paused, _ = self._find_pause(state.now)
            timed = replace(state, elapsed=lambda: self._clock.now() - begun, paused=paused)
            plan, memory = self._planning.make_plan(timed, self._settings, self._random)
            step.violations = self._check(state, plan, memory)
            plan = without_violations(plan, step.violations)
            waits = scope is Scope.LOOK and not any(group.failures for group in state.groups.values())
            step.plan, step.memory = self._limit_writes(plan, memory, state, forbidden=waits or bool(step.problem))
            step.state = replace(state, memory=step.memory)
            self._write_ahead.save(_with_intent(step.memory, state, step.plan), step.plan.actions, self._settings)
            step.plan = plan = self._write(step, step.plan)
            self._record_events(step, state, plan)
            step.begun = self._actuator.scale_down(state, plan.scale_down, step.outcomes)
            never_started = [removal for removal in plan.scale_down.removals if removal not in step.begun]
            step.memory = without_charge(step.memory, machines_of(never_started))
        except InvariantError:
            raise
        except NodewrightError as error:
            step.problem = f"{type(error).__name__}: {error}"
        finally:
            self._memory = step.memory  # also after a loop that ended early
        return self._report(step, now)

    def _report(self, step: _Step, started: float) -> LoopReport:
        """Return the report of a loop, with when the next one is due."""
        timer = math.inf
        if step.state is not None and step.plan is not None:
            unfinished = self._startup_cleanup.is_pending or self._inbox.ended
            timer = started if unfinished else next_timer(step.state, step.plan, self._settings)
            timer = min(timer, self._startup_cleanup.abandoned.next_at(), self._next_release())
        ended, self._ended_removals = self._clock.now(), ()
        report = LoopReport(
            started=started,
            finished=ended,
            loop=self._loop_name,
            next_timer=timer,
            removing=self.under_way(),
            state=step.state,
            plan=step.plan,
            outcomes=step.outcomes,
            violations=step.violations,
            problem=step.problem,
            begun=step.begun,
        )
        self._did_something = (self._did_something[-1], report.did_something)
        return replace(report, wake_at=self._wake_at(report))

    def _wake_at(self, report: LoopReport) -> float:
        """Return when the next loop starts although the scan interval has not ended (epoch seconds).

        It starts when a deadline passes, or when kube-scheduler has had time to bind pods to machines that came.
        """
        loop, policy, deadline, look_at = self._settings.loop, self._settings.policy, math.inf, math.inf
        if policy.looks_after_new_nodes and loop.frequent_loops_enabled:
            look_at = self._placement_looks.next_at(report, loop.scan_interval)
        wakes = policy.wakes_at_deadlines and loop.frequent_loops_enabled
        if wakes and report.state is not None and report.plan is not None:
            deadline = next_deadline(report.state, report.plan, self._settings)
        at_deadline = self._wake_ups.next_at(
            deadline,
            started=report.started,
            did_something=bool(report.outcomes),
            scan_interval=loop.scan_interval,
        )
        return min(at_deadline, look_at)

    def end(self) -> None:
        """Save that no write is under way, after the last loop. Raise NodewrightError if that fails."""
        self._write_ahead.end()

    def under_way(self) -> tuple[Removing, ...]:
        """Return the removals under way."""
        return tuple(self._actuator.under_way().values())

    def unreported(self) -> tuple[RemovalEnded, ...]:
        """Return the removals that have ended and are in no report yet."""
        return (*self._ended_removals, *self._inbox.ended)

    @property
    def _loop_name(self) -> str:
        return f"{self._name}-{self._loops}"

    @property
    def next_loop(self) -> str:
        """Return the id of the next loop."""
        return f"{self._name}-{self._loops + 1}"

    def next_loop_at(self, report: LoopReport) -> float:
        """Return when to run again (epoch seconds), unless ``wake_at`` of the report comes before.

        Run again at once after a refusal, or if a group grew and another one helps the pods that are left; else one scan
        interval after the start of this loop. Under profile "ca" run again at once also if one of the last two loops grew
        a group, began a removal or served a request.
        """
        loop = self._settings.loop
        follows_work = (
            self._settings.policy.runs_again_after_work and loop.frequent_loops_enabled and any(self._did_something)
        )
        if report.plans_anew or follows_work:
            return report.finished
        return max(report.finished, report.started + loop.scan_interval)

    def batch_window(self) -> BatchWindow:
        """Return how long a loop that pending pods or growth start waits for more pods."""
        loop = self._settings.loop
        if not (self._settings.policy.gathers_pods_before_loop and loop.frequent_loops_enabled):
            return BatchWindow(0.0, 0.0)
        return BatchWindow(loop.batch_idle_duration, loop.batch_max_duration)

    def next_step_at(self) -> float:
        """Return when ``step_removals`` is due (epoch seconds); infinity if no removal waits for time to pass."""
        return self._actuator.next_at()

    def step_removals(self) -> tuple[WriteOutcome, ...]:
        """Do what is due for the removals under way; return the results of cloud calls, which the next loop also gets."""
        return self._actuator.step(self._held_until(self._clock.now()))

    def _find_cached(self) -> CachedPods:
        """Return the pods as the cache shows them now. Raise KubeApiError."""
        seen = self._ports.cluster.read(self._clock.now())
        return CachedPods.of(seen.snapshot, seen.workloads)

    def _find_missing(self) -> MissingPods:
        """Return the pods that the cache lacks; none where the policy does not compare. Raise KubeApiError."""
        return self._find_cached().missing if self._settings.policy.compares_pods_with_controllers else MissingPods()

    def _held_until(self, now: float) -> float:
        """Return until when (epoch seconds) nothing is evicted or deleted: during a pause or in an unhealthy cluster."""
        paused, until = self._find_pause(now)
        waits = bool(paused) or (self._is_halted and self._settings.policy.holds_removals_while_unhealthy)
        return max(until, now + _LOOK_AGAIN_SECONDS) if waits else now

    def _next_release(self) -> float:
        """Return when the next group is free that is held for a write of a former process (epoch seconds)."""
        return min((write.until for write in self._memory.writes_in_flight.values()), default=math.inf)

    def _write(self, step: _Step, plan: Plan) -> Plan:
        """Write statuses and make the plan's calls; return the plan without what could not be written."""
        step.plan = plan = self._status_writer.write_pending(plan)
        step.outcomes, withheld = self._act(plan)
        step.plan = plan = _without_withheld(plan, withheld)
        step.memory = without_charge(step.memory, _machines_of_deletions(withheld))
        self._status_writer.call_providers(plan.provisioning, self._loop_name)
        self._status_writer.write_results(plan.provisioning, step.outcomes)
        self._has_looked = self._has_looked or not step.problem
        return plan

    def _record_events(self, step: _Step, state: ClusterState, plan: Plan) -> None:
        """Record the events of the loop's decisions and their results, each event once."""
        events = [
            *saved_state_events(self._warning),
            *violation_events(step.violations),
            *loop_events(state, plan, step.outcomes),
        ]
        events += [*buffer_events(plan, step.outcomes), *self._status_writer.take_events()]
        for event in self._filter.pass_through(events, state.now):
            self._ports.events.record(event)
        self._warning = ""

    def _act(self, plan: Plan) -> tuple[tuple[WriteOutcome, ...], tuple[HeldBack, ...]]:
        """Make the plan's calls; return their results, and the deletions that a last look at the nodes forbade."""
        if not self._settings.policy.spares_machines_that_ran:
            return self._cloud_writer.act(plan.actions, self._loop_name), ()
        last = DeletionRecheck(self._ports.cluster, self._clock, plan.actions, self._find_missing)
        outcomes = self._cloud_writer.act(plan.actions, self._loop_name, last.permit)
        return outcomes, tuple(last.withheld)

    def _cover(self, action: Action) -> None:
        """Save that the write is about to be made. Raise NodewrightError if that fails."""
        going = (removing.removal for removing in self.under_way())
        soon = [removal.instance_id for removal in going if removal.group == action.group]
        self._write_ahead.cover(action, self._settings, soon)

    def _limit_writes(
        self, plan: Plan, after: PlanMemory, state: ClusterState, *, forbidden: bool
    ) -> tuple[Plan, Memory]:
        """Return the plan with only the writes that may be made now, and the memory after it."""
        if forbidden:
            return plan.without_writes(), state.memory
        paused, until = self._find_pause(state.now)
        has_looked = self._has_looked or not self._settings.policy.looks_twice_before_deleting
        limits = self._settings.deletion_limits
        gate = WriteGate(settings=limits, paused=paused, paused_until=until, has_looked=has_looked)
        plan, charged = gate.apply(plan, state)
        memory = after.with_called(call.request.id for call in plan.provisioning.calls).put_into(state.memory)
        return plan, replace(memory, deletions=charged.deletions, empty_deletions=charged.empty)

    def _find_pause(self, now: float) -> tuple[str, float]:
        """Return why nothing may be written (empty: writes are allowed), and until when.

        If the pause cannot be read, writes are paused: an operator may have ordered it.
        """
        try:
            pause = self._ports.store.load_pause()
        except NodewrightError as error:
            return f"paused: {error}", now
        return (str(pause), pause.until) if pause is not None and pause.holds(now) else ("", 0.0)

    def _check(self, state: ClusterState, plan: Plan, memory: PlanMemory) -> tuple[PlanViolation, ...]:
        violations = self._planning.check(state.observation, plan, memory, self._settings)
        if violations and self._planning.strict:
            raise InvariantError(f"a plan breaks its rules: {violations}")
        return violations

    def _observe(self, now: float, before: Memory, scope: Scope) -> tuple[ClusterState, str]:
        """Return the new state, and why nothing may be done because of it (empty: it may).

        If the cluster cannot be read, the results of calls wait for the next loop.
        """
        removing, ended, outcomes = self._actuator.under_way(), self._inbox.drain_ended(), self._inbox.drain()
        self._ended_removals = ended
        failed = (over.removal for over in ended if over.result != RemovalResult.OK)
        memory = without_charge(before, machines_of(failed))

        def look() -> tuple[ClusterState, str]:
            seen, problem = self._observer.observe(now, memory, outcomes, removing)
            if scope is not Scope.ALL:
                seen = _with_known_pods(seen, self._last_pending, self._settings.pods)
            writes = unsettled(memory.writes_in_flight, seen)
            believed = with_evidence(seen, memory) if self._settings.policy.spares_machines_that_ran else seen
            known = as_if_made(memory.last_known, believed, writes)
            held_memory = replace(memory, writes_in_flight=writes, last_known=known)
            state = fold(held_memory, with_held_groups(seen, writes), outcomes, self._settings, ended)
            # A held group's last known size shows later whether the write took full effect.
            held = {ref: memory.last_known[ref] for ref in writes if ref in memory.last_known}
            kept = {**state.memory.last_known, **held}
            return replace(state, memory=replace(state.memory, last_known=kept)), problem

        try:
            state, problem = look()
            if not problem and self._startup_cleanup.run(state, self._settings.removals):
                state, problem = look()
        except NodewrightError:
            for outcome in outcomes:
                self._inbox.post(outcome)
            for over in ended:
                self._inbox.post_ended(over)
            self._ended_removals = ()
            raise
        self._last_pending = state.observation.pending
        if not problem:
            settled = self._startup_cleanup.abandoned.take_settled(state)
            state = replace(state, memory=without_charge(state.memory, settled))
        return state, problem


def _with_known_pods(seen: Observation, known: tuple[Pod, ...], settings: PodSettings) -> Observation:
    """Return the observation with only those pending pods for which kube-scheduler had found no place in the last loop."""
    keys = {hint_key(pod) for pod in known if is_pending(pod, settings)}
    return replace(seen, pending=tuple(pod for pod in seen.pending if hint_key(pod) in keys))


def _with_intent(memory: Memory, state: ClusterState, plan: Plan) -> Memory:
    """Return the memory as it is to be saved before the plan's writes: as if all of them had been made."""
    under_way = [removing.removal for removing in state.observation.removing.values()]
    memory = with_intent(memory, state, plan.actions)
    return with_removals(memory, (*under_way, *plan.scale_down.removals))


def _without_withheld(plan: Plan, withheld: Sequence[HeldBack]) -> Plan:
    """Return the plan with these deletions held back."""
    if not withheld:
        return plan
    actions: list[PlannedAction] = []
    machines = _machines_of_deletions(withheld)
    for action in plan.actions:
        if isinstance(action, DeleteInstances):
            ids = enumerate(action.instance_ids)
            left = action.part(place for place, one in ids if (action.group, one) not in machines)
            actions += [left] if left.instance_ids else []
        else:
            actions.append(action)
    return replace(plan, actions=tuple(actions), held_back=(*plan.held_back, *withheld))


def _machines_of_deletions(withheld: Iterable[HeldBack]) -> frozenset[Machine]:
    """Return the machines that these actions were to delete."""
    deletions = (held.action for held in withheld if isinstance(held.action, DeleteInstances))
    return frozenset((deletion.group, instance_id) for deletion in deletions for instance_id in deletion.instance_ids)
