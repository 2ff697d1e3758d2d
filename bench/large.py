"""Large clusters: loops in which little happens, the first loop of all, pods that depend on each other."""

import gc
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import TypeVar

from clusters import Cluster
from loops import prepare_many_groups
from measure import Benchmark, Loop, Prepared, Result, scaled
from nodewright.adapters.kube.resources import Resource
from nodewright.cli.clock import SystemClock
from nodewright.model.meta import LabelSelector, Object
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from nodewright.model.pod import Affinity, Pod, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from nodewright.model.settings import Settings
from nodewright.planner import Plan
from nodewright.testkit.builders import build_pod
from nodewright.testkit.world import grown

T = TypeVar("T", bound=Object)
_GROUPS = 10
_PAGE = 500
_PENDING = 100
_MOMENT = "2026-01-01T00:00:00Z"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


def _idle_cluster(nodes: int) -> tuple[Cluster, list[Pod]]:
    """Nodes with ten pods each, three quarters full: nothing can go."""
    cluster = Cluster()
    for group in range(_GROUPS):
        cluster.add_group(f"g{group}", nodes // _GROUPS, nodes, cpu="4", memory="16Gi", zone=f"z{group % 3}")
    pods = [_running(f"p{k}", node.name, k % 500) for k, node in enumerate(cluster.nodes * 10)]
    cluster.put(pods)
    return cluster, pods


def _running(name: str, node: str, deployment: int) -> Pod:
    owner, labels = ("ReplicaSet", f"rs{deployment}"), {"app": f"a{deployment}"}
    return build_pod(name, "300m", "1Gi", node_name=node, owner=owner, labels=labels)


def prepare_idle(nodes: int, changes: int, share: float) -> Prepared:
    """A third loop, which takes up so many changes: each a pod that went and one that came in its place."""
    cluster, pods = _idle_cluster(_GROUPS * scaled(nodes // _GROUPS, share))
    loop = Loop(Settings())
    for _ in range(2):
        loop.turn(cluster.look())
    count = scaled(changes, share) if changes else 0
    gone = Random(1).sample(pods, count)
    come = [_running(f"q{k}", pod.spec.node_name, k % 500) for k, pod in enumerate(gone)]
    changed: dict[str, Pod | None] = {pod.key: None for pod in gone}
    changed |= {pod.key: cluster.sharing.pod(pod) for pod in come}

    def run() -> Result:
        cluster.live.apply_pods(changed)
        plan = loop.turn(cluster.look())
        return {"actions": len(plan.actions), "removals": len(plan.scale_down.removals)}

    return Prepared(run=run, expected={"actions": 0, "removals": 0})


def _node_json(group: int, number: int) -> dict[str, object]:
    name, offered = f"g{group}-{number}", {"cpu": "4", "memory": "16Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {HOSTNAME_LABEL: name, ZONE_LABEL: f"z{group % 3}", "kubernetes.io/os": "linux", "pool": f"g{group}"}
    healthy = [
        {"type": kind, "status": "False", "reason": "Kubelet", "lastHeartbeatTime": _MOMENT} for kind in _PRESSURES
    ]
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": _MOMENT, "lastHeartbeatTime": _MOMENT}
    images = [{"names": [f"registry/{k}@sha256:{k:064x}"], "sizeBytes": 10**8} for k in range(10)]
    return {
        "metadata": {"name": name, "uid": f"node-{name}", "labels": labels, "creationTimestamp": _MOMENT},
        "spec": {"providerID": f"cloud:///g{group}/{number}", "podCIDR": "10.0.0.0/24"},
        "status": {"capacity": offered, "allocatable": offered, "conditions": [*healthy, ready], "images": images},
    }


def _pod_json(number: int, node: str) -> dict[str, object]:
    """A pod as an API server tells it: with a token of its own, environment, probes and statuses."""
    app, token = number % 500, f"kube-api-access-{number:05x}"
    owner = {"kind": "ReplicaSet", "name": f"rs{app}", "uid": f"uid-{app}", "apiVersion": "apps/v1", "controller": True}
    tainted = [f"node.kubernetes.io/{condition}" for condition in ("not-ready", "unreachable")]
    return {
        "metadata": {
            "name": f"pod-{number}",
            "namespace": f"team-{app % 20}",
            "uid": f"pod-uid-{number}",
            "resourceVersion": str(number),
            "creationTimestamp": _MOMENT,
            "labels": {"app": f"a{app}", "pod-template-hash": f"{app:08x}"},
            "annotations": {"checksum/config": f"{app:064x}"},
            "ownerReferences": [owner],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {f"f:{k}": {} for k in range(20)}}],
        },
        "spec": {
            **({"nodeName": node} if node else {}),
            "schedulerName": "default-scheduler",
            "containers": [_container_json(app, token)],
            "tolerations": [{"key": key, "operator": "Exists"} for key in tainted],
            "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "priority": 0,
        },
        "status": _RUNNING if node else _WAITING,
    }


def _container_json(app: int, token: str) -> dict[str, object]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1}
    return {
        "name": "main",
        "image": f"registry/app-{app}:v1",
        "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [
            {"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
        "env": [{"name": f"SETTING_{k}", "value": f"value-{k}"} for k in range(12)],
        "livenessProbe": probe,
        "readinessProbe": probe,
    }


_RUNNING = {
    "phase": "Running",
    "conditions": [{"type": t, "status": "True", "lastTransitionTime": _MOMENT} for t in ("Ready", "PodScheduled")],
    "containerStatuses": [
        {"name": "main", "ready": True, "restartCount": 0, "state": {"running": {"startedAt": _MOMENT}}}
    ],
}
_WAITING = {
    "phase": "Pending",
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": _MOMENT}
    ],
}


def _write_pages(folder: Path, name: str, items: Iterator[dict[str, object]]) -> list[Path]:
    pages: list[Path] = []
    page: list[str] = []

    def flush() -> None:
        pages.append(folder / f"{name}-{len(pages)}.json")
        pages[-1].write_text(f'{{"kind": "List", "metadata": {{}}, "items": [{",".join(page)}]}}')
        page.clear()

    for item in items:
        page.append(json.dumps(item))
        if len(page) == _PAGE:
            flush()
    if page:
        flush()
    return pages


def prepare_cold_start(share: float) -> Prepared:
    """Pages of raw list JSON on disk, to the first decision: room for 100 pods that wait."""
    per_group = scaled(1500, share)
    folder, nodes = Path(mkdtemp(prefix="bench-")), per_group * _GROUPS
    names = [f"g{group}-{number}" for group in range(_GROUPS) for number in range(per_group)]
    node_pages = _write_pages(folder, "nodes", (_node_json(g, n) for g in range(_GROUPS) for n in range(per_group)))
    bound = (_pod_json(k, names[k % nodes]) for k in range(nodes * 10))
    waiting = (_pod_json(nodes * 10 + k, "") for k in range(_PENDING * 10))
    pod_pages = [*_write_pages(folder, "pods", bound), *_write_pages(folder, "waiting", waiting)]
    groups = Cluster()
    for group in range(_GROUPS):
        groups.add_group(
            f"g{group}", per_group, 10 * per_group + _PENDING, cpu="4", memory="16Gi", labels={"pool": f"g{group}"}
        )
    described = groups.groups
    del groups
    state: list[object] = []

    def run() -> Result:
        cluster = Cluster(groups=described)
        cluster.live.apply_nodes({node.name: node for node in _read(Resource[Node]("Node"), node_pages)})
        cluster.live.apply_pods({pod.key: pod for pod in _read(Resource[Pod]("Pod"), pod_pages)})
        seen = cluster.look()
        plan = Loop(Settings()).turn(seen)
        added = sum(to - at for at, to in grown(plan).values())
        fitting = len(plan.fitting)
        state[:] = cluster, seen, plan
        return {"nodes": len(seen.snapshot), "helped": fitting + len(plan.scale_up.triggered), "added": min(added, 1)}

    room = 3 * nodes  # a node of 4 cores holds ten pods of 300 m and has room for three more
    waits = _PENDING * 10
    expected = {"nodes": nodes, "helped": waits, "added": int(room < waits)}
    return Prepared(run=run, expected=expected, notes=lambda: {"resident MiB": _resident_mib()})


def _resident_mib() -> float:
    """What the process holds now; its peak includes the making of the input."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmRSS:")[1].split()[0]) / 1024, 1)


def _read(resource: Resource[T], pages: Sequence[Path]) -> Iterator[T]:
    for page in pages:
        yield from resource.decode_page(page.read_bytes()).items


def prepare_affinity(share: float) -> Prepared:
    """200 deployments, spread over zones and kept apart on nodes; 10 pods of each wait."""
    cluster, deployments = Cluster(), scaled(200, share)
    for group in range(4):
        cluster.add_group(f"g{group}", 5 * deployments // 4, 5000, cpu="8", memory="32Gi", zone=f"z{group % 3}")
    nodes = [node.name for node in cluster.nodes]
    for number in range(deployments):
        cluster.put(
            [
                _choosy(f"d{number}-{k}", number, nodes[(number * 7 + k) % len(nodes)])
                for k in range(min(100, len(nodes)))
            ]
        )
        cluster.put([_choosy(f"w{number}-{k}", number, "") for k in range(10)])
    loop, seen = Loop(Settings()), cluster.look()

    def run() -> Result:
        return {"pods": _told(loop.turn(seen))}

    return Prepared(run=run, expected={"pods": deployments * 10})


def _told(plan: Plan) -> int:
    """Pods of which the plan says something."""
    reports = (plan.scale_up, *plan.salvo)
    told = sum(len(report.triggered) + len(report.awaiting) + len(report.unhelped) for report in reports)
    return told + len(plan.fitting)


def _choosy(name: str, deployment: int, node: str) -> Pod:
    labels = {"app": f"a{deployment}"}
    own = LabelSelector(match_labels=labels)
    apart = Affinity(
        pod_anti_affinity=PodAffinity(required=(PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=own),))
    )
    zones = (TopologySpreadConstraint(topology_key=ZONE_LABEL, max_skew=5, label_selector=own),)
    return build_pod(
        name,
        "350m",
        "1Gi",
        node_name=node,
        owner=("ReplicaSet", f"rs{deployment}"),
        labels=labels,
        affinity=apart,
        topology_spread_constraints=zones,
    )


def prepare_backlog(share: float) -> Prepared:
    """A hundred pods of each of 400 ReplicaSets wait beside a full cluster; every tenth keeps its pods apart."""
    cluster, sets = Cluster(), scaled(400, share)
    for group in range(_GROUPS):
        cluster.add_group(f"g{group}", 2 * sets // _GROUPS, 5000, cpu="8", memory="32Gi", zone=f"z{group % 3}")
    cluster.put([build_pod(f"r{node.name}", "8", "1Gi", node_name=node.name) for node in cluster.nodes])
    for number in range(sets):
        pods = [_waiting(f"w{number}-{k}", number) for k in range(100)]
        cluster.put(pods)
    loop, seen = Loop(Settings()), cluster.look()

    def run() -> Result:
        plan = loop.turn(seen)
        return {"pods": _told(plan), "partial": int(bool(plan.partial))}

    return Prepared(run=run, expected={"pods": sets * 100, "partial": 0})


def _waiting(name: str, number: int) -> Pod:
    if number % 10 == 0:
        return _choosy(name, number, "")
    owner, labels = ("ReplicaSet", f"rs{number}"), {"app": f"a{number}"}
    return build_pod(name, f"{100 + number % 97 * 10}m", f"{100 + number % 89}Mi", owner=owner, labels=labels)


def prepare_slow_groups(share: float) -> Prepared:
    """The same as many-groups with a refresh and a write of 200 ms each around it."""
    planned, clock = prepare_many_groups(50, share), SystemClock()

    def run() -> Result:
        clock.sleep(0.2)
        found = planned.run()
        for _ in range(found["groups"]):
            clock.sleep(0.2)
        return found

    return Prepared(run=run, expected=planned.expected)


def _idle(nodes: int, changes: int) -> Benchmark:
    what = f"{changes} of its pods changed" if changes else "nothing changed"
    limit = {0: 0.05, 10: 0.06, 100: 0.06}.get(changes)
    return Benchmark(
        workload=f"{nodes:,} nodes with 10 pods each, scale-down on, {what}; a whole loop",
        start="warm picture",
        prepare=partial(prepare_idle, nodes, changes),
        limit=limit,
    )


_SIZES, _CHANGES = (1_000, 5_000, 15_000), (0, 10, 100, 1_000)

LARGE: dict[str, Benchmark] = {
    **{f"idle-loop-{nodes}-{changes}": _idle(nodes, changes) for nodes in _SIZES for changes in _CHANGES},
    "cold-start": Benchmark(
        workload="15,000 nodes and 150,000 pods in pages of 500, 1,000 pods pending, to the first decision",
        start="raw bytes on disk",
        prepare=prepare_cold_start,
        limit=8,
    ),
    "memory": Benchmark(
        workload="the state of cold-start after its decision",
        start="raw bytes on disk",
        prepare=prepare_cold_start,
        peak_limit_mib=700,
    ),
    "affinity-heavy": Benchmark(
        workload="1,000 nodes, 20,000 pods of 200 deployments spread by zone and apart by node, 2,000 pending",
        start="decoded pods",
        prepare=prepare_affinity,
        limit=2,
    ),
    "backlog": Benchmark(
        workload="40,000 pods of 400 ReplicaSets wait beside 800 full nodes; a whole loop",
        start="decoded pods",
        prepare=prepare_backlog,
        limit=10,
        peak_limit_mib=700,
    ),
    "groups-slow": Benchmark(
        workload="many-groups with a refresh and a write that take 200 ms each",
        start="decoded pods",
        prepare=prepare_slow_groups,
        limit=4,
        by_wall=True,
    ),
}
