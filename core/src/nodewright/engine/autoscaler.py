"""One loop: observe, fold, plan, check, save, act."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

from nodewright.actuation import CloudWriter, EventFilter, Inbox, WriteGate, alerts, draw_events, loss_of_state
from nodewright.actuation.actuator import Actuator, ActuatorPorts
from nodewright.actuation.cloud_writes import CloudWriteRules, WriteOutcome
from nodewright.actuation.events import buffer_events
from nodewright.actuation.status_writes import StatusWriter
from nodewright.actuation.taints import StartupCleanup
from nodewright.clusterstate.clock_skew import without_future_times
from nodewright.clusterstate.fold import fold
from nodewright.clusterstate.memory import Memory, PlanMemory
from nodewright.clusterstate.observed_groups import as_if_made, unsettled, with_evidence, with_held_groups
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.brain import Planning, without_violations
from nodewright.engine.covering import Covering
from nodewright.engine.daemon import BatchWindow
from nodewright.engine.intent import machines_of, with_intent, with_removals, without_charge
from nodewright.engine.last_look import LastLook
from nodewright.engine.ports import Ports
from nodewright.engine.report import LoopReport
from nodewright.engine.timers import next_timer
from nodewright.model.action import Action, DeleteInstances
from nodewright.model.clock import Clock
from nodewright.model.errors import InvariantError, NodewrightError
from nodewright.model.plan import Plan, ScaleDownReport
from nodewright.model.removal import NodeRemoval, RemovalEnded, RemovalResult, Removing
from nodewright.model.settings import Settings
from nodewright.observe import Observer
from nodewright.validate import PlanViolation

# How soon to see whether what holds removals up is over.
_LOOK_AGAIN_SECONDS = 10.0


@dataclass
class _Step:
    """A loop in the making."""

    state: ClusterState | None = None
    plan: Plan | None = None
    outcomes: tuple[WriteOutcome, ...] = ()
    violations: tuple[PlanViolation, ...] = field(default_factory=tuple)
    problem: str = ""
    begun: tuple[NodeRemoval, ...] = ()


class Autoscaler:
    """Runs the loop; between loops it holds nothing but its memory and the outcomes to fold."""

    def __init__(
        self, world: Ports, clock: Clock, settings: Settings, random: Random, *, brain: Planning | None = None
    ) -> None:
        self._world = world
        self._clock = clock
        self._settings = settings
        self._random = random
        self._brain = brain or Planning()
        self._inbox = Inbox()
        self._observer = Observer(world.cluster, world.providers, settings)
        self._covering = Covering(world.store, world.gate, clock)
        self._cloud_writer = CloudWriter(
            world.providers,
            clock,
            self._inbox,
            world.audit,
            rules=CloudWriteRules(
                stops_at_refusal=settings.policy.stops_at_refusal, defers_busy=settings.policy.waits_for_busy_clouds
            ),
            cover=self._cover,
        )
        self._status_writer = StatusWriter(world.cluster, world.providers, clock, world.audit)
        self._filter = EventFilter(0.0) if settings.cluster.record_duplicated_events else EventFilter()
        loaded = world.store.load()
        self._memory: Memory = loaded.memory
        self._warning = loaded.warning
        self._has_looked = False
        self._name = f"{clock.now():.3f}"
        self._loops = 0
        # Whether each of the last two loops grew a group, began a removal or served a request.
        self._did_something = (False, False)
        ports = ActuatorPorts(
            reader=world.cluster,
            cluster=world.cluster,
            calls=self._cloud_writer,
            inbox=self._inbox,
            events=world.events,
            clock=clock,
        )
        self._actuator = Actuator(ports, settings, self._name)
        self._startup_cleanup = StartupCleanup(world.cluster, world.events)
        # Ended removals that the current loop has taken from the inbox.
        self._learned: tuple[RemovalEnded, ...] = ()
        self._is_halted = False

    def use(self, settings: Settings) -> None:
        """Other settings from the next loop on. The profile, providers, and whatever the world was built from stay."""
        self._actuator.use(settings)
        self._observer.use(settings)
        self._settings = settings

    def run_once(self) -> LoopReport:
        """One loop. A cluster or store that fails ends the loop, not the process; InvariantError does both."""
        started = self._clock.now()
        self._memory = without_future_times(self._memory, started)  # a clock may be set back at any time
        self._loops += 1
        step = _Step()
        try:
            self._run(step, started)
        except InvariantError:
            raise
        except NodewrightError as error:
            step.problem = f"{type(error).__name__}: {error}"
        timer = math.inf
        if step.state is not None and step.plan is not None:
            unfinished = self._startup_cleanup.is_pending or self._inbox.ended
            timer = started if unfinished else next_timer(step.state, step.plan, self._settings)
            timer = min(timer, self._startup_cleanup.next_at(), self._next_release())
        ended, self._learned = self._clock.now(), ()
        report = LoopReport(
            started=started,
            finished=ended,
            loop=self._loop_name,
            next_timer=timer,
            removing=self.under_way(),
            **vars(step),
        )
        self._did_something = (self._did_something[-1], report.did_something)
        return report

    def end(self) -> None:
        """Save that no write is under way, after the last loop. Raises NodewrightError."""
        self._covering.end()

    def under_way(self) -> tuple[Removing, ...]:
        """Nodes on their way out."""
        return tuple(self._actuator.under_way().values())

    def unreported(self) -> tuple[RemovalEnded, ...]:
        """Removals that are over and of which no report has told."""
        return (*self._learned, *self._inbox.ended)

    @property
    def _loop_name(self) -> str:
        return f"{self._name}-{self._loops}"

    @property
    def next_loop(self) -> str:
        """The id that the next loop will have."""
        return f"{self._name}-{self._loops + 1}"

    def next_loop_at(self, report: LoopReport) -> float:
        """Return when to run again: at once after a refusal, or where a group grew and pods wait that another one helps;
        else one scan interval after the start of this loop.

        Profile "ca" also runs twice at once after a loop that grew a group, began a removal or served a request: CA
        does not wait while one of its last two loops did something.
        """
        loop = self._settings.loop
        follows_work = (
            self._settings.policy.runs_again_after_work and loop.frequent_loops_enabled and any(self._did_something)
        )
        if report.was_refused or report.leaves_pods or follows_work:
            return report.finished
        return max(report.finished, report.started + loop.scan_interval)

    def batch_window(self) -> BatchWindow:
        """Return how long a loop that pending pods or growth start waits for more pods."""
        loop = self._settings.loop
        if not (self._settings.policy.gathers_pods_before_loop and loop.frequent_loops_enabled):
            return BatchWindow(0.0, 0.0)
        return BatchWindow(loop.batch_idle_duration, loop.batch_max_duration)

    def next_step_at(self) -> float:
        """When ``step_removals`` is due (epoch seconds); infinity: no removal waits for time to pass."""
        return self._actuator.next_at()

    def step_removals(self) -> tuple[WriteOutcome, ...]:
        """What is due for the removals under way; answers how calls to clouds ended, which the next loop learns too."""
        return self._actuator.step(self._held_until(self._clock.now()))

    def _held_until(self, now: float) -> float:
        """Until when (epoch seconds) nothing is evicted or deleted: during a pause, and while nothing is planned in an
        unhealthy cluster, unless all is to be as in CA.
        """
        paused, until = self._find_pause(now)
        waits = bool(paused) or (self._is_halted and self._settings.policy.holds_removals_while_unhealthy)
        return max(until, now + _LOOK_AGAIN_SECONDS) if waits else now

    def _next_release(self) -> float:
        """When the next group that is held for a former engine's write is free (epoch seconds)."""
        return min((write.until for write in self._memory.writes_in_flight.values()), default=math.inf)

    def _run(self, step: _Step, now: float) -> None:
        state, step.problem = self._look(now)
        step.state, self._is_halted = state, state.is_halted
        begun = self._clock.now()
        timed = replace(state, elapsed=lambda: self._clock.now() - begun)
        plan, memory = self._brain.make_plan(timed, self._settings, self._random)
        step.violations = self._check(state, plan, memory)
        step.plan = plan = self._restrain(without_violations(plan, step.violations), memory, state, step.problem)
        step.state = replace(state, memory=self._memory)
        self._covering.save(self._with_intent(state, plan), plan.actions, self._settings)
        step.plan = plan = self._status_writer.write_pending(plan)
        step.outcomes, step.plan = self._act(plan)
        plan = step.plan
        self._status_writer.call_providers(plan.provisioning, self._loop_name)
        self._status_writer.write_results(plan.provisioning, step.outcomes)
        self._has_looked = self._has_looked or not step.problem
        events = [*loss_of_state(self._warning), *alerts(step.violations), *draw_events(state, plan, step.outcomes)]
        events += [*buffer_events(plan, step.outcomes), *self._status_writer.take_events()]
        for event in self._filter.pass_through(events, now):
            self._world.events.record(event)
        self._warning = ""
        step.begun = self._scale_down(state, plan.scale_down, step.outcomes)

    def _act(self, plan: Plan) -> tuple[tuple[WriteOutcome, ...], Plan]:
        """Make the plan's calls; return how they ended, and the plan without deletions that a last look forbade."""
        if not self._settings.policy.spares_machines_that_ran:
            return self._cloud_writer.act(plan.actions, self._loop_name), plan
        last = LastLook(self._world.cluster, self._clock, plan.actions)
        outcomes = self._cloud_writer.act(plan.actions, self._loop_name, last.allows)
        if not last.withheld:
            return outcomes, plan
        withheld = [held.action for held in last.withheld]
        machines = {
            (held.group, one) for held in withheld if isinstance(held, DeleteInstances) for one in held.instance_ids
        }
        self._memory = without_charge(self._memory, frozenset(machines))
        actions = tuple(action for action in plan.actions if action not in withheld)
        return outcomes, replace(plan, actions=actions, held_back=(*plan.held_back, *last.withheld))

    def _cover(self, action: Action) -> None:
        """Have saved that the write is about to be made. Raises NodewrightError."""
        going = (removing.removal for removing in self.under_way())
        soon = [removal.instance_id for removal in going if removal.group == action.group]
        self._covering.cover(action, self._settings, soon)

    def _with_intent(self, state: ClusterState, plan: Plan) -> Memory:
        under_way = [removing.removal for removing in state.observation.removing.values()]
        memory = with_intent(self._memory, state, plan.actions)
        return with_removals(memory, (*under_way, *plan.scale_down.removals))

    def _scale_down(
        self, state: ClusterState, report: ScaleDownReport, outcomes: Sequence[WriteOutcome]
    ) -> tuple[NodeRemoval, ...]:
        """Carry out the scale-down part of the plan; return the removals that started."""
        started = self._actuator.scale_down(state, report, outcomes)
        never_started = [removal for removal in report.removals if removal not in started]
        self._memory = without_charge(self._memory, machines_of(never_started))
        return started

    def _restrain(self, plan: Plan, after: PlanMemory, state: ClusterState, problem: str) -> Plan:
        """Return the plan with only the writes that may be made now; remember it, and what it deletes."""
        if problem:
            return plan.without_writes()
        paused, until = self._find_pause(state.now)
        has_looked = self._has_looked or not self._settings.policy.looks_twice_before_deleting
        limits = self._settings.deletion_limits
        restraint = WriteGate(settings=limits, paused=paused, paused_until=until, has_looked=has_looked)
        plan, charged = restraint.apply(plan, state)
        memory = after.with_called(plan.provisioning.calls).put_into(state.memory)
        self._memory = replace(memory, deletions=charged.deletions, empty_deletions=charged.empty)
        return plan

    def _find_pause(self, now: float) -> tuple[str, float]:
        """Why nothing may be written, and until when. A pause that cannot be read is one: somebody wanted it."""
        try:
            pause = self._world.store.load_pause()
        except NodewrightError as error:
            return f"paused: {error}", now
        return (str(pause), pause.until) if pause is not None and pause.holds(now) else ("", 0.0)

    def _check(self, state: ClusterState, plan: Plan, memory: PlanMemory) -> tuple[PlanViolation, ...]:
        violations = self._brain.check(state.observation, plan, memory, self._settings)
        if violations and self._brain.strict:
            raise InvariantError(f"a plan breaks its rules: {violations}")
        return violations

    def _look(self, now: float) -> tuple[ClusterState, str]:
        """The new state, and why it must not be acted upon; when the cluster cannot be read what came in waits."""
        removing, ended, outcomes = self._actuator.under_way(), self._inbox.drain_ended(), self._inbox.drain()
        self._learned = ended
        failed = (over.removal for over in ended if over.result != RemovalResult.OK)
        memory = without_charge(self._memory, machines_of(failed))

        def look() -> tuple[ClusterState, str]:
            seen, problem = self._observer.observe(now, memory, outcomes, removing)
            writes = unsettled(memory.writes_in_flight, seen)
            believed = with_evidence(seen, memory) if self._settings.policy.spares_machines_that_ran else seen
            known = as_if_made(memory.last_known, believed, writes)
            held_memory = replace(memory, writes_in_flight=writes, last_known=known)
            state = fold(held_memory, with_held_groups(seen, writes), outcomes, self._settings, ended)
            # What a held group was known as before tells later whether the write did all that it was to do.
            before = {ref: memory.last_known[ref] for ref in writes if ref in memory.last_known}
            kept = {**state.memory.last_known, **before}
            return replace(state, memory=replace(state.memory, last_known=kept)), problem

        try:
            state, problem = look()
            if not problem and self._startup_cleanup.run(state, self._settings):
                state, problem = look()
        except NodewrightError:
            for outcome in outcomes:
                self._inbox.post(outcome)
            for over in ended:
                self._inbox.post_ended(over)
            self._learned = ()
            raise
        if not problem:
            settled = self._startup_cleanup.take_settled(state)
            state = replace(state, memory=without_charge(state.memory, settled))
        self._memory = state.memory
        return state, problem
