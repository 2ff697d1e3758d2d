"""A cloud and a cluster that several processes share: calls take effect some time after they left, even after the end of
their caller.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeVar

from core.tests.leaders.stage import Process, Stage

from nodewright import spec
from nodewright.adapters.provider.runner import CallTimedOut
from nodewright.spec import hookimpl
from nodewright.testkit import build_node, build_pod, build_template
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.api_server import ApiServer
from nodewright_simulator.cluster import SimulatedCluster, SimulatedPod
from nodewright_simulator.crash import Tripwire
from nodewright_simulator.journal import Journal
from nodewright_simulator.scheduler import Scheduler

T = TypeVar("T")

PROVIDER = "shared"
LARGEST = 200


@dataclass
class Machines:
    """A node group; ``ids`` are machines that run or boot."""

    target: int = 0
    ids: list[str] = field(default_factory=list)


class SharedWorld:
    """The cloud's groups and the cluster's nodes and pods. A pod fills a node. ``killed`` are pods whose machine was
    deleted while they ran, ``bought`` is how many machines were asked for, ``unhoused`` how many pods found no free
    node when they came; the next ``lost_calls`` never arrive. ``surplus`` says which growth left more machines on
    their way than pods had waited at any time since its process had last looked.
    """

    def __init__(self, stage: Stage, random: Random, groups: int) -> None:
        self.stage = stage
        self.random = random
        self.groups = {f"group-{number}": Machines() for number in range(groups)}
        self.cluster = SimulatedCluster(Scheduler(), Journal())
        agenda = Agenda()
        self.api = ApiServer(self.cluster, agenda, stage, Tripwire())
        self.pods = self.bought = self.unhoused = 0
        self.lost_calls = 0
        self.killed: list[str] = []
        self.surplus = ""
        self._made = 0
        self._joining: set[str] = set()
        self._waited: list[tuple[float, int]] = []

    def add_pods(self, number: int) -> None:
        waited = self.cluster.count_pending()
        for _ in range(number):
            self.pods += 1
            pod = build_pod(f"pod-{self.pods}", cpu="3", memory="1Gi", owner=("ReplicaSet", "web"))
            self.cluster.submit(SimulatedPod(pod=pod, arrived=self.stage.now()))
        self.schedule()
        self.unhoused += max(0, self.cluster.count_pending() - waited)

    def end_pods(self, number: int) -> None:
        running = [held for held in self.cluster.pods() if held.node]
        for held in self.random.sample(running, min(number, len(running))):
            self.cluster.end(held, self.stage.now())
        self.schedule()

    def schedule(self) -> None:
        self.cluster.schedule(self.stage.now())
        self._waited.append((self.stage.now(), self.cluster.count_pending()))

    # What calls do when they take effect

    def resize(self, group_id: str, expected_target: int, target: int, looked: float) -> int:
        """``looked`` is when the process that asks began the loop in which it asks."""
        group = self._expect(group_id, expected_target)
        more, group.target = target - expected_target, target
        if more > 0:
            self.bought += more
        for _ in range(more):
            self._made += 1
            name = f"{group_id}-{self._made}"
            group.ids.append(name)
            self._joining.add(name)
            self.stage.at(self.stage.now() + self.random.uniform(10, 40), partial(self._join, group_id, name))
        if more > 0 and not self.surplus and len(self._joining) > self._most_waited(looked):
            self.surplus = f"{len(self._joining)} are on their way, for {self._most_waited(looked)} pods"
        return abs(more)

    def _most_waited(self, since: float) -> int:
        """Return how many pods waited at a time since then, at most."""
        before = [waited for at, waited in self._waited if at <= since][-1:]
        return max((*before, *(waited for at, waited in self._waited if at > since)), default=0)

    def delete(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        group = self._expect(group_id, expected_target)
        gone = tuple(one for one in instance_ids if one in group.ids)
        for name in gone:
            group.ids.remove(name)
            self._joining.discard(name)
            group.target -= 1
            if self.cluster.live.find_row(name) is not None:
                self.killed += [held.key for held in self.cluster.pods_on(name)]
                self.cluster.remove_node(name, self.stage.now())
        return gone

    def _expect(self, group_id: str, expected_target: int) -> Machines:
        group = self.groups[group_id]
        if group.target != expected_target:
            raise spec.TargetChanged(actual=group.target, group_id=group_id)
        return group

    def _join(self, group_id: str, name: str) -> None:
        if name not in self.groups[group_id].ids:
            return
        now = self.stage.now()
        node = build_node(name, cpu="4", memory="16Gi", labels={"group": group_id}, provider_id=name, created_at=now)
        self._joining.discard(name)
        self.cluster.add_node(node, now, group_id)
        self.schedule()


class CloudPlugin:
    """One process's plugin for the shared cloud. ``starts`` is told of each write at the moment when it leaves.

    ``looked`` is when the loop began in which the process is, or was last.
    """

    def __init__(self, world: SharedWorld, process: Process, starts: Callable[[str], None], step: Callable[[], None]):
        self._world, self._process, self._starts, self._step = world, process, starts, step
        self.looked = 0.0

    @hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        return spec.ProviderInfo(name=PROVIDER)

    @hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:  # noqa: ARG002 - nothing is kept here
        self.looked = self._world.stage.now()
        self._step()
        return True

    @hookimpl
    def node_groups(self) -> Any:
        return [spec.NodeGroup(id=name, min_size=0, max_size=LARGEST) for name in self._world.groups]

    @hookimpl
    def target_size(self, group_id: str) -> int:
        return self._world.groups[group_id].target

    @hookimpl
    def instances(self, group_id: str) -> Any:
        return [spec.Instance(id=name) for name in self._world.groups[group_id].ids]

    @hookimpl
    def template_node(self, group_id: str) -> Any:
        return build_template(cpu="4", memory="16Gi", labels={"group": group_id})

    @hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        looked = self.looked
        return self._write(group_id, lambda: self._world.resize(group_id, expected_target, target, looked))

    @hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        looked = self.looked
        return self._write(group_id, lambda: self._world.resize(group_id, expected_target, target, looked))

    @hookimpl
    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> Any:
        return self._write(group_id, lambda: self._world.delete(group_id, instance_ids, expected_target))

    def _write(self, group_id: str, effect: Callable[[], T]) -> T:
        """The request leaves now; what it does happens later, also if its process is dead or frozen by then."""
        self._starts(group_id)
        stage, random = self._world.stage, self._world.random
        answers: list[T | spec.ProviderError] = []

        def arrive() -> None:
            if self._world.lost_calls:
                self._world.lost_calls -= 1
                return
            try:
                answers.append(effect())
            except spec.ProviderError as error:
                answers.append(error)

        on_its_way = random.uniform(0.05, 1) if random.random() < 0.6 else random.uniform(1, 50)
        stage.at(stage.now() + on_its_way, arrive)
        self._step()
        while not answers:
            stage.sleep(0.5)
        [answer] = answers
        if isinstance(answer, spec.ProviderError):
            raise answer
        return answer


class InPlace:
    """Implements CallRunner: the call runs where it is asked for; an answer that comes too late is none."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def run(self, call: Callable[[], T], deadline_seconds: float) -> T:
        deadline = self._stage.now() + deadline_seconds
        answer = call()
        if self._stage.now() > deadline:
            raise CallTimedOut("the process was frozen for longer")
        return answer
