"""The scenarios of bench/beside_ca.py: what each does with a system, and what it measures."""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.rights import bind_role
from tests.e2e.scale import resident_mib

from beside_ca_report import Figures, Measured, busiest_minute, count_requests
from beside_ca_systems import CLOCK, USERS, Bench, Increase, Stage, open_stage
from nodewright.spec import Capability
from nodewright_fake import CloudOptions, GroupConfig, StockOut, fixed

_PODS = "/api/v1/namespaces/default/pods"
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_JOBS = "/apis/batch/v1/namespaces/default/jobs"
_ZONE = "topology.kubernetes.io/zone"
# The deployments of the burst: their CPU and memory, and the family of groups that they ask for.
_SHAPES = {"any": ("500m", "1Gi", ""), "compute": ("1", "1500Mi", "compute"), "memory": ("500m", "5Gi", "memory")}
_SHRINKS = (
    "--scale-down-unneeded-time=30s",
    "--scale-down-delay-after-add=10s",
    "--unremovable-node-recheck-timeout=10s",
)
_GROWS_ONLY = "--scale-down-enabled=false"
_LEAST_WASTE = "--expander=least-waste"
_IN_ORDER = ("--expander=priority", _GROWS_ONLY)

# Seconds that a machine takes to run, its kubelet to register, and its node to be ready.
_BOOTS, _REGISTERS, _IS_READY = 5.0, 1.0, 1.0
# Seconds: after the first loop, one scan interval and some; until a scenario goes on without what it waits for.
_SETTLES = 12.0
_GIVES_UP = 400.0
# After the last pod runs, requests may still come.
_LINGERS = 3.0
# cluster-autoscaler sends five events a second: those of 300 pods take a minute.
_COUNTS_REQUESTS = 90.0
_SHRINKS_FOR = 240.0


def measure_all(
    farm: Path, ca: Path | None, folder: Path, order: Sequence[tuple[int, str]], systems: Sequence[str]
) -> Iterator[Measured]:
    """Run each scenario of ``order`` with each system, on one control plane."""
    (folder / "plane").mkdir()
    with ControlPlane(farm, folder / "plane", USERS) as plane:
        bind_role(plane)
        bench = Bench(plane, ca)
        for run, scenario in order:
            for system in systems:
                before = os.getloadavg()[0]
                figures = _measure(bench, scenario, system, folder / f"{scenario}-{run}-{system}")
                load = [round(before, 1), round(os.getloadavg()[0], 1)]
                yield {"scenario": scenario, "system": system, "run": run, "load": load, "figures": figures}


def _measure(bench: Bench, scenario: str, system: str, folder: Path) -> Figures:
    try:
        return _SCENARIOS[scenario](bench, system, folder)
    except Exception as error:  # noqa: BLE001 - one scenario that fails must not cost the others their figures
        return {"error": f"{type(error).__name__}: {error}"}


def _burst(bench: Bench, system: str, folder: Path) -> Figures:
    """300 pods of three shapes come at once; when they have run for a while, they go."""
    with open_stage(bench, system, folder, CloudOptions(groups=_families())) as stage:
        autoscaler = stage.start(_LEAST_WASTE, *_SHRINKS)
        autoscaler.wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        begin = CLOCK.now()
        _deploy_shapes(stage)
        figures = _watch_growth(stage, begin, 300)
        CLOCK.sleep(max(0.0, begin + _COUNTS_REQUESTS - CLOCK.now()))
        by_kind = _count_requests(stage, begin)
        figures |= {"api_requests": by_kind.total(), "api_requests_by_kind": dict(by_kind.most_common())}
        figures |= _watch_shrinking(stage)
        figures["resident_mib"] = resident_mib(autoscaler.process.pid)["VmRSS"]
        return figures


def _planned(bench: Bench, system: str, folder: Path) -> Figures:
    """Measure 300 pods that exist before the process starts, so that its first decision is about all of them."""
    with open_stage(bench, system, folder, CloudOptions(groups=_families())) as stage:
        begin = CLOCK.now()
        _deploy_shapes(stage)
        _wait(lambda: _count_unschedulable(stage) == 300)
        stage.start(_LEAST_WASTE, _GROWS_ONLY).wait_until_it_leads()
        return _watch_growth(stage, begin, 300)


def _failure(bench: Bench, system: str, folder: Path) -> Figures:
    """Measure a first group without machines, which the cloud reports at once."""
    options = CloudOptions(groups=_zones("first", "second", "third"), stock_outs=(StockOut(zone="first"),))
    with open_stage(bench, system, folder, options) as stage:
        _prefer(stage, "first", "second", "third")
        stage.start(*_IN_ORDER).wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        return _watch_next_group(stage)


def _silence(bench: Bench, system: str, folder: Path) -> Figures:
    """Measure a first group without machines, which the cloud does not report."""
    options = CloudOptions(
        groups=_zones("first", "second"),
        stock_outs=(StockOut(zone="first"),),
        switched_off=(Capability.FAST_FAILURE_DETECTION,),
        retry_delay=fixed(5),
    )
    with open_stage(bench, system, folder, options) as stage:
        _prefer(stage, "first", "second")
        stage.start(*_IN_ORDER, "--max-node-provision-time=60s").wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        return _watch_next_group(stage)


def _restart(bench: Bench, system: str, folder: Path) -> Figures:
    """Kill the process (SIGKILL) 0.2 s after its first request for 50 machines, which take 30 s to start."""
    options = CloudOptions(groups=_zones("first", "second", boots=30))
    with open_stage(bench, system, folder, options) as stage:
        _prefer(stage, "first", "second")
        first = stage.start(*_IN_ORDER)
        first.wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        begin = CLOCK.now()
        _deploy(stage, "web", 200, "1", "1Gi")
        _wait(stage.increases, every=0.02)
        CLOCK.sleep(0.2)
        first.process.kill()
        first.process.wait()
        at_kill = sum(one.after - one.before for one in stage.increases())
        stage.start(*_IN_ORDER).wait_until_it_leads()
        figures = _watch_growth(stage, begin, 200)
        # When the last pod came is not known: the kill was waited for meanwhile.
        figures = {name: value for name, value in figures.items() if not name.endswith("after_last_pod")}
        return figures | {"asked_at_kill": at_kill, "asked": sum(one.after - one.before for one in stage.increases())}


def _terminated_leader(bench: Bench, system: str, folder: Path) -> Figures:
    return _lose_leader(bench, system, folder, signal.SIGTERM)


def _killed_leader(bench: Bench, system: str, folder: Path) -> Figures:
    return _lose_leader(bench, system, folder, signal.SIGKILL)


def _handed_over(bench: Bench, system: str, folder: Path) -> Figures:
    return _lose_leader(bench, system, folder, signal.SIGTERM, "nodewright" if system == "ca" else "ca")


def _left_behind(bench: Bench, system: str, folder: Path) -> Figures:
    return _lose_leader(bench, system, folder, signal.SIGKILL, "nodewright" if system == "ca" else "ca")


def _lose_leader(bench: Bench, system: str, folder: Path, number: signal.Signals, predecessor: str = "") -> Figures:
    """Pods come as the leader of two replicas goes; ``predecessor`` is its system, by default that of the other, too."""
    with open_stage(bench, system, folder, CloudOptions(groups=_zones("first", "second"))) as stage:
        _prefer(stage, "first", "second")
        leader = stage.start(*_IN_ORDER, replica="replica-one", system=predecessor)
        leader.wait_until_it_leads()
        stage.start(*_IN_ORDER, replica="replica-two").wait_until_it_waits()
        CLOCK.sleep(_SETTLES)
        begin, holder = CLOCK.now(), stage.leader()
        leader.process.send_signal(number)
        _deploy(stage, "web", 20, "1", "1Gi")
        leads = _wait(lambda: stage.leader() not in ("", holder))
        figures = _watch_growth(stage, begin, 20)
        # When the last pod came is not known: the lease was waited for meanwhile.
        figures = {name: value for name, value in figures.items() if not name.endswith("last_pod")}
        return figures | {
            "other_leads": None if leads is None else round(leads - begin, 1),
            "other_asks": figures["first_request"],
            "leader_status": leader.process.poll(),
        }


def _trickle(bench: Bench, system: str, folder: Path) -> Figures:
    """Five pods a second for two minutes."""
    with open_stage(bench, system, folder, CloudOptions(groups=_families())) as stage:
        stage.start(_LEAST_WASTE, _GROWS_ONLY).wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        begin = CLOCK.now()
        for number in range(600):
            CLOCK.sleep(max(0.0, begin + number / 5 - CLOCK.now()))
            pod = {"metadata": {"name": f"trickle-{number}"}, "spec": _pod_spec("500m", "1Gi")}
            stage.plane.request(_PODS, method="POST", body=pod)
        figures = _watch_growth(stage, begin, 600)
        return figures | {"writes_in_a_minute": busiest_minute([one.at for one in stage.increases()])}


def _waves(bench: Bench, system: str, folder: Path) -> Figures:
    """Four waves of Jobs, 20 s apart, each of 40 pods more than the wave before. Pods of Jobs end once they run."""
    waves: list[Figures] = []
    pods = 0
    with open_stage(bench, system, folder, CloudOptions(groups=_zones("first"))) as stage:
        stage.start(_LEAST_WASTE, _GROWS_ONLY).wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        for wave in range(1, 5):
            begin = CLOCK.now()
            for number in range(2 * wave):
                _create_job(stage, f"wave-{wave}-{number}", 20)
            pods += 40 * wave
            last_pod = _wait_until_tried(stage, pods)
            CLOCK.sleep(max(0.0, begin + 20.0 - CLOCK.now()))
            waves.append(_describe_writes(stage, begin, last_pod))
        ended = _wait(lambda: _count_in_phase(stage, "Succeeded") == pods)
        CLOCK.sleep(_LINGERS)
        later = [wave["last_request_after_last_pod"] for wave in waves if wave["writes"]]
        return {
            "writes": len(stage.increases()),
            "writes_of_one_wave": max(wave["writes"] for wave in waves),
            "last_request_after_last_pod": max(later, default=None),
            "all_ended": None if ended is None else round(ended - begin, 1),
            **_describe_sizes(stage),
            "waves": waves,
        }


def _groups(bench: Bench, system: str, folder: Path) -> Figures:
    """40 pods each for ten groups, of which each helps only its own."""
    names = [f"zone-{number}" for number in range(10)]
    with open_stage(bench, system, folder, CloudOptions(groups=_zones(*names))) as stage:
        stage.start(_LEAST_WASTE, _GROWS_ONLY).wait_until_it_leads()
        CLOCK.sleep(_SETTLES)
        begin = CLOCK.now()
        for name in names:
            _deploy(stage, name, 40, "1", "1Gi", {_ZONE: name})
        return _watch_growth(stage, begin, 400)


_SCENARIOS: dict[str, Callable[[Bench, str, Path], Figures]] = {
    "burst": _burst,
    "planned": _planned,
    "failure": _failure,
    "silence": _silence,
    "restart": _restart,
    "term": _terminated_leader,
    "crash": _killed_leader,
    "handover": _handed_over,
    "handover-crash": _left_behind,
    "trickle": _trickle,
    "waves": _waves,
    "groups": _groups,
}


def _watch_growth(stage: Stage, begin: float, pods: int) -> Figures:
    """Wait until this many pods run, and for requests that come then. Times count from ``begin``."""
    last_pod = _wait_until_tried(stage, pods)
    all_run = _wait(lambda: _count_in_phase(stage, "Running") >= pods, every=0.5)
    CLOCK.sleep(_LINGERS)
    return {
        "last_pod": None if last_pod is None else round(last_pod - begin, 2),
        "all_run": None if all_run is None else round(all_run - begin, 1),
        **_describe_writes(stage, begin, last_pod),
        **_describe_sizes(stage),
    }


def _watch_shrinking(stage: Stage) -> Figures:
    for name in _SHAPES:
        stage.plane.request(f"{_DEPLOYMENTS}/{name}", method="DELETE", body={"propagationPolicy": "Background"})
    begin = last = CLOCK.now()
    left = sum(stage.sizes().values())
    history = []
    while left and CLOCK.now() < begin + _SHRINKS_FOR:
        CLOCK.sleep(0.5)
        now = sum(stage.sizes().values())
        if now != left:
            left, last = now, CLOCK.now()
            history.append((round(last - begin, 1), left))
    return {"last_deletion": round(last - begin, 1), "nodes_left": left, "sizes_over_time": history}


def _watch_next_group(stage: Stage) -> Figures:
    """Deploy pods that the first group shall get, and watch until another one gets them."""
    begin = CLOCK.now()
    _deploy(stage, "web", 40, "1", "1Gi")
    figures = _watch_growth(stage, begin, 40)
    first = next((one.at for one in stage.increases() if one.group == "first"), None)
    other = next((one.at for one in stage.increases() if one.group != "first"), None)
    return figures | {"next_group": None if first is None or other is None else round(other - first, 2)}


def _describe_writes(stage: Stage, begin: float, last_pod: float | None) -> Figures:
    """Return what was asked of the cloud since ``begin``; ``last_pod`` is when the last pod was tried; None: never.

    ``decided`` is what was asked for before the first machine was ready. What is asked for later may be due to where
    kube-scheduler put the pods, which no autoscaler knows before.
    """
    asked: list[Increase] = [one for one in stage.increases() if one.at >= begin]
    last = asked[-1].at if asked else None
    decided = [one for one in asked if one.at < asked[0].at + _BOOTS + _REGISTERS + _IS_READY]
    return {
        "decided_nodes": sum(one.after - one.before for one in decided),
        "decided_writes_of_one_group": max(Counter(one.group for one in decided).values(), default=0),
        "decided_after_last_pod": None if not decided or last_pod is None else round(decided[-1].at - last_pod, 2),
        "first_request": round(asked[0].at - begin, 2) if asked else None,
        "last_request": None if last is None else round(last - begin, 2),
        "last_request_after_last_pod": None if last is None or last_pod is None else round(last - last_pod, 2),
        "writes": len(asked),
        "writes_of_one_group": max(Counter(one.group for one in asked).values(), default=0),
        "increases": [(round(one.at - begin, 2), one.group, one.before, one.after) for one in asked],
    }


def _describe_sizes(stage: Stage) -> Figures:
    sizes = stage.sizes()
    prices = {group.name: group.price_per_hour for group in stage.cloud.cloud.options.groups}
    dollars = sum(size * prices[name] for name, size in sizes.items())
    return {"nodes": sum(sizes.values()), "sizes": sizes, "dollars_per_hour": round(dollars, 2)}


def _count_requests(stage: Stage, begin: float) -> Counter[str]:
    with (stage.plane.folder / "audit.jsonl").open(encoding="utf-8") as audit:
        return count_requests(audit, stage.user, begin, begin + _COUNTS_REQUESTS)


def _wait(probe: Callable[[], object], *, every: float = 0.1) -> float | None:
    """Return when ``probe`` became true, None if it did not in time."""
    late = CLOCK.now() + _GIVES_UP
    while not probe():
        if CLOCK.now() > late:
            return None
        CLOCK.sleep(every)
    return CLOCK.now()


def _wait_until_tried(stage: Stage, pods: int) -> float | None:
    """As _wait, until there are this many pods and kube-scheduler has tried each: an autoscaler sees none before that."""

    def are_tried() -> bool:
        conditions = [one["type"] for pod in _list_pods(stage) for one in pod["status"].get("conditions", ())]
        return conditions.count("PodScheduled") >= pods

    return _wait(are_tried, every=0.2)


def _count_in_phase(stage: Stage, phase: str) -> int:
    return sum(pod["status"].get("phase") == phase for pod in _list_pods(stage))


def _count_unschedulable(stage: Stage) -> int:
    conditions = [one for pod in _list_pods(stage) for one in pod["status"].get("conditions", ())]
    return sum(one.get("reason") == "Unschedulable" for one in conditions)


def _list_pods(stage: Stage) -> list[Any]:
    """Of the API server's cache, which costs it least."""
    found: list[Any] = stage.plane.request(f"{_PODS}?resourceVersion=0")["items"]
    return found


def _deploy_shapes(stage: Stage) -> None:
    for name, (cpu, memory, family) in _SHAPES.items():
        _deploy(stage, name, 100, cpu, memory, {"family": family} if family else {})


def _deploy(stage: Stage, name: str, replicas: int, cpu: str, memory: str, selector: object = None) -> None:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": _pod_spec(cpu, memory) | {"nodeSelector": selector or {}}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    stage.plane.request(_DEPLOYMENTS, method="POST", body={"metadata": {"name": name}, "spec": spec})


def _create_job(stage: Stage, name: str, pods: int) -> None:
    template = {"spec": _pod_spec("1", "1Gi") | {"restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    stage.plane.request(_JOBS, method="POST", body={"metadata": {"name": name}, "spec": spec})


def _pod_spec(cpu: str, memory: str) -> dict[str, Any]:
    container = {"name": "c", "image": "none.invalid/c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {"terminationGracePeriodSeconds": 1, "containers": [container]}


def _prefer(stage: Stage, *names: str) -> None:
    """Write what both systems' expander priority reads: the first of the groups is the best."""
    priorities = "".join(f"{100 - number}: ['.*{name}.*']\n" for number, name in enumerate(names))
    body = {"metadata": {"name": "cluster-autoscaler-priority-expander"}, "data": {"priorities": priorities}}
    stage.plane.request("/api/v1/namespaces/kube-system/configmaps", method="POST", body=body)


def _families() -> tuple[GroupConfig, ...]:
    return (
        _group("general", "a", 4.0, "16Gi", 0.2),
        _group("compute", "b", 8.0, "16Gi", 0.34),
        _group("memory", "c", 4.0, "32Gi", 0.26),
    )


def _zones(*names: str, boots: float = _BOOTS) -> tuple[GroupConfig, ...]:
    return tuple(_group(name, name, 4.0, "16Gi", 0.2, boots) for name in names)


def _group(name: str, zone: str, cpu: float, memory: str, price: float, boots: float = _BOOTS) -> GroupConfig:
    return GroupConfig(
        name=name,
        max_size=500,
        zone=zone,
        cpu=cpu,
        memory=memory,
        labels={"family": name},
        instance_type=name,
        price_per_hour=price,
        request_delay=fixed(0),
        provision_delay=fixed(boots),
        register_delay=fixed(_REGISTERS),
        ready_delay=fixed(_IS_READY),
        delete_delay=fixed(0.5),
    )
