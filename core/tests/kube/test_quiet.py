"""The writes in ten minutes without changes: none of the memory, and one of the status per minute."""

from random import Random

from core.tests.engine.conftest import EngineHarness
from core.tests.kube.conftest import ApiServer

from nodewright.adapters.kube.config_maps import ConfigMaps
from nodewright.adapters.kube.status_config_map import StatusMap
from nodewright.adapters.kube.store import ConfigMapStore
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.ports import ClusterObservation, Ports
from nodewright.model.settings import ScaleDownSettings, Settings
from nodewright.snapshot.snapshot import Snapshot
from nodewright.testkit import build_node

_QUIET_LOOPS = 60


class Site(EngineHarness):
    """One node, of the group's one machine: not needed, and looked at in every loop."""

    def read(self, now: float) -> ClusterObservation:
        assert now == self.clock.now()
        snapshot = Snapshot()
        snapshot.add_nodes([build_node("n", provider_id="a-0", cpu="4")])
        return ClusterObservation(snapshot=snapshot)


def test_ten_quiet_minutes(server: ApiServer) -> None:
    harness = Site()
    settings = Settings(scale_down=ScaleDownSettings(scale_down_unneeded_time=3600.0))
    maps = ConfigMaps(server, "kube-system")
    store, status = ConfigMapStore(maps, lambda: None), StatusMap(maps, "cluster-autoscaler-status")
    world = Ports(cluster=harness, providers=(harness,), store=store, events=harness, audit=harness.audit)
    engine = Autoscaler(world, harness.clock, settings, Random(1), store.load())

    def loop() -> None:
        report = engine.run_once()
        assert not report.problem
        assert report.state is not None
        assert report.plan is not None
        status.update(report.state, report.plan)
        harness.clock.sleep(10.0)

    for _ in range(3):
        loop()
    before = len(server.writes)
    for _ in range(_QUIET_LOOPS):
        loop()
    paths = [request.path for request in server.writes[before:]]
    assert not [path for path in paths if "nodewright-state" in path]
    assert len(paths) <= 10
