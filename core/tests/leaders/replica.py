"""One replica: the real lease, gate, store and engine of ``nodewright run``, put together as the daemon does."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from random import Random
from typing import Any, Protocol

from core.tests.kube.conftest import ApiServer
from core.tests.leaders.clouds import CloudPlugin, InPlace, SharedWorld
from core.tests.leaders.stage import Process, Stage

from nodewright.actuation import AuditLog, Event, Eviction, GangView, NodeView
from nodewright.adapters.kube.api import Api, ApiError, GuardedApi, Lines, Request
from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.lease import Leadership, LeaseOptions
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.adapters.provider import connect_provider
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.daemon import Daemon
from nodewright.engine.ports import ClusterObservation, Ports
from nodewright.model.errors import KubeApiError, NodewrightError
from nodewright.model.node import Node
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings
from nodewright.model.write_fence import WriteFence

NAMESPACE = "kube-system"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/cluster-autoscaler"


class Weather(Protocol):
    """What befalls processes."""

    def step(self, process: Process, *, weighs: bool) -> None:
        """A moment between two steps: time passes, and the process may be frozen or killed. ``weighs``: near a write."""

    def is_cut_off(self, process: Process) -> bool:
        """Whether the API server does not answer this process now."""

    def wrote(self, replica: "Replica", group_id: str) -> None:
        """A write of this replica to a cloud leaves now."""


class Line:
    """Implements Api: the way of one process to the API server."""

    def __init__(self, server: ApiServer, process: Process, weather: Weather) -> None:
        self._server, self._process, self._weather = server, process, weather

    def send(self, request: Request) -> bytes:
        weighs = "configmaps" in request.path and request.method != "GET"
        self._weather.step(self._process, weighs=weighs)
        if self._weather.is_cut_off(self._process):
            raise ApiError(f"{request}: no answer")
        answer = self._server.send(request)
        self._weather.step(self._process, weighs=weighs)
        if self._weather.is_cut_off(self._process):
            raise ApiError(f"{request}: no answer")
        return answer

    def follow(self, request: Request) -> AbstractContextManager[Lines]:
        return self._server.follow(request)


class ClusterLine:
    """Implements ClusterPort for what the engine of one process asks; writes are checked as GuardedApi checks them."""

    def __init__(self, world: SharedWorld, process: Process, weather: Weather, guarded: Api) -> None:
        self._world, self._process, self._weather, self._guarded = world, process, weather, guarded
        inner = world.api
        self.write_conditions, self.delete_request = inner.write_conditions, inner.delete_request
        self.write_quota_status, self.write_buffer_status = inner.write_quota_status, inner.write_buffer_status

    def read(self, now: float) -> ClusterObservation:
        return self._world.api.read(now)

    def get_node_view(self, node: str) -> NodeView:
        self._meet()
        return self._world.api.get_node_view(node)

    def find_unlisted(self, node: str) -> tuple[Pod, ...]:
        self._meet()
        return self._world.api.find_unlisted(node)

    def get_gang_view(self, namespace: str) -> GangView:
        self._meet()
        return self._world.api.get_gang_view(namespace)

    def list_nodes(self) -> Iterator[Node]:
        self._meet()
        return self._world.api.list_nodes()

    def edit_node(self, name: str, edit: Callable[[Node], Node]) -> Node | None:
        self._write()
        before = self._world.api.edit_node(name, edit)
        self._world.schedule()
        return before

    def evict(self, pod: Pod, grace_seconds: int) -> Eviction:
        self._write()
        return self._world.api.evict(pod, grace_seconds)

    def delete_pod(self, pod: Pod, grace_seconds: int) -> Eviction:
        self._write()
        return self._world.api.delete_pod(pod, grace_seconds)

    def _meet(self) -> None:
        self._weather.step(self._process, weighs=False)
        if self._weather.is_cut_off(self._process):
            raise KubeApiError("no answer", retryable=True)

    def _write(self) -> None:
        self._meet()
        # Refused without a lease; with one this path is missing, and nothing else happens.
        try:
            self._guarded.send(Request(method="DELETE", path="/api/v1/nodes/none"))
        except ApiError as error:
            if not error.is_missing:
                raise


class Silence:
    """Implements EventSink."""

    def record(self, event: Event) -> None: ...


class _Alarm:
    """Implements Alarm: rings within ``patience`` seconds of an order to stop."""

    def __init__(self, stage: Stage, rings: Callable[[], bool], patience: float) -> None:
        self._stage, self._rings, self._patience = stage, rings, patience

    def take_urgent(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        until = self._stage.now() + seconds
        while self._stage.now() < until and not self._rings():
            self._stage.sleep(min(self._patience, until - self._stage.now()))
        return self._rings()


class Replica:
    """A process from its start to its end. Subclasses leave out what a mutant lacks.

    ``patience`` is how many seconds it may take to hear that it is to stop.
    """

    patience = 5.0
    plugin: CloudPlugin

    def __init__(
        self, process: Process, world: SharedWorld, server: ApiServer, weather: Weather, settings: Settings
    ) -> None:
        self.process = process
        self.is_told_to_stop = self._has_ended = False
        self.problems: list[str] = []
        self._world, self._server, self._weather, self._settings = world, server, weather, settings
        self._stage = world.stage
        self._random = Random(f"{process.name}")
        self._line = Line(server, process, weather)
        self.lease = self._make_lease()

    def live(self) -> None:
        """As a thread of the process: until it has lost the lease or was told to stop."""
        leader = self._settings.leader
        while not self.is_told_to_stop and not self.lease.attempt():
            self._stage.sleep(leader.leader_elect_retry_period * self._random.uniform(1.0, 1.2))
        if self.is_told_to_stop:
            self.lease.release()
            self.process.is_dead = True
            return
        self._stage.spawn(self.process, self._keep)
        engine = self._start()
        if engine is None:
            self.process.is_dead = True  # it ends without a good-bye, as after any error at its start
            return
        alarm = _Alarm(self._stage, lambda: self.is_told_to_stop, self.patience)
        Daemon(engine, self._stage, alarm, may_go_on=self._may_go_on, on_report=lambda _: None).run()
        if self.lease.remaining() > 0:
            try:
                engine.end()
            except NodewrightError as error:
                self.problems.append(str(error))
        self._has_ended = True
        self.lease.release()
        self.process.is_dead = True

    def _may_go_on(self) -> bool:
        return self.lease.remaining() > 0 and not self.is_told_to_stop

    def _keep(self) -> None:
        while True:
            self._stage.sleep(self._settings.leader.leader_elect_retry_period)
            if not self._has_ended:
                self.lease.attempt()
                self.lease.give_up_if_late()

    def _start(self) -> Autoscaler | None:
        gate = self._make_gate()
        self.plugin = plugin = CloudPlugin(
            self._world,
            self.process,
            lambda group_id: self._weather.wrote(self, group_id),
            lambda: self._weather.step(self.process, weighs=True),
        )
        runner = InPlace(self._stage)
        client = connect_provider("shared", plugin, clock=self._stage, runner=runner, gate=gate)
        guarded = self._guarded(self._line)
        world = Ports(
            cluster=ClusterLine(self._world, self.process, self._weather, guarded),
            providers=(client,),
            store=self._make_store(ConfigMapStore(ConfigMaps(guarded, NAMESPACE), lambda: None)),
            events=Silence(),
            audit=AuditLog(),
            gate=gate,
        )
        try:
            return Autoscaler(world, self._stage, self._settings, self._random, world.store.load())
        except NodewrightError as error:
            self.problems.append(str(error))
            return None

    # What mutants lack

    def _make_lease(self) -> Leadership:
        leader, store = self._settings.leader, ConfigMapStore(ConfigMaps(self._line, NAMESPACE), lambda: None)
        options = LeaseOptions(
            namespace=NAMESPACE,
            name="cluster-autoscaler",
            identity=self.process.name,
            duration=leader.leader_elect_lease_duration,
            renew_deadline=leader.leader_elect_renew_deadline,
            retry_period=leader.leader_elect_retry_period,
            is_first=lambda: not store.exists(),
        )
        return Leadership(self._line, options, self._stage, self._stage, self._random)

    def _make_gate(self) -> WriteFence:
        return WriteFence(self._stage.now, self.lease.remaining)

    def _guarded(self, line: Api) -> Api:
        return GuardedApi(line, self.lease.remaining)

    def _make_store(self, store: ConfigMapStore) -> Any:
        return store
