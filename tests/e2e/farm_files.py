"""What the control plane's processes are told: their flags and files."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Node annotations: a Go duration until the fake kubelet is ready, and one whose presence keeps it from it forever.
READY_AFTER = "farm/ready-after"
NEVER_READY = "farm/never-ready"
# Pod annotation: a Go duration for which the pod goes on after it was told to end.
ENDS_AFTER = "farm/ends-after"

CONTROLLERS = (
    "serviceaccount-controller",
    "namespace-controller",
    "deployment-controller",
    "replicaset-controller",
    "statefulset-controller",
    "daemonset-controller",
    "job-controller",
    "disruption-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "pod-garbage-collector-controller",
    "garbage-collector-controller",
    "podgroup-protection-controller",
)
# What Kubernetes 1.37 has and does not switch on by itself: gangs (PodGroups), and tolerations that compare numbers.
_GATES = "--feature-gates=GenericWorkload=true,TaintTolerationComparisonOperators=true"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_OPEN_PATHS = "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics"


def etcd_flags(folder: Path, client: int, peer: int) -> list[str]:
    clients, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        f"--data-dir={folder / 'etcd'}",
        "--name=farm",
        f"--listen-client-urls={clients}",
        f"--advertise-client-urls={clients}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=farm={peers}",
        "--unsafe-no-fsync",
        "--log-level=error",
    ]


def apiserver_flags(folder: Path, etcd: int, port: int, audited: Sequence[str]) -> list[str]:
    """Every request of the users ``audited`` is written to audit.jsonl."""
    key, policy = folder / "service-account.key", folder / "audit-policy.json"
    rules: list[dict[str, Any]] = [{"level": "None"}]
    if audited:  # a rule without users would be about all of them
        rules.insert(0, {"level": "Metadata", "users": list(audited), "omitStages": ["RequestReceived"]})
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}))
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.jsonl'}",
        f"--etcd-servers=http://127.0.0.1:{etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        f"--token-auth-file={folder / 'tokens.csv'}",
        f"--client-ca-file={folder / 'clients.crt'}",
        _GATES,
        "--runtime-config=scheduling.k8s.io/v1beta1=true",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://farm.invalid",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--allow-privileged=true",
        "--enable-priority-and-fairness=false",
        "--max-requests-inflight=0",
        "--max-mutating-requests-inflight=0",
        "--profiling=false",
        "--event-ttl=10m",
        "--delete-collection-workers=8",
    ]


def scheduler_flags(folder: Path, kubeconfig: Path, port: int) -> list[str]:
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 2000, "burst": 4000, "contentType": _PROTOBUF},
    }
    path = folder / "scheduler.json"
    path.write_text(json.dumps(config))
    return [f"--config={path}", _GATES, *_serving(folder, port)]


def controller_flags(folder: Path, kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(CONTROLLERS)}",
        "--leader-elect=false",
        _GATES,
        *_serving(folder, port),
        "--kube-api-qps=2000",
        "--kube-api-burst=4000",
        "--concurrent-replicaset-syncs=10",
        f"--kube-api-content-type={_PROTOBUF}",
    ]


def kwok_flags(folder: Path, kubeconfig: Path, port: int, stages: bytes) -> list[str]:
    path = folder / "stages.json"
    path.write_text("\n---\n".join(json.dumps(stage) for stage in _tuned(json.loads(stages))))
    return [
        f"--kubeconfig={kubeconfig}",
        f"--config={path}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        "--cidr=10.128.0.0/9",
        "--node-ip=10.255.0.1",
        f"--server-address=127.0.0.1:{port}",
    ]


def write_kubeconfig(path: Path, server: str, authority: Path, token: str) -> None:
    cluster = {"server": server, "certificate-authority": str(authority)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "farm",
        "clusters": [{"name": "farm", "cluster": cluster}],
        "users": [{"name": "farm", "user": {"token": token}}],
        "contexts": [{"name": "farm", "context": {"cluster": "farm", "user": "farm"}}],
    }
    path.write_text(json.dumps(config))
    path.chmod(0o600)


def _serving(folder: Path, port: int) -> list[str]:
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}",
        "--authentication-skip-lookup=true",
        _OPEN_PATHS,
    ]


def _tuned(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """kwok's own stages, with the annotations above."""
    waits = {"node-initialize": READY_AFTER, "pod-delete": ENDS_AFTER}
    for stage in stages:
        name = stage["metadata"]["name"]
        if name in waits:
            wait = {"expressionFrom": f'.metadata.annotations["{waits[name]}"]'}
            stage["spec"]["delay"] = {"durationMilliseconds": 0, "durationFrom": wait}
        if name == "node-initialize":
            never = {"key": f'.metadata.annotations["{NEVER_READY}"]', "operator": "DoesNotExist"}
            stage["spec"]["selector"]["matchExpressions"].append(never)
    return stages
