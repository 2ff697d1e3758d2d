"""The daemon under random faults for a while: ``python -m tests.e2e.soak [minutes]`` (``make soak``: an hour).

Every few seconds something happens: pods come and go, zones sell out and recover, machines vanish, the API server is
restarted. In the end memory must be flat, no thread may be left behind, and every pod must run.
"""

import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.e2e.binary import provide
from tests.e2e.cloud import Kubelets, SharedCloud
from tests.e2e.conftest import make_group
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, wait_until
from tests.e2e.rights import bind_role
from tests.e2e.scale import resident_mib
from tests.e2e.test_scale_down import QUICK
from tests.e2e.test_scale_up import count_running, deploy

from nodewright_fake import CloudOptions, StockOut

_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_ZONES = ("a", "b", "c")
_APPS = 5
_FAULT_EVERY = 4.0
_GROWTH = 1.15


@dataclass
class Soak:
    """What was done, and what was seen of the daemon: MiB and threads over time."""

    plane: ControlPlane
    cloud: SharedCloud
    daemon: DaemonProcess
    random: Random
    did: dict[str, int] = field(default_factory=dict)
    mib: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    wanted: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        for number in range(_APPS):
            deploy(self.plane, f"app{number}", 0, "1")
            self.wanted[f"app{number}"] = 0

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            threading.Event().wait(_FAULT_EVERY)
            act = self.random.choices((self.scale, self.sell_out, self.lose, self.restart), weights=(20, 6, 2, 1))[0]
            act()
            self.did[act.__name__] = self.did.get(act.__name__, 0) + 1
            self.look()

    def look(self) -> None:
        self.mib.append(resident_mib(self.daemon.process.pid)["VmRSS"])
        self.threads.append(len(list(Path(f"/proc/{self.daemon.process.pid}/task").iterdir())))

    def scale(self) -> None:
        app = self.random.choice([*self.wanted])
        self.wanted[app] = self.random.randint(0, 12)
        self._scale(app)

    def _scale(self, app: str) -> None:
        body = {"spec": {"replicas": self.wanted[app]}}
        path = f"{_DEPLOYMENTS}/{app}"
        self.plane.request(path, method="PATCH", body=body, content="application/merge-patch+json")

    def sell_out(self) -> None:
        zone = self.random.choice(_ZONES)
        with self.cloud.lock:
            if self.cloud.cloud.supply.stock_outs:
                self.cloud.cloud.supply.stock_outs.clear()
            else:
                self.cloud.cloud.stock_out(StockOut(zone=zone))

    def lose(self) -> None:
        """One machine, without a word."""
        with self.cloud.lock:
            living = sorted(instance for zone in _ZONES for instance in self.cloud.cloud.living(zone))
            if living:
                self.cloud.cloud.lose(self.random.choice(living))

    def restart(self) -> None:
        self.plane.restart_apiserver(down=self.random.uniform(0.0, 2.0))

    def complaints(self) -> list[str]:
        """What must not be: the first half is for warming up."""
        half = len(self.mib) // 2
        found = []
        if self.mib[-1] > _GROWTH * max(self.mib[: half + 1]):
            found.append(f"memory grows: {self.mib}")
        if self.threads[-1] > max(self.threads[: half + 1]):
            found.append(f"threads are left behind: {self.threads}")
        if self.daemon.says("Traceback"):
            found.append("a traceback in the log")
        return found

    def settle(self) -> None:
        """Faults are over: everything that waits must run."""
        with self.cloud.lock:
            self.cloud.cloud.supply.stock_outs.clear()
        total = sum(self.wanted.values())
        wait_until(lambda: count_running(self.plane) == total, f"{total} running pods")


def soak(binary: Path, folder: Path, seconds: float, seed: int) -> Soak:
    """Raises AssertionError for a daemon that ended, or that does not help every pod in the end."""
    (folder / "plane").mkdir()
    groups = tuple(make_group(zone, zone=zone, max_size=20) for zone in _ZONES)
    with ControlPlane(binary, folder / "plane", {"nodewright": ()}) as plane:
        bind_role(plane)
        shared = SharedCloud(CloudOptions(groups=groups), folder / "cloud.sock")
        flags = (*QUICK, "--leader-elect-lease-duration=3m", "--leader-elect-renew-deadline=2m")
        quick = ("--initial-node-group-backoff-duration=10s", "--max-node-group-backoff-duration=20s")
        with Kubelets(plane, shared).at_work():
            config = plane.kubeconfig("nodewright")
            daemon = DaemonProcess(folder, config, shared.address, (*flags, *quick, "--max-deletions-per-window=1000"))
            found = Soak(plane, shared, daemon, Random(seed))
            try:
                found.begin()
                found.run(seconds)
                assert daemon.process.poll() is None, daemon.lines()[-3:]
                found.settle()
                found.look()
                assert daemon.end() == 0
            finally:
                daemon.kill()
        shared.close()
    return found


def main(minutes: float) -> None:
    found = soak(provide(may_build=True).farm, Path(tempfile.mkdtemp(prefix="soak-")), minutes * 60, 1)
    problems = [line["message"] for line in found.daemon.lines() if line.get("level") == "error"]
    tenths = [found.mib[number * (len(found.mib) - 1) // 10] for number in range(11)]
    print(f"done: {found.did}")
    print(f"MiB at the start, after each tenth: {tenths}")
    print(f"threads: {min(found.threads)} to {max(found.threads)}, in the end {found.threads[-1]}")
    print(f"loops: {len(found.daemon.says('loop'))}, errors: {problems}")
    sys.exit("; ".join(found.complaints()) or 0)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
