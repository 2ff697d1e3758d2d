"""The simulator beside a real control plane: the same workloads, clouds and settings; the same decisions, and waits that agree.

``pytest -s tests/e2e/test_simulated.py`` prints the waits of both, which are those of docs/simulator.md.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.e2e.cloud import RealClock, SharedCloud
from tests.e2e.conftest import StartDaemon
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import PATIENCE, wait_until
from tests.e2e.test_scale_up import PODS, deploy

from nodewright_fake import CloudOptions, load_options
from nodewright_simulator.api import Result, simulate

# By how many seconds a wait on the control plane may differ from the simulated one. kube-scheduler tries a pod again up to
# ten seconds after a node is ready; the rest is for a machine that is busy.
ERROR_SECONDS = 15.0
DELAYS = {
    "request_delay": "1s",
    "provision_delay": "8s",
    "register_delay": "2s",
    "ready_delay": "3s",
    "delete_delay": "1s",
}
SMALL = {"name": "small", "zone": "a", "max_size": 10, "cpu": 4, "memory": "16Gi", "price_per_hour": 0.2, **DELAYS}
LARGE = {**SMALL, "name": "large", "cpu": 16, "memory": "64Gi", "price_per_hour": 0.9}
OTHER = {**SMALL, "name": "other", "zone": "b", "price_per_hour": 0.3}
# Deployments with their pods, cores and second of arrival; ``ends``: the second from which the first has no pods.
CASES: dict[str, dict[str, Any]] = {
    "one group": {
        "groups": [SMALL],
        "deployments": [("web", 9, "1", 0.0)],
    },
    "two sizes, the second later": {
        "groups": [SMALL, LARGE],
        "deployments": [("web", 6, "1", 0.0), ("db", 2, "6", 20.0)],
    },
    "the cheaper group is sold out": {
        "groups": [SMALL, OTHER],
        "stock_outs": [{"zone": "a"}],
        "deployments": [("web", 6, "1", 0.0)],
    },
    "nodes that are no longer needed": {
        "groups": [SMALL],
        "deployments": [("web", 6, "1", 0.0)],
        "ends": 30.0,
    },
}
SETTINGS = {
    "scan-interval": "1s",
    "expander": "price",
    "scale-down-unneeded-time": "5s",
    "scale-down-delay-after-add": "5s",
    "scale-down-delay-after-failure": "5s",
}
# Machines by what was done and the group. Pods that come in two batches are two calls, for as many machines.
Changes = Counter[tuple[str, str]]


@pytest.fixture
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    return CASES[request.param]


@pytest.fixture
def cloud_options(case: Mapping[str, Any]) -> CloudOptions:
    return load_options(read_options(case))


def read_options(case: Mapping[str, Any]) -> dict[str, Any]:
    return {"groups": case["groups"], "stock_outs": case.get("stock_outs", [])}


def run_simulated(case: Mapping[str, Any]) -> Result:
    deployments = [
        {"name": name, "replicas": replicas, "at": f"{at:g}s", "pod": {"cpu": cpu, "memory": "0"}}
        for name, replicas, cpu, at in case["deployments"]
    ]
    ends = [{"do": "scale", "at": f"{case['ends']:g}s", "deployment": "web", "replicas": 0}] if "ends" in case else []
    scenario = {
        "name": "as on the control plane",
        "duration": "3m",
        "settings": SETTINGS,
        "providers": {"fake": read_options(case)},
        "deployments": deployments,
        "timeline": ends,
    }
    return simulate(scenario)


def of_simulated(result: Result) -> tuple[Changes, dict[str, list[float]]]:
    """The machines bought and deleted, and the waits of each workload's pods."""
    changes: Changes = Counter()
    for one in result.details.decisions:
        changes[one.what, one.group.rpartition("/")[2]] += abs(one.after - one.before)
    waits: dict[str, list[float]] = {}
    for pod in result.pods.itertuples():
        waits.setdefault(pod.name.partition("/")[2].partition("-")[0], []).append(pod.wait)
    return changes, waits


def run_real(plane: ControlPlane, case: Mapping[str, Any]) -> dict[str, list[float]]:
    """Carry out the case, and return the waits of each workload's pods until they ran."""
    clock, begin = RealClock(), RealClock().now()
    ran: dict[str, float] = {}
    came = {name: begin + at for name, _, _, at in case["deployments"]}
    waiting = sorted(case["deployments"], key=lambda one: one[3])
    pods = sum(replicas for _, replicas, _, _ in waiting)
    while len(ran) < pods:
        assert clock.now() < begin + PATIENCE, f"{len(ran)} of {pods} pods run"
        while waiting and came[waiting[0][0]] <= clock.now():
            name, replicas, cpu, _ = waiting.pop(0)
            came[name] = clock.now()
            deploy(plane, name, replicas, cpu=cpu)
        for pod in plane.request(PODS)["items"]:
            if pod["status"]["phase"] == "Running":
                ran.setdefault(pod["metadata"]["name"], clock.now())
        clock.sleep(0.1)
    if "ends" in case:
        clock.sleep(max(0.0, begin + case["ends"] - clock.now()))
        plane.request("/apis/apps/v1/namespaces/default/deployments/web", method="DELETE")
    waits: dict[str, list[float]] = {name: [] for name in came}
    for pod_name, at in ran.items():
        workload = pod_name.partition("-")[0]
        waits[workload].append(at - came[workload])
    return waits


def of_real(shared: SharedCloud) -> Changes:
    with shared.lock:
        calls = list(shared.calls)
    changes: Changes = Counter()
    for what, args in calls:
        changes[what, args[0]] += args[2] - args[1] if what == "increase" else len(args[1])
    return changes


def describe(waits: Sequence[float]) -> str:
    return f"{min(waits):.1f} to {max(waits):.1f} s"


@pytest.mark.parametrize("case", CASES, indirect=True, ids=CASES)
def test_the_simulator_decides_and_waits_as_a_control_plane(
    clean: ControlPlane, shared: SharedCloud, start: StartDaemon, case: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    expected, simulated = of_simulated(run_simulated(case))
    assert "ends" not in case or expected["delete", "small"] == 2
    daemon = start(*(f"--{flag}={value}" for flag, value in SETTINGS.items()))
    wait_until(lambda: daemon.says("loop"), "first loop")
    real = run_real(clean, case)
    if "ends" in case:
        wait_until(lambda: of_real(shared)["delete", "small"] >= 2, "removal of both nodes")
    assert of_real(shared) == expected
    for name, waits in real.items():
        print(f"{request.node.callspec.id}; {name}; {describe(waits)}; {describe(simulated[name])}")
        difference = max(abs(one - other) for one, other in zip(sorted(waits), sorted(simulated[name]), strict=True))
        assert difference <= ERROR_SECONDS, (sorted(waits), sorted(simulated[name]))
