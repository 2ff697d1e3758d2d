"""The Go cluster-autoscaler and nodewright as processes beside one control plane and one fake cloud."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml
from tests.e2e.cloud import Kubelets, RealClock, SharedCloud
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import PLUGIN, DaemonProcess

from nodewright_fake import CloudOptions

CLOCK = RealClock()
# The users of the API server as which the systems run; nodewright has the role of the chart.
USERS: dict[str, tuple[str, ...]] = {"nodewright": (), "ca": ("system:masters",)}
_STARTS_WITHIN = 180.0
_SERVES = re.compile(r"^Serving provider .* on (\S+) in plaintext", re.MULTILINE)


class Increase(NamedTuple):
    """One write that asked the cloud for machines."""

    at: float
    group: str
    before: int
    after: int


class Bench(NamedTuple):
    """``ca`` is the program of cluster-autoscaler, None where it is not measured."""

    plane: ControlPlane
    ca: Path | None


class Ended(Exception):
    """A process that should run has ended, or does not do what it should within three minutes."""


class Autoscaler:
    """One process. ``leads`` tells from its log whether it works, ``waits`` whether it waits for the lease."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", log: Path, leads: Callable[[], bool], waits: Callable[[], bool]
    ) -> None:
        self.process = process
        self._log = log
        self._leads, self._waits = leads, waits

    def wait_until_it_leads(self) -> None:
        self._wait("lead", self._leads)

    def wait_until_it_waits(self) -> None:
        self._wait("wait for the lease", self._waits)

    def _wait(self, what: str, probe: Callable[[], bool]) -> None:
        """Wait until the probe succeeds; raise Ended if the process ends before."""
        late = CLOCK.now() + _STARTS_WITHIN
        while not probe():
            if self.process.poll() is not None:
                raise Ended(
                    f"the process ended with status {self.process.returncode} before it could {what}: {self._log}"
                )
            if CLOCK.now() > late:
                raise Ended(f"the process did not {what} within {_STARTS_WITHIN:g} s: {self._log}")
            CLOCK.sleep(0.2)


class Stage:
    """The cloud of one scenario, and the autoscalers of one system that run beside it."""

    def __init__(self, bench: Bench, system: str, folder: Path, cloud: SharedCloud) -> None:
        self.plane = bench.plane
        self.system = system
        self.user = _user_of(system)
        self.cloud = cloud
        self._binary = bench.ca
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._bridge = ""

    def start(self, *flags: str, replica: str = "", system: str = "") -> Autoscaler:
        """Start one process; ``replica`` names one of several that elect a leader. ``system`` is the stage's by default."""
        system = system or self.system
        folder = self._folder / f"{system}-{len(self._processes)}"
        folder.mkdir()
        flags = (*flags, f"--leader-elect={'true' if replica else 'false'}")
        if system == "ca":
            started = self._start_ca(folder, flags, replica)
        else:
            profile = ["--profile=ca"] if system == "nodewright-ca" else []
            started = self._start_ours(folder, (*profile, *flags))
        self._processes.append(started.process)
        return started

    def increases(self) -> list[Increase]:
        with self.cloud.lock:
            calls = list(zip(self.cloud.call_times, self.cloud.calls, strict=True))
        return [Increase(at, *arguments) for at, (what, arguments) in calls if what == "increase"]

    def sizes(self) -> dict[str, int]:
        with self.cloud.lock:
            return {group.name: self.cloud.cloud.view(group.name).target for group in self.cloud.cloud.options.groups}

    def leader(self) -> str:
        """Return the name that the lease has for its holder, "" without one."""
        leases = self.plane.request("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")["items"]
        ours = (one for one in leases if one["metadata"]["name"] == "cluster-autoscaler")
        return next((one["spec"].get("holderIdentity") or "" for one in ours), "")

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start_ours(self, folder: Path, flags: Sequence[str]) -> Autoscaler:
        kubeconfig = self.plane.kubeconfig(_user_of("nodewright"))
        daemon = DaemonProcess(
            folder, kubeconfig, self.cloud.address, ["--scan-interval=10s", *flags], self._settings()
        )
        return Autoscaler(
            daemon.process,
            folder / "log.jsonl",
            lambda: any(line.get("message") == "loop" for line in daemon.lines()),
            lambda: bool(daemon.says("waiting to become")),
        )

    def _start_ca(self, folder: Path, flags: Sequence[str], replica: str) -> Autoscaler:
        """Its identity on the lease is the name of its host, so that each replica gets one of its own."""
        self._bridge = self._bridge or self._start_bridge()
        config = folder / "cloud-config.yaml"
        config.write_text(yaml.safe_dump({"address": self._bridge}))
        command = [
            *_on_host(replica),
            str(self._binary),
            f"--kubeconfig={self.plane.kubeconfig(_user_of('ca'))}",
            "--cloud-provider=externalgrpc",
            f"--cloud-config={config}",
            "--namespace=kube-system",
            "--address=127.0.0.1:0",
            "--v=4",
            *flags,
        ]
        log = folder / "log.txt"
        process = _run(command, log, {"POD_NAMESPACE": "kube-system"})
        waits = "attempting to acquire leader lease"
        return Autoscaler(
            process,
            log,
            lambda: "Starting main loop" in log.read_text(errors="replace"),
            lambda: waits in log.read_text(errors="replace").lower(),
        )

    def _start_bridge(self) -> str:
        """Return the address of a nodewright serve-externalgrpc that outlives the clients. Raises Ended."""
        config, log = self._folder / "bridge.yaml", self._folder / "bridge.log"
        config.write_text(yaml.safe_dump(self._settings()))
        command = [sys.executable, "-m", "nodewright", "serve-externalgrpc", "--config", str(config)]
        path = os.pathsep.join([str(PLUGIN), os.environ.get("PYTHONPATH", "")])
        process = _run(
            [*command, "--listen=127.0.0.1:0", "--insecure"], log, {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        )
        self._processes.append(process)
        Autoscaler(process, log, lambda: bool(_SERVES.search(log.read_text())), lambda: False).wait_until_it_leads()
        served = _SERVES.search(log.read_text())
        assert served is not None
        return served[1]

    def _settings(self) -> dict[str, object]:
        return {"providers": {"shared": {"options": {"address": str(self.cloud.address)}}}}


@contextmanager
def open_stage(bench: Bench, system: str, folder: Path, options: CloudOptions) -> Iterator[Stage]:
    """Open an empty cluster with a cloud for it."""
    empty_cluster(bench.plane)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as short:  # the address of a socket has at most 107 characters
        cloud = SharedCloud(options, Path(short) / "cloud.sock")
        stage = Stage(bench, system, folder, cloud)
        try:
            with Kubelets(bench.plane, cloud).at_work():
                try:
                    yield stage
                finally:
                    stage.end()
        finally:
            cloud.close()


def empty_cluster(plane: ControlPlane) -> None:
    """Delete workloads, nodes, leases and what autoscalers saved. Raises Ended if they are still there after a minute."""
    at_once = {"gracePeriodSeconds": 0}
    for path in (
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/batch/v1/namespaces/default/jobs",
        "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
        "/api/v1/namespaces/kube-system/configmaps",
    ):
        plane.request(path, method="DELETE", body={"propagationPolicy": "Background"})
    late = CLOCK.now() + 60.0
    while CLOCK.now() < late:
        plane.request("/api/v1/namespaces/default/pods", method="DELETE", body=at_once)
        plane.request("/api/v1/nodes", method="DELETE")
        if not any(plane.request(f"/api/v1/{what}?limit=1")["items"] for what in ("pods", "nodes")):
            return
        CLOCK.sleep(1.0)
    raise Ended("pods or nodes of the scenario before are still there")


def _user_of(system: str) -> str:
    return "ca" if system == "ca" else "nodewright"


def _on_host(name: str) -> list[str]:
    """Return the words that run a command under another host name, none without a name."""
    if not name:
        return []
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", "--uts", *rights, "sh", "-c", 'hostname "$0" && exec "$@"', name]


def _run(command: Sequence[str], log: Path, environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    with log.open("wb") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **environ}
        )
