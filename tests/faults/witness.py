"""What an onlooker writes down during a run: the cloud's answers, our writes, and the truth about nodes and pods.

It knows the fake cloud and the simulated cluster, and nothing of how the engine thinks.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from nodewright.adapters.provider import CallRunner, CallSettings, ProviderClient, connect_provider
from nodewright.adapters.simulated.build import BuildOptions, build_simulation
from nodewright.adapters.simulated.result import SimulationResult
from nodewright.adapters.simulated.scenario import Scenario
from nodewright.engine.autoscaler import Brain
from nodewright.model.settings import Settings
from nodewright.planner.plan import Plan
from nodewright.registry.state import ClusterState
from nodewright.spec import (
    FailedInstance,
    FailureScope,
    Instance,
    ProviderContext,
    QuotaExceeded,
    TargetChanged,
    hookimpl,
)
from nodewright_fake import FakeProvider
from nodewright_fake.cloud import FakeCloud
from nodewright_fake.options import load_options


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the cloud answered about a group in one loop."""

    target: int
    instances: Mapping[str, str]
    failed: Mapping[str, FailedInstance]

    @property
    def there(self) -> frozenset[str]:
        """Ids of machines that are not on their way out."""
        failed = {failure.instance_id for failure in self.failed.values()}
        return frozenset(i for i, state in self.instances.items() if state != "deleting" and i not in failed)

    @property
    def without_machine(self) -> int:
        """Places of the target that nothing fills."""
        return self.target - len(self.there) - sum(failure.count for failure in self.failed.values())


@dataclass(frozen=True, kw_only=True)
class NodeSeen:
    """A node; times in seconds."""

    instance_id: str
    since: float
    ready: bool
    ever_ready: bool


@dataclass(kw_only=True)
class Write:
    """One call that changes the cloud; ``accepted`` is what it truly did, whatever was answered."""

    at: float
    hook: str
    group: str
    expected: int
    target: int = 0
    ids: tuple[str, ...] = ()
    phases: Mapping[str, str] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    accepted: int = 0
    answered: int | None = None
    error: str = ""
    scope: str = ""


@dataclass(frozen=True, kw_only=True)
class Loop:
    """One loop: what the cloud answered, how things stood, and what was written. ``seen`` lacks what is unknown."""

    at: float
    ends_reads: float
    pending: int
    nodes: Mapping[str, NodeSeen]
    seen: Mapping[str, Seen]
    writes: list[Write] = field(default_factory=list)


@dataclass(frozen=True)
class Asked:
    """Machines were asked for, by us (``at`` is when the loop began) or by somebody else, who may ask for fewer."""

    at: float
    group: str
    count: int


@dataclass
class History:
    """A run as it was seen from outside, and what there is at its end: machines with their group and phase, by id."""

    scenario: Scenario
    result: SimulationResult | None = None
    loops: list[Loop] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    machines: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    nodes: Mapping[str, NodeSeen] = field(default_factory=dict)
    targets: Mapping[str, int] = field(default_factory=dict)


class _Cloud(FakeCloud):
    """Tells when machines are asked for."""

    on_request: Callable[[str, int], None] | None = None

    def increase(self, group_id: str, expected_target: int, target: int, *, atomic: bool = False) -> int:
        wanted = super().increase(group_id, expected_target, target, atomic=atomic)
        self._tell(group_id, wanted)
        return wanted

    def set_target(self, group_id: str, target: int) -> None:
        before = self.group(group_id).target
        super().set_target(group_id, target)
        self._tell(group_id, target - before)  # below zero: somebody took them back

    def lose(self, instance_id: str) -> None:
        super().lose(instance_id)
        self._tell(instance_id.split("/")[-2], 1)

    def _tell(self, group_id: str, machines: int) -> None:
        if self.on_request is not None and machines:
            self.on_request(group_id, machines)


class _Provider(FakeProvider):
    """Tells what it is asked and what it answers."""

    def __init__(self, context: ProviderContext, witness: "Witness") -> None:
        cloud = _Cloud(load_options(context.options), context.clock, context.random)
        super().__init__(context, cloud)
        cloud.on_request = witness.note_request
        self._witness = witness

    @hookimpl
    def node_groups(self) -> Sequence[Any]:
        groups = super().node_groups()
        self._witness.begin_reads()
        return groups

    @hookimpl
    def target_size(self, group_id: str) -> int:
        with self._witness.reading("target", group_id) as answer:
            answer.append(super().target_size(group_id))
        return int(answer[0])

    @hookimpl
    def instances(self, group_id: str) -> Sequence[Instance]:
        with self._witness.reading("instances", group_id) as answer:
            answer.append(super().instances(group_id))
        found: Sequence[Instance] = answer[0]
        return found

    @hookimpl
    def failed_instances(self, group_id: str) -> Sequence[FailedInstance]:
        with self._witness.reading("failed", group_id) as answer:
            answer.append(super().failed_instances(group_id))
        found: Sequence[FailedInstance] = answer[0]
        return found

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._witness.writing("increase_size", group_id, expected_target, target=target) as write:
            accepted = super().increase_size(group_id, expected_target, target)
            write.answered = accepted
        return accepted

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        with self._witness.writing("decrease_target_size", group_id, expected_target, target=target) as write:
            accepted = super().decrease_target_size(group_id, expected_target, target)
            write.answered = accepted
        return accepted

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with self._witness.writing("delete_instances", group_id, expected_target, ids=instance_ids) as write:
            accepted = super().delete_instances(group_id, instance_ids, expected_target)
            write.answered = len(accepted)
        return accepted

    @hookimpl
    def force_delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Sequence[str]:
        with self._witness.writing("delete_instances", group_id, expected_target, ids=instance_ids) as write:
            accepted = super().force_delete_instances(group_id, instance_ids, expected_target)
            write.answered = len(accepted)
        return accepted


class Witness:
    """Stands beside one simulation. ``watch`` runs it."""

    def __init__(self, scenario: Scenario, brain: Brain) -> None:
        self.history = History(scenario)
        self._brain = brain
        self._answers: dict[str, dict[str, Any]] = {}
        self._has_groups = False
        self._current: Write | None = None
        self._ever_ready: set[str] = set()
        watched = Brain(make_plan=self._plan, check_actions=brain.check_actions, strict=brain.strict)
        self._simulation = build_simulation(scenario, BuildOptions(brain=watched, load=self._load))

    def watch(self) -> History:
        self.history.result = self._simulation.run()
        cloud = self._provider.cloud
        machines = [m for name in cloud.group_names() for m in cloud.group(name).machines.values()]
        self.history.machines = {machine.id: (machine.group, machine.phase.value) for machine in machines}
        self.history.nodes = self._nodes()
        self.history.targets = {name: cloud.group(name).target for name in cloud.group_names()}
        return self.history

    # What the provider tells

    def note_request(self, group: str, machines: int) -> None:
        at = self.history.loops[-1].at if self._current is not None else self._clock.now()
        self.history.asked.append(Asked(at, group, machines))

    def begin_reads(self) -> None:
        self._has_groups = True
        self._answers = {}

    @contextmanager
    def reading(self, what: str, group: str) -> Any:
        """Keeps the last answer; a call that fails leaves none."""
        answers = self._answers.setdefault(group, {})
        answers[what] = None
        answer: list[Any] = []
        yield answer
        answers[what] = answer[0]

    @contextmanager
    def writing(self, hook: str, group: str, expected: int, *, target: int = 0, ids: Sequence[str] = ()) -> Any:
        cloud = self._provider.cloud
        machines = cloud.group(group).machines
        write = Write(
            at=self._clock.now(),
            hook=hook,
            group=group,
            expected=expected,
            target=target,
            ids=tuple(ids),
            phases={i: machines[i].phase.value for i in ids if i in machines},
            nodes=frozenset(self._nodes()),
        )
        before = cloud.group(group).target
        self._current = write
        if self.history.loops:
            self.history.loops[-1].writes.append(write)
        try:
            yield write
        except BaseException as error:
            write.error, write.scope = type(error).__name__, _scope(error)
            raise
        finally:
            self._current = None
            write.accepted = abs(cloud.group(group).target - before)

    # The engine

    def _load(
        self, name: str, context: ProviderContext, *, settings: CallSettings, runner: CallRunner
    ) -> ProviderClient:
        self._clock = context.clock
        self._provider = _Provider(context, self)
        return connect_provider(name, self._provider, clock=context.clock, settings=settings, runner=runner)

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> Plan:
        seen = {group: found for group in self._answers if (found := self._seen(group)) is not None}
        self.history.loops.append(
            Loop(
                at=state.now,
                ends_reads=self._clock.now(),
                pending=self._simulation.cluster.count_pending(),
                nodes=self._nodes(),
                seen=seen if self._has_groups else {},
            )
        )
        self._has_groups = False
        return self._brain.make_plan(state, settings, random)

    def _seen(self, group: str) -> Seen | None:
        answers = self._answers[group]
        tells = "failed" in answers
        if any(answers.get(what) is None for what in ("target", "instances", *(["failed"] if tells else []))):
            return None
        return Seen(
            target=answers["target"],
            instances={instance.id: instance.state.value for instance in answers["instances"]},
            failed={failure.failure_id: failure for failure in answers.get("failed", ())},
        )

    def _nodes(self) -> dict[str, NodeSeen]:
        """Nodes by the id of their machine."""
        found = {}
        for _, node in self._simulation.cluster.live.nodes():
            ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
            created = node.metadata.creation_timestamp
            if ready:
                self._ever_ready.add(node.name)
            found[node.spec.provider_id] = NodeSeen(
                instance_id=node.spec.provider_id,
                since=created.timestamp() if created is not None else 0.0,
                ready=ready,
                ever_ready=node.name in self._ever_ready,
            )
        return found


def _scope(error: BaseException) -> str:
    if isinstance(error, TargetChanged):
        return ""
    return FailureScope.ACCOUNT.value if isinstance(error, QuotaExceeded) else FailureScope.GROUP.value
