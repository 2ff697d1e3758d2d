"""What is recorded during a run from outside: the cloud's results, our writes, and the true state of nodes and pods.

It knows the fake cloud and the simulated cluster, and nothing of how the engine thinks.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from tests.faults.history import CLOSE, Asked, History, Loop, NodeSeen, Seen, Write, group_of, is_of
from tests.faults.provider import OtherProvider, TellingProvider

from nodewright.adapters.provider import CallRunner, CallSettings, ProviderClient, connect_provider
from nodewright.clusterstate.memory import PlanMemory
from nodewright.clusterstate.state import ClusterState
from nodewright.engine.planning import Planning
from nodewright.model.action import IncreaseSize
from nodewright.model.disruption import DisruptionReason
from nodewright.model.move import MoveStage
from nodewright.model.plan import Plan
from nodewright.model.provisioning_request import (
    BOOKING_EXPIRED,
    CAPACITY_REVOKED,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
)
from nodewright.model.settings import Settings
from nodewright.spec import InterruptionKind, NodeGroup, ProviderContext
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.node_faults import BY_HAND
from nodewright_simulator.scenario import JumpClock, Scenario

LOOPS_AT_A_TIME = 50
_SILENT = "fast_failure_detection"
ON_ITS_WAY_OUT = "ToBeDeletedByClusterAutoscaler"


class Endless(Exception):
    """The engine runs loop after loop without letting time pass."""


class Witness:
    """Stands beside one simulation. ``watch`` runs it."""

    def __init__(self, scenario: Scenario, planning: Planning) -> None:
        self.history = History(scenario)
        self._planning = planning
        self._answers: dict[str, dict[str, Any]] = {}
        self._limits: dict[str, tuple[int, int]] = {}
        self._has_groups = False
        jumps = (event for event in scenario.timeline if isinstance(event, JumpClock))
        self._is_misled = any(not jump.date_header for jump in jumps)
        groups = scenario.providers["fake"]["groups"]
        self._telling = {group["name"] for group in groups if _SILENT not in group.get("switched_off", {})}
        self._last_ready: dict[str, float] = {}
        self._ran: set[str] = set()
        self._moves_began: dict[str, float] = {}
        watched = Planning(make_plan=self._plan, check_actions=planning.check_actions, strict=planning.strict)
        self._simulation = build_simulation(
            scenario, BuildOptions(planning=watched, load=self._load, meters_costs=False)
        )

    def watch(self) -> History:
        self.history.result = self._simulation.run()
        cloud = self._provider.cloud
        machines = [m for name in cloud.group_names() for m in cloud.group(name).machines.values()]
        self.history.machines = {machine.id: (machine.group, machine.phase.value) for machine in machines}
        self.history.nodes = self._nodes()
        self.history.targets = {name: cloud.group(name).target for name in cloud.group_names()}
        return self.history

    # What the provider tells

    def note_request(self, group: str, machines: int, *, ours: bool) -> None:
        at = self.history.loops[-1].at if ours else self._clock.now()
        self.history.asked.append(Asked(at, group, machines, ours))

    def begin_reads(self, groups: Sequence[NodeGroup]) -> None:
        self._has_groups = True
        self._answers = {}
        self._limits = {group.id: (group.min_size, group.max_size) for group in groups}

    @contextmanager
    def reading(self, what: str, group: str) -> Iterator[list[Any]]:
        """Keeps the last answer; a call that fails leaves none."""
        answers = self._answers.setdefault(group, {})
        answers[what] = None
        answer: list[Any] = []
        yield answer
        answers[what] = answer[0]

    @contextmanager
    def writing(
        self, hook: str, group: str, expected: int, *, target: int = 0, ids: Sequence[str] = ()
    ) -> Iterator[Write]:
        cloud = self._provider.watched
        machines = cloud.group(group).machines
        nodes = self._nodes()
        write = Write(
            at=self._clock.now(),
            hook=hook,
            group=group,
            expected=expected,
            target=target,
            ids=tuple(ids),
            phases={i: machines[i].phase.value for i in ids if i in machines},
            nodes=frozenset(nodes),
            marked=frozenset(machine for machine, node in nodes.items() if node.marked),
            occupied=self._occupied(ids),
        )
        before = cloud.group(group).target - cloud.by_others[group]
        if self.history.loops:
            self.history.loops[-1].writes.append(write)
        try:
            yield write
        except BaseException as error:
            write.error = type(error).__name__
            raise
        finally:
            write.accepted = abs(cloud.group(group).target - cloud.by_others[group] - before)

    # The engine

    def _load(
        self, name: str, context: ProviderContext, *, settings: CallSettings, runner: CallRunner
    ) -> ProviderClient:
        if name != "fake":
            return connect_provider(
                name, OtherProvider(context, name), clock=context.clock, settings=settings, runner=runner
            )
        self._clock = context.clock
        self._provider = TellingProvider(context, self)
        return connect_provider(name, self._provider, clock=context.clock, settings=settings, runner=runner)

    def _plan(self, state: ClusterState, settings: Settings, random: Random) -> tuple[Plan, PlanMemory]:
        nodes = self._nodes()
        # The engine's own clock may be wrong; the true one goes on while it reads.
        began = self._clock.now() if self._is_misled else state.now
        joined = set(nodes)
        seen = {group: found for group in self._answers if (found := self._seen(group, joined)) is not None}
        self.history.loops.append(
            Loop(
                at=began,
                ends_reads=self._clock.now(),
                pending=self._simulation.cluster.count_pending(),
                nodes=nodes,
                seen=seen if self._has_groups else {},
                waiting=self._waiting(),
                running=self._running(),
                backed_off=_backed_off(state),
                requests=self._requests(),
                leaving=self._leaving(settings.interruptions.replace_on_rebalance),
            )
        )
        self._has_groups = False
        if sum(loop.at == began for loop in self.history.loops[-LOOPS_AT_A_TIME:]) == LOOPS_AT_A_TIME:
            raise Endless(f"{began:g} s: {LOOPS_AT_A_TIME} loops at once")
        plan, after = self._planning.make_plan(state, settings, random)
        for action in plan.actions:
            if isinstance(action, IncreaseSize) and action.hedged:
                self.history.loops[-1].hedged[action.group.group_id] = action.hedged
        self._note_moves(state, plan)
        return plan, after

    def _leaving(self, replaces_on_rebalance: bool) -> dict[str, float]:
        """Return the machines that are to be replaced by a notice, and when the cloud takes each (inf: it does not say)."""
        found: dict[str, float] = {}
        for notice in self._provider.cloud.interruptions():
            if notice.kind != InterruptionKind.REBALANCE or replaces_on_rebalance:
                deadline = math.inf if notice.deadline is None else notice.deadline
                found[notice.instance_id] = min(deadline, found.get(notice.instance_id, math.inf))
        return found

    def _note_moves(self, state: ClusterState, plan: Plan) -> None:
        loop, snapshot = self.history.loops[-1], state.observation.snapshot
        ids = {node.name: node.spec.provider_id for node in snapshot.live_nodes()} if plan.moves else {}
        for move in plan.moves:
            if move.stage == MoveStage.PROPOSED:
                for one in move.added:
                    loop.moved[one.group.group_id] = loop.moved.get(one.group.group_id, 0) + one.nodes
            if move.stage.is_over:
                continue
            loop.given_up.update(ids[name] for name in move.left)
            if move.reason in (DisruptionReason.EXPIRED, DisruptionReason.DRIFTED):
                loop.renewed.update(ids[name] for name in move.left)
            loop.in_moves.update(loop.given_up)
            # By the true clock: the engine's own may have jumped since.
            began = self._moves_began.setdefault(move.id, loop.at)
            came = sorted((node.since, machine) for machine, node in loop.nodes.items() if node.since >= began)
            for one in move.added:
                own = [machine for _, machine in came if group_of(machine) == one.group.group_id]
                loop.in_moves.update(own[: one.nodes])

    def _seen(self, group: str, joined: Collection[str]) -> Seen | None:
        answers = self._answers[group]
        read = ["target", "instances", *(["failed"] if group in self._telling else [])]
        if any(answers.get(what) is None for what in read):
            return None
        listed = {instance.id: instance.state.value for instance in answers["instances"]}
        failed, slandered = {}, {}
        for failure in answers.get("failed", ()):
            if failure.instance_id in self._ran or failure.instance_id in joined:
                slandered[failure.instance_id] = listed.get(failure.instance_id, "running")
            else:
                failed[failure.failure_id] = failure
        self._ran.update(known for known, state in listed.items() if state == "running")
        least, most = self._limits[group]
        return Seen(
            target=answers["target"],
            least=least,
            most=most,
            instances=listed | slandered,
            failed=failed,
            disputed=frozenset(slandered),
        )

    def _waiting(self) -> frozenset[str]:
        return frozenset(pod.key for pod in self._simulation.cluster.pending())

    def _running(self) -> dict[str, int]:
        gangs = [spec.name for spec in self.history.scenario.deployments if spec.gang is not None]
        if not gangs:
            return {}
        held = [held for held in self._simulation.cluster.pods() if held.node and not held.is_ending]
        return {gang: sum(is_of(one.key, gang) for one in held) for gang in gangs}

    def _requests(self) -> dict[str, str]:
        return {held.name: _stage(held) for held in self._simulation.api_server.requests.all()}

    def _occupied(self, ids: Sequence[str]) -> frozenset[str]:
        if not ids:
            return frozenset()
        cluster = self._simulation.cluster
        # Of a pod that an API server hides within its grace period nothing tells any more: no controller counts it.
        is_hidden = self._simulation.api_server.misreads.changes_direct_reads(self._clock.now())
        nodes = (
            node.spec.provider_id
            for _, node in cluster.live.nodes()
            if any(not (is_hidden and held.is_ending) for held in cluster.pods_on(node.name))
        )
        return frozenset(nodes) & frozenset(ids)

    def _nodes(self) -> dict[str, NodeSeen]:
        """Nodes of the groups that are watched, by the id of their machine."""
        found: dict[str, NodeSeen] = {}
        for _, node in self._simulation.cluster.live.nodes():
            if not self._provider.cloud.has_group(group_of(node.spec.provider_id)):
                continue
            [said] = (condition for condition in node.status.conditions if condition.type == "Ready")
            ready, changed = said.status == "True", said.last_transition_time
            created = node.metadata.creation_timestamp
            if ready:
                self._last_ready[node.name] = self._clock.now()
            elif created is not None and changed is not None and (changed - created).total_seconds() > CLOSE:
                # It was Ready between two reads. One that changed sooner may never have been, as far as it shows.
                self._last_ready[node.name] = max(self._last_ready.get(node.name, 0.0), changed.timestamp())
            seen = NodeSeen(
                instance_id=node.spec.provider_id,
                since=created.timestamp() if created is not None else 0.0,
                ready=ready,
                last_ready=self._last_ready.get(node.name, float("-inf")),
                pods=sum(not held.is_ending for held in self._simulation.cluster.pods_on(node.name)),
                slots=int(node.allocatable["cpu"].milli // 1000),
                marked=any(taint.key == ON_ITS_WAY_OUT for taint in node.spec.taints),
                cordoned=node.spec.unschedulable,
                tainted=any(taint.key == BY_HAND.key for taint in node.spec.taints),
            )
            other = found.get(seen.instance_id)
            found[seen.instance_id] = seen if other is None else _as_one(other, seen)
        return found


def _as_one(one: NodeSeen, other: NodeSeen) -> NodeSeen:
    """Return what two objects for one machine say together: the one that was Ready is the one that a kubelet looks after."""
    real = max(one, other, key=lambda node: (node.last_ready, -node.since))
    return replace(real, pods=one.pods + other.pods, marked=one.marked or other.marked)


def _stage(request: ProvisioningRequest) -> str:
    if request.has(FAILED) or request.has(BOOKING_EXPIRED) or request.has(CAPACITY_REVOKED):
        return "over"
    return "granted" if request.has(PROVISIONED) else "waiting"


def _backed_off(state: ClusterState) -> dict[str, float]:
    """Return what the engine tells of itself: until when it leaves which group alone."""
    backoffs = {ref.group_id: group.backoff for ref, group in state.groups.items()}
    return {group: held.until for group, held in backoffs.items() if held is not None and held.until >= state.now}
