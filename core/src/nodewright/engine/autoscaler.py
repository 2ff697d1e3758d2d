"""One loop: observe, fold, plan, check, save, act."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from nodewright.act import Actor, EventFilter, Inbox, Restraint, alerts, draw_events, loss_of_state
from nodewright.act.actor import Ended
from nodewright.engine.intent import with_intent
from nodewright.engine.ports import World
from nodewright.engine.timers import next_timer
from nodewright.model.action import Done, Failed, IncreaseSize, Outcome
from nodewright.model.clock import Clock
from nodewright.model.errors import InvariantError, NodewrightError, TargetChanged
from nodewright.model.settings import Settings
from nodewright.observe import Observer
from nodewright.planner import make_plan
from nodewright.planner.plan import Plan, PlannedAction
from nodewright.registry.fold import fold
from nodewright.registry.recall import recalled
from nodewright.registry.state import ClusterState, Memory
from nodewright.snapshot.observation import Observation
from nodewright.validate import Violation, check_actions

MakePlan = Callable[[ClusterState, Settings, Random], Plan]
CheckActions = Callable[[Observation, Sequence[PlannedAction], Settings], tuple[Violation, ...]]


@dataclass(frozen=True, kw_only=True)
class Brain:
    """What decides, and what checks the decision independently.

    A planned action that breaks a rule is always a bug. ``strict`` ends the process with InvariantError, for
    tests; otherwise that action alone is dropped, with an alert.
    """

    make_plan: MakePlan = make_plan
    check_actions: CheckActions = check_actions
    strict: bool = False


@dataclass(frozen=True, kw_only=True)
class LoopReport:
    """What one loop saw, decided and did; times in epoch seconds.

    ``state`` and ``plan`` are None when the cluster could not be read. ``problem`` says why nothing was done
    although something was planned, or why nothing could be planned. ``next_timer`` is the moment after which
    time alone may change a decision.
    """

    started: float
    finished: float
    state: ClusterState | None = None
    plan: Plan | None = None
    outcomes: tuple[Ended, ...] = ()
    violations: tuple[Violation, ...] = ()
    problem: str = ""
    next_timer: float = math.inf

    @property
    def was_refused(self) -> bool:
        """Did an increase fail? Then its group is backed off, and its pods are planned anew at once.

        Where somebody else wrote the size, nothing is backed off: asking again at once might go on for ever.
        """
        increases = (outcome for outcome in self.outcomes if isinstance(outcome.action, IncreaseSize))
        return any(
            (isinstance(outcome, Failed) and outcome.code != TargetChanged.code)
            or (isinstance(outcome, Done) and not outcome.accepted)
            for outcome in increases
        )

    @property
    def is_settled(self) -> bool:
        """Would the next loop, in an unchanged world, do nothing new before ``next_timer``?"""
        if self.state is None or self.problem or self.violations or self.outcomes:
            return False
        seen = self.state.observation
        troubled = any(group.problem for group in seen.groups.values())
        return not troubled and not any(provider.problem for provider in seen.providers.values())


@dataclass
class _Step:
    """A loop in the making."""

    state: ClusterState | None = None
    plan: Plan | None = None
    outcomes: tuple[Ended, ...] = ()
    violations: tuple[Violation, ...] = field(default_factory=tuple)
    problem: str = ""


class Autoscaler:
    """Runs the loop; between loops it holds nothing but its memory and the outcomes to fold."""

    def __init__(
        self, world: World, clock: Clock, settings: Settings, random: Random, *, brain: Brain | None = None
    ) -> None:
        self._world = world
        self._clock = clock
        self._settings = settings
        self._random = random
        self._brain = brain or Brain()
        self._inbox = Inbox()
        self._observer = Observer(world.cluster, world.providers, settings.failures)
        self._actor = Actor(
            world.providers, clock, self._inbox, world.audit, stops_at_refusal=settings.stops_at_refusal
        )
        self._filter = EventFilter()
        loaded = world.store.load()
        self._memory: Memory = recalled(loaded.memory, clock.now())
        self._warning = loaded.warning
        self._has_looked = False
        self._name = f"{clock.now():.3f}"
        self._loops = 0

    def run_once(self) -> LoopReport:
        """One loop. A cluster or store that fails ends the loop, not the process; InvariantError does both."""
        started = self._clock.now()
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
            timer = next_timer(step.state, step.plan, self._settings)
        return LoopReport(started=started, finished=self._clock.now(), next_timer=timer, **vars(step))

    def next_loop_at(self, report: LoopReport) -> float:
        """When to run again: at once after a refusal, else one scan interval after the start of this loop."""
        if report.was_refused:
            return report.finished
        return max(report.finished, report.started + self._settings.loop.scan_interval)

    def _run(self, step: _Step, now: float) -> None:
        outcomes = self._inbox.drain()
        state, step.problem = self._fold(now, outcomes)
        step.state = state
        plan = self._brain.make_plan(state, self._settings, self._random)
        step.violations = self._check(state, plan)
        step.plan = plan = self._restrain(without_violations(plan, step.violations), state, step.problem)
        step.state = replace(state, memory=self._memory)
        self._world.store.save_if_changed(with_intent(self._memory, state, plan.actions))
        step.outcomes = self._actor.act(plan.actions, f"{self._name}-{self._loops}")
        self._has_looked = self._has_looked or not step.problem
        events = [*loss_of_state(self._warning), *alerts(step.violations), *draw_events(state, plan, step.outcomes)]
        for event in self._filter.pass_through(events, now):
            self._world.events.record(event)
        self._warning = ""

    def _restrain(self, plan: Plan, state: ClusterState, problem: str) -> Plan:
        """The plan with only what may be done now; what it deletes is remembered."""
        if problem:
            return replace(plan, actions=())
        paused, until = self._find_pause(state.now)
        has_looked = self._has_looked or self._settings.is_ca
        limits = self._settings.deletion_limits
        restraint = Restraint(settings=limits, paused=paused, paused_until=until, has_looked=has_looked)
        plan, deletions = restraint.apply(plan, state)
        self._memory = replace(state.memory, deletions=deletions)
        return plan

    def _find_pause(self, now: float) -> tuple[str, float]:
        """Why nothing may be written, and until when. A pause that cannot be read is one: somebody wanted it."""
        try:
            pause = self._world.store.load_pause()
        except NodewrightError as error:
            return f"paused: {error}", now
        return (str(pause), pause.until) if pause is not None and pause.holds(now) else ("", 0.0)

    def _check(self, state: ClusterState, plan: Plan) -> tuple[Violation, ...]:
        violations = self._brain.check_actions(state.observation, plan.actions, self._settings)
        if violations and self._brain.strict:
            raise InvariantError(f"a plan breaks its rules: {violations}")
        return violations

    def _fold(self, now: float, outcomes: tuple[Outcome, ...]) -> tuple[ClusterState, str]:
        """The new state; when the cluster cannot be read the outcomes wait for the next loop."""
        try:
            seen, problem = self._observer.observe(now, self._memory, outcomes)
        except NodewrightError:
            for outcome in outcomes:
                self._inbox.post(outcome)
            raise
        state = fold(self._memory, seen, outcomes, self._settings)
        self._memory = state.memory
        return state, problem


def without_violations(plan: Plan, violations: tuple[Violation, ...]) -> Plan:
    """The plan without the actions that the independent check refused."""
    refused = {id(violation.action) for violation in violations}
    if not refused:
        return plan
    return replace(plan, actions=tuple(action for action in plan.actions if id(action) not in refused))
