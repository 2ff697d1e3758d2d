"""The whole engine with a cloud that takes its time: reading and writing, as the daemon does it."""

from random import Random

from loops import MOST_OF_MANY, many_pods, many_shapes
from measure import Benchmark, Prepared, Result, make_store
from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.provider import connect_provider
from nodewright.engine.autoscaler import Autoscaler
from nodewright.engine.ports import Ports
from nodewright.model.settings import Settings
from nodewright.model.sharing import Sharing
from nodewright.spec import ProviderContext
from nodewright_fake import CloudOptions, FakeCloud, FakeProvider, GroupConfig, Slow
from nodewright_fake.delays import Seconds
from nodewright_simulator.agenda import Agenda
from nodewright_simulator.api_server import ApiServer
from nodewright_simulator.cluster import SimulatedCluster, SimulatedPod
from nodewright_simulator.crash import Tripwire
from nodewright_simulator.journal import Journal
from nodewright_simulator.recorder import Recorder
from nodewright_simulator.scheduler import Scheduler

_SECONDS = Seconds(0.2)
_SLOW = ("refresh", "increase_size")


def prepare_slow_groups(share: float) -> Prepared:
    """Prepare groups and pods of many-groups, in a cloud where a refresh and a write take 200 ms each."""
    clock, random = SystemClock(), Random(1)
    groups = [GroupConfig(name=name, max_size=MOST_OF_MANY, **shape) for name, shape in many_shapes(50, share).items()]
    faults = tuple(Slow(hook=hook, seconds=_SECONDS) for hook in _SLOW)
    cloud = FakeCloud(CloudOptions(groups=tuple(groups), faults=faults), clock, random)
    provider = connect_provider("fake", FakeProvider(ProviderContext(clock=clock), cloud), clock=clock)
    cluster, sharing, now = SimulatedCluster(Scheduler(), Journal()), Sharing(), clock.now()
    for pod in many_pods(share):
        cluster.submit(SimulatedPod(sharing.pod(pod), arrived=now))
    cluster.schedule(now)
    recorder = Recorder(clock)
    world = Ports(
        cluster=ApiServer(cluster, Agenda(), clock, Tripwire()),
        providers=(provider,),
        store=make_store(),
        events=recorder,
        audit=recorder.audit,
    )
    engine = Autoscaler(world, clock, Settings(), random, world.store.load())

    def run() -> Result:
        report = engine.run_once()
        if report.problem or report.plan is None or report.plan.scale_up is None:
            raise AssertionError(f"no plan: {report.problem}")
        bought = [target for group in groups if (target := cloud.view(group.name).target)]
        return {"groups": len(bought), "nodes": sum(bought), "options": len(report.plan.scale_up.options)}

    return Prepared(run=run, expected={"groups": 1, "nodes": MOST_OF_MANY, "options": len(groups)})


SLOW_GROUPS: dict[str, Benchmark] = {
    "groups-slow": Benchmark(
        workload="many-groups in the whole engine, with a cloud of which a refresh and a write take 200 ms each",
        start="decoded pods",
        prepare=prepare_slow_groups,
        beyond=("many-groups", 1.0),
        by_wall=True,
    ),
}
