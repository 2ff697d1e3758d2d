"""The actuator without an engine: its ports are a small cluster in memory and a cloud that accepts every deletion."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright.actuation import AuditLog, CloudWriter, Event, Eviction, EvictionAnswer, GangView, Inbox, NodeView
from nodewright.actuation.actuator import Actuator, ActuatorPorts, find_batches
from nodewright.actuation.drain import ActiveRemoval, PlacementRecheck
from nodewright.model.errors import CloudBusy, KubeApiError, OutcomeUnknown, ProviderError
from nodewright.model.gang import GangPolicy, PodGroups, PodGroupSpec, SchedulingPodGroup, SchedulingPolicy
from nodewright.model.group import GroupRef
from nodewright.model.meta import ObjectMeta
from nodewright.model.node import TO_BE_DELETED_TAINT, Node
from nodewright.model.plan import ScaleDownReport
from nodewright.model.pod import Pod, SchedulingGroup
from nodewright.model.policy import Profile
from nodewright.model.removal import NodeRemoval, RemovalReason, RemovalResult, RemovalStage
from nodewright.model.settings import DrainSettings, LoopSettings, PodSettings, Settings
from nodewright.planner.scale_down.missing_pods import CachedPods, MissingPods
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import FakeClock, build_pod
from nodewright.testkit.world import PROVIDER, World, ref

START = 10_000.0
MINUTE = 60.0


class Cluster:
    """Implements the reader, writer and event ports. Evicted pods disappear at once."""

    def __init__(self, *nodes: Node) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods: list[Pod] = []
        self.evicted: list[str] = []
        self.deleted: list[tuple[str, int]] = []
        self.events: list[Event] = []
        self.reads: Counter[str] = Counter()
        self.unreadable: set[str] = set()
        self.unwritable: set[str] = set()
        self.refusal = ""
        self.unlisted: list[Pod] = []
        self.unnamed: KubeApiError | None = None
        self.pod_groups = PodGroups()

    def get_node_view(self, node: str) -> NodeView:
        self.reads[node] += 1
        if node in self.unreadable:
            raise KubeApiError(f"{node} cannot be read", retryable=True)
        pods = tuple(pod for pod in self.pods if pod.spec.node_name == node)
        return NodeView(node=self.nodes.get(node), pods=pods)

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        if self.unnamed is not None:
            raise self.unnamed
        return tuple(pod for pod in self.unlisted if pod.spec.node_name == node)

    def get_gang_view(self, namespace: str) -> GangView:
        self.reads[namespace] += 1
        if namespace in self.unreadable:
            raise KubeApiError(f"the pods of {namespace} cannot be read", retryable=True)
        return GangView(
            pods=tuple(pod for pod in self.pods if pod.metadata.namespace == namespace), groups=self.pod_groups
        )

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        if name in self.unwritable:
            raise KubeApiError(f"{name} cannot be written", retryable=True)
        before = self.nodes.get(name)
        if before is not None:
            self.nodes[name] = edit(before)
        return before

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        assert grace_seconds >= 0
        if self.refusal:
            return Eviction(answer=EvictionAnswer.REFUSED, message=self.refusal)
        self.evicted.append(pod.name)
        self.pods.remove(pod)
        return Eviction(answer=EvictionAnswer.ACCEPTED)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        self.deleted.append((pod.name, grace_seconds))
        self.pods.remove(pod)
        return Eviction(answer=EvictionAnswer.ACCEPTED)

    def record(self, event: Event) -> None:
        self.events.append(event)

    def is_tainted(self, name: str) -> bool:
        return any(taint.key == TO_BE_DELETED_TAINT for taint in self.nodes[name].spec.taints)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"the actuator must not call {name}")


class Cloud:
    """Implements the part of ProviderWrites that removals use. Each call takes ``seconds``."""

    name = PROVIDER

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.deleted: list[str] = []
        self.error: ProviderError | None = None
        self.seconds = 0.0
        self.during_call: Callable[[], object] = lambda: None

    def delete_instances(self, group_id: str, instance_ids: Sequence[str], expected_target: int) -> tuple[str, ...]:
        assert group_id
        assert expected_target > 0
        self._clock.advance_to(self._clock.now() + self.seconds)
        self.during_call()
        if self.error is not None:
            raise self.error
        self.deleted += instance_ids
        return tuple(instance_ids)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"removals must not call {name}")


class Stage:
    """A group of three or more nodes, and the actuator. Node a is removed, node b takes its pods."""

    def __init__(self, size: int = 3, profile: Profile = "nodewright", **drain: Any) -> None:
        self.world = World()
        self.world.add_group("g", size)
        self.clock = FakeClock(START)
        self.names = [node.name for node in self.world.nodes]
        self.a, self.b, self.c = self.names[:3]
        self.cluster = Cluster(*self.world.nodes)
        self.cloud = Cloud(self.clock)
        self.inbox = Inbox()
        writer = CloudWriter([self.cloud], self.clock, self.inbox, AuditLog())
        ports = ActuatorPorts(
            reader=self.cluster,
            cluster=self.cluster,
            calls=writer,
            inbox=self.inbox,
            events=self.cluster,
            clock=self.clock,
            find_cached=self.find_cached,
        )
        self.missing = MissingPods()
        self.cached = Snapshot()
        self.uncountable = False
        settings = Settings(drain=DrainSettings(**drain), loop=LoopSettings(profile=profile))
        self.actuator = Actuator(ports, settings.removals, "test")

    def find_cached(self) -> CachedPods:
        if self.uncountable:
            raise KubeApiError("the cluster cannot be read", retryable=True)
        return CachedPods(self.cached, self.missing)

    def cache(self, *pods: Pod) -> None:
        """Let the cache show these pods on node a."""
        self.cached = Snapshot()
        self.cached.place_pods([(self.cached.add_node(self.cluster.nodes[self.a]), pods)])

    def add_pod(self, name: str, node: str, **rest: Any) -> Pod:
        pod = build_pod(name, node_name=node, **rest)
        self.cluster.pods.append(pod)
        return pod

    def removal(self, *pods: Pod, places: Sequence[str] = (), node: str = "", batch: int = 1) -> NodeRemoval:
        return NodeRemoval(
            node=node or self.a,
            group=ref("g"),
            instance_id=self.cluster.nodes[node or self.a].spec.provider_id,
            batch=batch,
            reason=RemovalReason.UNDERUTILIZED if pods else RemovalReason.EMPTY,
            pods=tuple(pod.key for pod in pods),
            places=tuple(places),
        )

    def start(self, *removals: NodeRemoval) -> tuple[NodeRemoval, ...]:
        return self.actuator.scale_down(self.world.state(), ScaleDownReport(removals=removals), ())

    def run_until(self, moment: float, paused_until: float = 0.0) -> None:
        """Step whenever something is due, up to ``moment``; fail if that does not end."""
        for _ in range(1000):
            if self.actuator.next_at() > moment:
                break
            self.clock.advance_to(max(self.clock.now(), self.actuator.next_at()))
            self.actuator.step(paused_until)
        else:
            pytest.fail("a step is due again and again")
        self.clock.advance_to(moment)

    def start_empty(self) -> dict[str, str]:
        """Start the removal of all nodes, which are empty; return the id of each node's machine."""
        removals = [self.removal(node=name) for name in self.names]
        self.start(*removals)
        return {removal.node: removal.instance_id for removal in removals}

    @property
    def ended(self) -> list[tuple[RemovalResult, str]]:
        return [(over.result, over.message) for over in self.inbox.ended]


def test_a_removal_taints_evicts_and_deletes() -> None:
    stage = Stage()
    pod = stage.add_pod("p", stage.a)
    removal = stage.removal(pod, places=[stage.b])
    assert stage.start(removal) == (removal,)
    assert stage.cluster.is_tainted(stage.a)
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == ["p"]
    assert stage.cloud.deleted == [removal.instance_id]
    assert stage.ended == [(RemovalResult.OK, "")]
    assert not stage.actuator.under_way()


# Pause


def test_during_a_pause_no_pod_is_evicted_and_afterwards_it_is() -> None:
    stage = Stage()
    stage.start(stage.removal(stage.add_pod("p", stage.a)))
    end = START + MINUTE
    stage.run_until(end - 0.1, paused_until=end)
    assert (stage.cluster.evicted, stage.ended) == ([], [])
    stage.run_until(end)
    assert stage.cluster.evicted == ["p"]


def test_during_a_pause_no_machine_is_deleted_and_afterwards_it_is() -> None:
    stage = Stage(node_delete_delay_after_taint=5.0)
    stage.start(stage.removal())
    end = START + MINUTE
    stage.run_until(end - 0.1, paused_until=end)
    assert (stage.cloud.deleted, stage.ended) == ([], [])
    stage.run_until(end)
    assert len(stage.cloud.deleted) == 1


def test_a_batch_that_waits_is_not_deleted_during_a_pause() -> None:
    stage = Stage(node_deletion_batcher_interval=20.0)
    stage.start(stage.removal())
    stage.run_until(START + 10)
    assert stage.actuator.next_at() == START + 25
    end = START + 2 * MINUTE
    stage.run_until(end - 0.1, paused_until=end)
    assert stage.cloud.deleted == []
    stage.run_until(end)
    assert len(stage.cloud.deleted) == 1


@pytest.mark.parametrize("pause", [0.0, 7.0, 100.0])
def test_the_time_for_evictions_stands_still_during_a_pause(pause: float) -> None:
    stage = Stage(max_pod_eviction_time=2 * MINUTE)
    stage.cluster.refusal = "a budget"
    stage.start(stage.removal(stage.add_pod("p", stage.a)))
    stage.run_until(START + MINUTE)
    stage.run_until(START + MINUTE + pause - 0.1 if pause else START + MINUTE, paused_until=START + MINUTE + pause)
    given_up = START + 5 + 2 * MINUTE + pause
    stage.run_until(given_up - 10)
    assert stage.ended == []
    stage.run_until(given_up + 10)
    assert stage.ended == [(RemovalResult.FAILED_TO_EVICT, "1 pods could not be evicted; default/p: a budget")]


def test_a_pause_longer_than_evictions_may_take_ends_the_removal() -> None:
    stage = Stage(max_pod_eviction_time=2 * MINUTE)
    stage.start(stage.removal(stage.add_pod("p", stage.a)))
    stage.run_until(START + 5, paused_until=START + 5 + 2 * MINUTE + 1)
    assert stage.ended == [(RemovalResult.INTERNAL, "writes to clouds are paused")]
    assert not stage.cluster.is_tainted(stage.a)
    assert stage.cluster.evicted == []


def test_a_machine_that_may_be_deleted_already_outlasts_a_long_pause() -> None:
    stage = Stage()
    stage.cloud.error = OutcomeUnknown("timeout", provider=PROVIDER)
    stage.start(stage.removal())
    stage.run_until(START + 5)
    assert stage.actuator.under_way()[stage.a].stage == RemovalStage.DELETING
    stage.run_until(START + MINUTE, paused_until=START + 2 * 60 * MINUTE)
    assert stage.ended == []
    assert stage.cluster.is_tainted(stage.a)


def test_a_failed_untaint_is_retried_also_during_a_pause() -> None:
    stage = Stage(max_pod_eviction_time=MINUTE)
    stage.start(stage.removal(stage.add_pod("p", stage.a)))
    stage.cluster.unwritable.add(stage.a)
    stage.run_until(START + 5, paused_until=START + 60 * MINUTE)
    assert len(stage.ended) == 1
    assert stage.cluster.is_tainted(stage.a)
    stage.cluster.unwritable.clear()
    stage.run_until(START + 15, paused_until=START + 60 * MINUTE)
    assert not stage.cluster.is_tainted(stage.a)


# Places


def test_a_pod_whose_place_was_taken_ends_the_removal_before_any_eviction() -> None:
    stage = Stage()
    first, second = stage.add_pod("first", stage.a, cpu="1"), stage.add_pod("second", stage.a, cpu="1")
    stage.start(stage.removal(first, second, places=[stage.b, stage.b]))
    stage.add_pod("newcomer", stage.b, cpu="3")
    stage.run_until(START + MINUTE)
    message = f"pod {second.key} has no place any more: node {stage.b} has not enough cpu"
    assert stage.ended == [(RemovalResult.INTERNAL, message)]
    assert stage.cluster.evicted == []
    assert not stage.cluster.is_tainted(stage.a)


def test_places_that_are_still_free_are_read_once() -> None:
    stage = Stage()
    pods = [stage.add_pod(name, stage.a, cpu="1") for name in ("p", "q")]
    stage.start(stage.removal(*pods, places=[stage.b, stage.b]))
    stage.run_until(START + 5)
    assert stage.cluster.evicted == ["p", "q"]
    assert stage.cluster.reads[stage.b] == 1


def test_two_removals_of_one_round_cannot_have_the_same_place() -> None:
    stage = Stage()
    pod, other = stage.add_pod("p", stage.a, cpu="3"), stage.add_pod("other", stage.c, cpu="3")
    stage.start(
        stage.removal(pod, places=[stage.b]),
        stage.removal(other, places=[stage.b], node=stage.c),
    )
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == ["p"]
    assert sorted(result for result, _ in stage.ended) == sorted([RemovalResult.INTERNAL, RemovalResult.OK])


def test_a_place_whose_node_is_gone_ends_the_removal() -> None:
    stage = Stage()
    stage.start(stage.removal(stage.add_pod("p", stage.a), places=[stage.b]))
    del stage.cluster.nodes[stage.b]
    stage.run_until(START + MINUTE)
    assert stage.ended == [(RemovalResult.INTERNAL, f"pod default/p has no place any more: there is no node {stage.b}")]


def test_a_place_that_cannot_be_read_is_read_again_later() -> None:
    stage = Stage()
    stage.start(stage.removal(stage.add_pod("p", stage.a), places=[stage.b]))
    stage.cluster.unreadable.add(stage.b)
    stage.run_until(START + 9)
    assert (stage.cluster.evicted, stage.ended) == ([], [])
    stage.cluster.unreadable.clear()
    stage.run_until(START + 10)
    assert stage.cluster.evicted == ["p"]


def test_a_terminating_pod_needs_no_place() -> None:
    stage = Stage()
    pod = stage.add_pod("p", stage.a, cpu="1", deleted_at=START)
    stage.add_pod("newcomer", stage.b, cpu="4")
    recheck = PlacementRecheck(stage.cluster, PodSettings())
    assert recheck.take(stage.removal(pod, places=[stage.b]), [pod]) == ""
    living = build_pod("p", cpu="1", node_name=stage.a)
    assert "not enough cpu" in recheck.take(stage.removal(living, places=[stage.b]), [living])


# Gangs


class GangStage(Stage):
    """A gang of which four pods must run; node a, b, c have one, one and three of its five pods."""

    def __init__(self, *, on_a: int = 1, on_b: int = 1, on_c: int = 3, **more: Any) -> None:
        super().__init__(**more)
        self.gang = [
            self.add_member(f"g{number}", node)
            for number, node in enumerate([self.a] * on_a + [self.b] * on_b + [self.c] * on_c)
        ]
        spec = PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=4)))
        group = SchedulingPodGroup(metadata=ObjectMeta(name="g", namespace="default"), spec=spec)
        self.cluster.pod_groups = PodGroups(kubernetes={group.key: group})

    def add_member(self, name: str, node: str) -> Pod:
        pod = build_pod(name, node_name=node)
        pod = replace(pod, spec=replace(pod.spec, scheduling_group=SchedulingGroup(pod_group_name="g")))
        self.cluster.pods.append(pod)
        return pod

    def lose(self, member: int) -> None:
        """End a pod of the gang elsewhere: it fails, and its controller creates one that waits."""
        self.cluster.pods.remove(self.gang[member])
        self.add_member(f"again-{member}", "")


def test_a_gang_that_can_spare_a_pod_lets_it_go() -> None:
    stage = GangStage()
    stage.start(stage.removal(stage.gang[0]))
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == ["g0"]
    assert stage.ended == [(RemovalResult.OK, "")]


BROKEN = (
    "pod default/g0 blocks the removal: its gang default/g needs 4 pods that run together, and would keep 3; "
    "the node may go when the gang has ended"
)


def test_a_plan_that_is_stale_does_not_break_a_gang_up() -> None:
    """The gang could spare a pod when the removal was planned. Another one ended before the first eviction."""
    stage = GangStage()
    stage.start(stage.removal(stage.gang[0]))
    stage.lose(4)
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == []
    assert stage.cloud.deleted == []
    assert stage.ended == [(RemovalResult.INTERNAL, BROKEN)]
    assert not stage.cluster.is_tainted(stage.a)


def test_a_gang_that_needs_its_pods_by_now_ends_a_drain_that_has_begun() -> None:
    stage = GangStage()
    stage.cluster.refusal = "a budget"
    stage.start(stage.removal(stage.gang[0]))
    stage.run_until(START + 10)
    assert stage.ended == []
    stage.cluster.refusal = ""
    stage.lose(4)
    stage.run_until(START + MINUTE)
    assert (stage.cluster.evicted, stage.ended) == ([], [(RemovalResult.INTERNAL, BROKEN)])


def test_a_larger_minimum_holds_a_removal_under_way() -> None:
    stage = GangStage(on_c=4)
    stage.start(stage.removal(stage.gang[0]), stage.removal(stage.gang[1], node=stage.b))
    group = stage.cluster.pod_groups.kubernetes["default/g"]
    spec = PodGroupSpec(scheduling_policy=SchedulingPolicy(gang=GangPolicy(min_count=5)))
    stage.cluster.pod_groups = PodGroups(kubernetes={"default/g": replace(group, spec=spec)})
    stage.run_until(START + MINUTE)
    assert len(stage.cluster.evicted) == 1


def test_pods_on_other_nodes_that_are_drained_count_as_gone() -> None:
    stage = GangStage()
    stage.cluster.refusal = "a budget"
    stage.start(stage.removal(stage.gang[0]), stage.removal(stage.gang[1], node=stage.b))
    stage.run_until(START + 9)
    (ended,) = stage.ended
    assert ended == (RemovalResult.INTERNAL, BROKEN)
    assert list(stage.actuator.under_way()) == [stage.b]


def test_a_gang_goes_as_a_whole() -> None:
    stage = GangStage(on_a=4, on_b=0, on_c=0)
    stage.start(stage.removal(*stage.gang))
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == ["g0", "g1", "g2", "g3"]
    assert stage.ended == [(RemovalResult.OK, "")]


def test_a_machine_that_the_cloud_takes_is_drained_although_a_gang_breaks() -> None:
    stage = GangStage(on_c=2)
    removal = stage.removal(stage.gang[0])
    forced = replace(removal, reason=RemovalReason.INTERRUPTED, deadline=START + 120.0)
    stage.start(forced)
    stage.run_until(START + MINUTE)
    assert stage.gang[0] not in stage.cluster.pods


def test_no_pod_of_a_gang_is_evicted_while_its_others_cannot_be_read() -> None:
    stage = GangStage()
    stage.cluster.unreadable.add("default")
    stage.start(stage.removal(stage.gang[0]))
    stage.run_until(START + 30)
    assert (stage.cluster.evicted, stage.ended) == ([], [])
    stage.cluster.unreadable.clear()
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == ["g0"]


def test_a_drain_of_a_whole_gang_goes_on_when_its_first_pods_run_elsewhere() -> None:
    stage = GangStage(on_a=4, on_b=0, on_c=0)
    stage.start(stage.removal(*stage.gang))
    evict = stage.cluster.evict

    def evict_one_at_a_time(pod: Pod, grace_seconds: int) -> Eviction:
        if stage.clock.now() < START + 5 + 10 * len(stage.cluster.evicted):
            return Eviction(answer=EvictionAnswer.REFUSED, message="a budget")
        stage.add_member(f"again-{pod.name}", stage.c)
        return evict(pod, grace_seconds)

    vars(stage.cluster)["evict"] = evict_one_at_a_time
    stage.run_until(START + 2 * MINUTE)
    assert stage.cluster.evicted == ["g0", "g1", "g2", "g3"]
    assert stage.ended == [(RemovalResult.OK, "")]


def test_a_removal_whose_gang_cannot_be_read_ends_after_the_time_for_evictions() -> None:
    stage = GangStage(max_pod_eviction_time=2 * MINUTE)
    stage.cluster.unreadable.add("default")
    stage.start(stage.removal(stage.gang[0]))
    given_up = START + 5 + 2 * MINUTE
    stage.run_until(given_up - 1)
    assert stage.ended == []
    stage.run_until(given_up + 1)
    assert stage.ended == [(RemovalResult.INTERNAL, "the pods of default cannot be read")]
    assert not stage.cluster.is_tainted(stage.a)


def test_a_namespace_is_listed_once_for_all_nodes_that_are_drained() -> None:
    stage = GangStage(on_a=1, on_b=1, on_c=5)
    stage.start(stage.removal(stage.gang[0]), stage.removal(stage.gang[1], node=stage.b))
    stage.run_until(START + 5)
    assert (stage.cluster.evicted, stage.cluster.reads["default"]) == (["g0", "g1"], 1)


def test_the_profile_ca_knows_no_gangs() -> None:
    stage = GangStage(on_c=2, profile="ca")
    stage.start(stage.removal(stage.gang[0]))
    stage.run_until(START + MINUTE)
    assert stage.cluster.evicted == ["g0"]


# The last look before the call


def all_but(machines: dict[str, str], kept: str) -> list[str]:
    return [machine for name, machine in machines.items() if name != kept]


def given_back(stage: Stage, node: str) -> bool:
    """Return whether the only removal that failed is that of this node, because of a new pod, and its taint is off."""
    failed = [over for over in stage.inbox.ended if over.result != RemovalResult.OK]
    return (
        [(over.removal.node, over.result) for over in failed] == [(node, RemovalResult.INTERNAL)]
        and failed[0].message.startswith(("new pods run on the node", "pod default/late blocks the removal"))
        and not stage.cluster.is_tainted(node)
    )


@pytest.mark.parametrize("place", [1, 9, 17])
def test_a_pod_that_comes_while_other_calls_take_time_keeps_its_machine(place: int) -> None:
    stage = Stage(size=18)
    stage.cloud.seconds = 10.0
    machines, node = stage.start_empty(), stage.names[place]

    def bind_one() -> None:
        if len(stage.cloud.deleted) == place - 1:
            stage.add_pod("late", node)

    stage.cloud.during_call = bind_one
    stage.run_until(START + 10 * MINUTE)
    assert stage.cloud.deleted == all_but(machines, node)
    assert given_back(stage, node)
    assert max(stage.cluster.reads.values()) <= 2


def test_a_pod_that_comes_while_the_cloud_is_busy_keeps_its_machine() -> None:
    stage = Stage()
    machines = stage.start_empty()
    stage.cloud.error = CloudBusy("busy", provider=PROVIDER, retry_after=120.0)
    stage.run_until(START + MINUTE)
    stage.cloud.error = None
    stage.add_pod("late", stage.b)
    stage.run_until(START + 5 * MINUTE)
    assert stage.cloud.deleted == all_but(machines, stage.b)
    assert given_back(stage, stage.b)


def test_a_pod_that_comes_while_the_batch_waits_keeps_its_machine() -> None:
    stage = Stage(node_deletion_batcher_interval=60.0)
    machines = stage.start_empty()
    stage.run_until(START + 30)
    stage.add_pod("late", stage.b)
    stage.run_until(START + 65)
    assert stage.cloud.deleted == all_but(machines, stage.b)
    assert given_back(stage, stage.b)


def test_a_pod_that_comes_while_removals_are_held_keeps_its_machine() -> None:
    stage = Stage(node_deletion_batcher_interval=20.0)
    machines = stage.start_empty()
    stage.run_until(START + 10)
    for _ in range(6 * 60):  # an hour in an unhealthy cluster, whose end is unknown
        moment = stage.clock.now() + 10
        stage.run_until(moment, paused_until=moment + 10)
    assert stage.cloud.deleted == []
    stage.add_pod("late", stage.b)
    stage.run_until(stage.clock.now() + MINUTE)
    assert stage.cloud.deleted == all_but(machines, stage.b)
    assert given_back(stage, stage.b)


@pytest.mark.parametrize("comes_at", [START + 7, START + 30])
def test_a_pod_that_comes_to_a_drained_node_keeps_its_machine(comes_at: float) -> None:
    """Also a pod of the same name as one that was evicted, and one that comes while others leave."""
    stage = Stage(node_deletion_batcher_interval=60.0)
    stage.start(stage.removal(stage.add_pod("late", stage.a)), stage.removal(node=stage.c))
    stage.run_until(comes_at)
    stage.add_pod("late", stage.a)
    stage.run_until(START + 2 * MINUTE)
    assert stage.cloud.deleted == [stage.cluster.nodes[stage.c].spec.provider_id]
    assert given_back(stage, stage.a)


def test_a_zero_or_max_group_stays_when_a_pod_comes_to_one_of_its_nodes() -> None:
    stage = Stage(node_deletion_batcher_interval=20.0)
    stage.start(*(stage.removal(node=name, batch=3) for name in stage.names))
    stage.run_until(START + 10)
    stage.add_pod("late", stage.b)
    stage.run_until(START + 10 * MINUTE)
    assert (stage.cloud.deleted, len(stage.ended)) == ([], 3)
    assert not any(stage.cluster.is_tainted(name) for name in stage.names)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_node_that_cannot_be_read_waits(batch: int) -> None:
    stage = Stage(node_deletion_batcher_interval=20.0)
    stage.start(*(stage.removal(node=name, batch=batch) for name in stage.names))
    stage.run_until(START + 10)
    stage.cluster.unreadable.add(stage.b)
    stage.run_until(START + MINUTE)
    assert len(stage.cloud.deleted) == (2 if batch == 1 else 0)
    stage.cluster.unreadable.clear()
    stage.run_until(START + 2 * MINUTE)
    assert len(stage.cloud.deleted) == 3


def test_a_new_machine_under_the_same_name_stays() -> None:
    stage = Stage(node_deletion_batcher_interval=20.0)
    stage.start(stage.removal())
    stage.run_until(START + 10)
    other = stage.cluster.nodes[stage.a]
    stage.cluster.nodes[stage.a] = replace(other, spec=replace(other.spec, provider_id="another"))
    stage.run_until(START + MINUTE)
    assert stage.ended == [(RemovalResult.INTERNAL, "the node is another machine now: another")]
    assert stage.cloud.deleted == []


def test_pods_that_go_with_the_node_do_not_keep_it() -> None:
    stage = Stage(node_deletion_batcher_interval=20.0)
    stage.start(stage.removal(stage.add_pod("p", stage.a)))
    stage.add_pod("daemon", stage.a, owner=("DaemonSet", "ds"))
    stage.run_until(START + 10)
    stage.add_pod("late", stage.a, owner=("DaemonSet", "ds"))
    stage.add_pod("cheap", stage.a, priority=-11)
    stage.add_pod("mirror", stage.a, annotations={"kubernetes.io/config.mirror": ""})
    stage.run_until(START + MINUTE)
    assert stage.ended == [(RemovalResult.OK, "")]


def test_empty_nodes_that_go_at_once_are_read_once() -> None:
    stage = Stage(size=18)
    machines = stage.start_empty()
    stage.run_until(START + MINUTE)
    assert stage.cloud.deleted == list(machines.values())
    assert set(stage.cluster.reads.values()) == {1}


def test_under_profile_ca_pods_are_not_read_again() -> None:
    stage = Stage(profile="ca", node_deletion_batcher_interval=20.0)
    stage.start_empty()
    stage.run_until(START + 10)
    stage.add_pod("late", stage.b)
    stage.run_until(START + MINUTE)
    assert len(stage.cloud.deleted) == 3


WRONG = MissingPods(ready=100, by_controller={"ReplicaSet default/rs": 100})
LATE = MissingPods(ready=100, by_controller={"ReplicaSet default/rs": 1})


def test_a_list_that_lacks_most_pods_deletes_nothing_however_long() -> None:
    stage = Stage()
    stage.missing = WRONG
    stage.start_empty()
    stage.run_until(START + 60 * MINUTE)
    assert (stage.cloud.deleted, stage.ended) == ([], [])
    stage.missing = MissingPods()
    stage.run_until(START + 60 * MINUTE + 5)
    assert len(stage.cloud.deleted) == 3


def test_pods_that_appear_when_the_list_is_right_again_keep_their_node() -> None:
    stage = Stage()
    stage.missing = WRONG
    stage.start(stage.removal())
    stage.run_until(START + MINUTE)
    stage.missing = MissingPods()
    stage.add_pod("p", stage.a)
    stage.run_until(START + 2 * MINUTE)
    assert stage.cloud.deleted == []
    assert [message for _, message in stage.ended] == ["new pods run on the node, for example default/p"]


def test_a_late_status_holds_a_node_until_it_agrees_once() -> None:
    stage = Stage()
    stage.missing = LATE
    stage.start(stage.removal())
    stage.run_until(START + 7)
    assert stage.cloud.deleted == []
    stage.missing = MissingPods(ready=100, by_controller={"ReplicaSet default/another": 1})
    stage.run_until(START + 10)
    assert len(stage.cloud.deleted) == 1


def test_a_status_that_is_wrong_for_good_is_told_when_it_is_believed_no_more() -> None:
    stage = Stage()
    stage.missing = LATE
    stage.start(stage.removal())
    stage.run_until(START + 14 * MINUTE)
    assert stage.cloud.deleted == []
    stage.run_until(START + 15 * MINUTE + 10)
    assert len(stage.cloud.deleted) == 1
    told = [event.message for event in stage.cluster.events if "default/rs" in event.message]
    assert told == ["ReplicaSet default/rs counted more ready pods than are listed for 15m; deleting anyway"]


def test_a_node_stays_while_the_cache_shows_pods_that_a_read_of_it_does_not() -> None:
    stage = Stage()
    stage.cache(build_pod("p", node_name=stage.a))
    stage.start(stage.removal())
    stage.run_until(START + 10 * MINUTE)
    assert (stage.cloud.deleted, stage.ended) == ([], [])
    stage.run_until(START + 16 * MINUTE)
    assert stage.cloud.deleted == []
    told = "new pods run on the node, for example default/p, according to the list of all pods"
    assert [message for _, message in stage.ended] == [told]


def test_a_node_stays_while_a_read_by_name_finds_a_pod_that_no_list_shows() -> None:
    stage = Stage()
    stage.cluster.unlisted.append(build_pod("p", node_name=stage.a))
    stage.start(stage.removal())
    stage.run_until(START + 5)
    assert stage.cloud.deleted == []
    told = "new pods run on the node, for example default/p, says a read by name; no list of pods shows it"
    assert [message for _, message in stage.ended] == [told]
    stage.cluster.unlisted.clear()
    stage.start(stage.removal())
    stage.run_until(START + 10)
    assert len(stage.cloud.deleted) == 1


def test_a_node_waits_while_pods_cannot_be_read_by_name_and_stays_if_that_is_forbidden() -> None:
    stage = Stage()
    stage.cluster.unnamed = KubeApiError("busy", retryable=True)
    stage.start(stage.removal())
    stage.run_until(START + MINUTE)
    assert (stage.cloud.deleted, stage.ended) == ([], [])
    stage.cluster.unnamed = KubeApiError("forbidden", retryable=False)
    stage.run_until(START + MINUTE + 5)
    assert [message for _, message in stage.ended] == ["forbidden"]
    assert stage.cloud.deleted == []


@pytest.mark.parametrize("rest", [{"deleted_at": START}, {"owner": ("DaemonSet", "d")}])
def test_pods_that_end_or_go_with_the_node_do_not_keep_it(rest: dict[str, Any]) -> None:
    stage = Stage()
    stage.cache(build_pod("p", node_name=stage.a, **rest))
    stage.start(stage.removal())
    stage.run_until(START + 5)
    assert len(stage.cloud.deleted) == 1


def test_a_cache_that_is_late_holds_a_node_for_a_moment() -> None:
    stage = Stage()
    stage.cache(build_pod("p", node_name=stage.a))
    stage.start(stage.removal())
    stage.run_until(START + 6)
    stage.cache()
    stage.run_until(START + 10)
    assert len(stage.cloud.deleted) == 1


def test_a_node_waits_while_pods_cannot_be_counted() -> None:
    stage = Stage()
    stage.uncountable = True
    stage.start(stage.removal())
    stage.run_until(START + MINUTE)
    assert (stage.cloud.deleted, stage.ended) == ([], [])
    stage.uncountable = False
    stage.run_until(START + MINUTE + 5)
    assert len(stage.cloud.deleted) == 1


def test_under_profile_ca_no_pods_are_counted() -> None:
    stage = Stage(profile="ca")
    stage.missing = WRONG
    stage.start_empty()
    stage.run_until(START + MINUTE)
    assert len(stage.cloud.deleted) == 3


# One node fails


def test_when_one_node_cannot_be_tainted_none_of_its_kind_goes() -> None:
    stage = Stage()
    stage.cluster.unwritable.add(stage.c)
    assert stage.start(stage.removal(), stage.removal(node=stage.c)) == ()
    assert [result for result, _ in stage.ended] == [RemovalResult.FAILED_TO_MARK] * 2
    assert not stage.cluster.is_tainted(stage.a)


def test_a_zero_or_max_group_stays_when_one_of_its_nodes_must() -> None:
    stage = Stage()
    pod = stage.add_pod("p", stage.c, cpu="1")
    stage.cluster.refusal = "a budget"
    stage.start(stage.removal(batch=2), stage.removal(pod, node=stage.c, batch=2))
    stage.run_until(START + 10 * MINUTE)
    assert {result for result, _ in stage.ended} == {RemovalResult.FAILED_TO_EVICT, RemovalResult.FAILED_TO_DELETE}
    assert stage.cloud.deleted == []


# Batches


def ready(name: str, at: float, *, group: str = "g", batch: int = 1) -> ActiveRemoval:
    removal = NodeRemoval(
        node=name, group=GroupRef("p", group), instance_id=name, reason=RemovalReason.EMPTY, batch=batch
    )
    return ActiveRemoval(removal=removal, stage=RemovalStage.READY, started=0.0, next_at=float("inf"), ready_at=at)


def batches(*removals: ActiveRemoval, interval: float = 0.0) -> list[tuple[list[str], float]]:
    return [([held.name for held in batch.members], batch.due_at) for batch in find_batches(removals, interval)]


def test_each_goes_by_itself_at_once() -> None:
    assert batches(ready("a", 5), ready("b", 7)) == [(["a"], 5), (["b"], 7)]


def test_the_first_waits_for_others_of_its_group() -> None:
    held = (ready("a", 5), ready("b", 20), ready("c", 8, group="other"))
    assert batches(*held, interval=30) == [(["a", "b"], 35), (["c"], 38)]


def test_a_whole_group_waits_until_it_is_complete() -> None:
    one, two = ready("a", 5, batch=2), ready("b", 9, batch=2)
    assert batches(one) == [(["a"], float("inf"))]
    assert batches(one, two) == [(["a", "b"], 9)]
    assert batches(one, two, interval=30) == [(["a", "b"], 39)]


def test_what_is_not_ready_is_in_no_batch() -> None:
    assert batches(replace(ready("a", 5), stage=RemovalStage.DELETING)) == []
