"""How the daemon does on a large cluster: ``python -m tests.e2e.scale [nodes] [pods]``.

Nodes are kwok's, pods are bound to them from the start. Prints the seconds of steady loops, the daemon's memory and
the requests that it made, each minute; fails if it lists what it watches.
"""

import json
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.e2e.binary import provide
from tests.e2e.cloud import SharedCloud
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.rights import bind_role

from nodewright_fake import CloudOptions, GroupConfig

_MEASURED_SECONDS = 60.0
_CLIENTS = 16


def make_node(number: int) -> dict[str, Any]:
    name = f"large-{number}"
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"providerID": f"fake:///large/{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "False", "reason": "Booting"}],
        },
    }


def make_pod(number: int, nodes: int) -> dict[str, Any]:
    container = {"name": "c", "image": "none.invalid/c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    return {
        "metadata": {"name": f"p{number}", "labels": {"app": f"a{number % 50}"}},
        "spec": {"nodeName": f"large-{number % nodes}", "containers": [container]},
    }


def fill(plane: ControlPlane, nodes: int, pods: int) -> None:
    with ThreadPoolExecutor(_CLIENTS) as clients:
        list(clients.map(lambda n: plane.request("/api/v1/nodes", method="POST", body=make_node(n)), range(nodes)))
        path = "/api/v1/namespaces/default/pods"
        list(clients.map(lambda n: plane.request(path, method="POST", body=make_pod(n, nodes)), range(pods)))


def measure(daemon: DaemonProcess, plane: ControlPlane) -> dict[str, Any]:
    """Steady loops for a minute."""
    audit = plane.folder / "audit.jsonl"
    before, loops = count_by_verb(audit), len(daemon.says("loop"))
    cpu = cpu_seconds(daemon)
    threading.Event().wait(_MEASURED_SECONDS)
    after = count_by_verb(audit)
    seconds = sorted(line["seconds"] for line in daemon.says("loop")[loops:])
    return {
        "loops": len(seconds),
        "median_seconds": statistics.median(seconds),
        "worst_seconds": seconds[-1],
        "cpu_seconds_per_minute": round(cpu_seconds(daemon) - cpu, 2),
        "resident_mib": resident_mib(daemon.process.pid),
        "requests_per_minute": {
            verb: count - before.get(verb, 0) for verb, count in after.items() if count != before.get(verb)
        },
    }


def count_by_verb(audit: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    for line in audit.read_text().splitlines():
        entry = json.loads(line)
        what = f"{entry['verb']} {entry.get('objectRef', {}).get('resource', '')}"
        if entry.get("responseStatus", {}).get("code") == HTTPStatus.NOT_FOUND:
            what = f"{what}, which is unknown"
        counts[what] = counts.get(what, 0) + 1
    return counts


def cpu_seconds(daemon: DaemonProcess) -> float:
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def resident_mib(pid: int) -> dict[str, int]:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) // 1024 for line in status if line.startswith(("VmRSS", "VmHWM"))}


def main(nodes: int, pods: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="scale-"))
    (folder / "plane").mkdir()
    group = GroupConfig(name="large", max_size=2 * nodes, size=nodes, cpu=16.0, memory="64Gi")
    with ControlPlane(provide(may_build=True).farm, folder / "plane", {"nodewright": ()}) as plane:
        bind_role(plane)
        cloud = SharedCloud(CloudOptions(groups=(group,)), folder / "cloud.sock")
        began = time.monotonic()
        fill(plane, nodes, pods)
        print(f"filled with {nodes} nodes and {pods} pods in {time.monotonic() - began:.0f} s", flush=True)
        began = time.monotonic()
        flags = ("--scan-interval=10s", "--scale-down-unneeded-time=10h")
        daemon = DaemonProcess(folder, plane.kubeconfig("nodewright"), cloud.address, flags)
        wait_until(lambda: daemon.says("loop"), "first loop", 300)
        print(f"first loop after {time.monotonic() - began:.1f} s: {daemon.says('loop')[0]}", flush=True)
        ready = f'nodes_count{{state="ready"}} {float(nodes)}'
        wait_until(lambda: ready in daemon.page("address", "/metrics"), "loop with every node ready", 600)
        found = measure(daemon, plane)
        print(json.dumps(found, indent=1), flush=True)
        print("control plane, MiB:", plane.memory())
        print("exit code", daemon.end())
    polled = [
        what for what in found["requests_per_minute"] if what.startswith("list ") and not what.endswith("unknown")
    ]
    sys.exit(f"polled, though it can be watched: {', '.join(polled)}" if polled else 0)


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]]
    main(*(sizes or (1000, 10_000)))
