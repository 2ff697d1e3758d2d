"""The first loop of all: from the raw JSON of a large cluster, as an API server tells it, to a decision."""

import gc
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TypeVar
from weakref import finalize

from clusters import Cluster
from measure import Benchmark, Loop, Prepared, Result, scaled
from nodewright.adapters.kube.resources import Resource
from nodewright.model.meta import Object
from nodewright.model.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from nodewright.model.pod import Pod
from nodewright.model.settings import Settings
from nodewright.testkit.world import grown

T = TypeVar("T", bound=Object)
_GROUPS = 10
_PAGE = 500
_PENDING = 1000
_MOMENT = "2026-01-01T00:00:00Z"
_PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


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
    """Return a pod as an API server sends it: with its own token, environment, probes and statuses."""
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
            "containers": [_container_json(app, token, "300m" if node else "1500m")],
            "tolerations": [{"key": key, "operator": "Exists"} for key in tainted],
            "volumes": [{"name": token, "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "priority": 0,
        },
        "status": _RUNNING if node else _WAITING,
    }


def _container_json(app: int, token: str, cpu: str) -> dict[str, object]:
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1}
    return {
        "name": "main",
        "image": f"registry/app-{app}:v1",
        "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
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


def prepare_cold_start(size: int, share: float) -> Prepared:
    """Pages of raw list JSON on disk, to the first decision: two of the pods that wait fill a new node."""
    per_group = scaled(size // _GROUPS, share)
    folder, nodes = Path(mkdtemp(prefix="bench-")), per_group * _GROUPS
    names = [f"g{group}-{number}" for group in range(_GROUPS) for number in range(per_group)]
    node_pages = _write_pages(folder, "nodes", (_node_json(g, n) for g in range(_GROUPS) for n in range(per_group)))
    bound = (_pod_json(k, names[k % nodes]) for k in range(nodes * 10))
    waiting = (_pod_json(nodes * 10 + k, "") for k in range(_PENDING))
    pod_pages = [*_write_pages(folder, "pods", bound), *_write_pages(folder, "waiting", waiting)]
    groups = Cluster()
    for group in range(_GROUPS):
        shape = {"cpu": "4", "memory": "16Gi", "labels": {"pool": f"g{group}"}, "price": 0.2 + 0.01 * group}
        groups.add_group(f"g{group}", per_group, 10 * per_group + _PENDING, **shape)
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
        helped = sum(len(report.triggered) for report in (plan.scale_up, *plan.salvo))
        state[:] = cluster, seen, plan
        return {"nodes": len(seen.snapshot), "fitting": len(plan.fitting), "helped": helped, "added": added}

    finalize(run, rmtree, folder)
    expected = {"nodes": nodes, "fitting": 0, "helped": _PENDING, "added": _PENDING // 2}
    return Prepared(run=run, expected=expected, notes=lambda: {"resident MiB": _resident_mib()})


def _resident_mib() -> float:
    """Return the memory of the process in MiB; its peak, which is measured elsewhere, includes making the input."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return round(int(status.split("VmRSS:")[1].split()[0]) / 1024, 1)


def _read(resource: Resource[T], pages: Sequence[Path]) -> Iterator[T]:
    for page in pages:
        yield from resource.decode_page(page.read_bytes()).items


def _measured(size: int, limit: float, peak_limit_mib: float) -> dict[str, Benchmark]:
    """Return the benchmarks of a cluster with ``size`` nodes: the time to its first decision, and the memory after it."""
    prepare, name = partial(prepare_cold_start, size), "" if size == _USUAL else f"-{size}"
    return {
        f"cold-start{name}": Benchmark(
            workload=f"{size:,} nodes and {10 * size:,} pods in pages of 500, 1,000 pods pending, to the first decision",
            start="raw bytes on disk",
            prepare=prepare,
            limit=limit,
        ),
        f"memory{name}": Benchmark(
            workload=f"the state of cold-start{name} after its decision",
            start="raw bytes on disk",
            prepare=prepare,
            peak_limit_mib=peak_limit_mib,
        ),
    }


_USUAL = 15_000
COLD_START: dict[str, Benchmark] = {**_measured(_USUAL, 8, 700), **_measured(65_000, 25, 1_000)}
