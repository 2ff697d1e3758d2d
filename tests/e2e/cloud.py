"""A fake cloud in this process that daemons in other processes share, and the kubelets of its machines."""

import threading
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from random import Random
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.farm_files import NEVER_READY, READY_AFTER

from nodewright.spec import NodeStart
from nodewright_fake import CloudOptions, FakeCloud

_LOOK_EVERY = 0.1


class RealClock:
    """The end-to-end tests run in real time."""

    def now(self) -> float:
        return time.time()  # noqa: TID251 - as said above

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)


class SharedCloud:
    """``calls`` are the writes that it was asked for, ``call_times`` when. The lock is for the test that changes ``cloud``. ``leaves_nodes``: no controller
    deletes the node objects of machines that are gone, which are then silent. ``increase_seconds``: an increase takes effect so
    long after it came, even if its caller is gone; ``waiting`` are on their way.
    """

    def __init__(self, options: CloudOptions, address: Path) -> None:
        self.address = address
        self.lock = threading.RLock()
        self.cloud = FakeCloud(options, RealClock(), Random(1))
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.call_times: list[float] = []
        self.leaves_nodes = False
        self.increase_seconds = 0.0
        self.waiting = 0
        self._listener = Listener(str(address), family="AF_UNIX")
        threading.Thread(target=self._accept, name="shared-cloud", daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                line = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: "Connection[Any, Any]") -> None:
        with line:
            while True:
                try:
                    what, args, kwargs = line.recv()
                except (EOFError, OSError):
                    return
                if what == "increase":
                    self.waiting += 1
                    RealClock().sleep(self.increase_seconds)
                    self.waiting -= 1
                answer = self._answer(what, args, kwargs)
                try:
                    line.send(answer)
                except OSError:
                    return

    def _answer(self, what: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[bool, Any]:
        with self.lock:
            if what in ("increase", "decrease", "delete"):
                self.calls.append((what, args))
                self.call_times.append(RealClock().now())
            held = getattr(self.cloud, what)
            try:
                return True, held(*args, **kwargs) if callable(held) else held
            except Exception as error:  # noqa: BLE001 - it is raised again where the answer is awaited
                return False, (type(error), error.args, vars(error))


class Kubelets:
    """Registers the cloud's machines as nodes of the control plane, and takes nodes away with their machines."""

    def __init__(self, plane: ControlPlane, shared: SharedCloud) -> None:
        self._plane = plane
        self._shared = shared
        self._registered: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelets", daemon=True)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_LOOK_EVERY):
            with self._shared.lock:
                running = {start.instance_id: start for start in self._shared.cloud.running_machines()}
            try:
                self._follow(running)
            except OSError:
                continue  # the API server is away: again, in a moment

    def _follow(self, running: Mapping[str, NodeStart]) -> None:
        now = RealClock().now()
        for instance_id in [gone for gone in self._registered if gone not in running]:
            name = self._registered[instance_id]
            if self._shared.leaves_nodes:
                silence(self._plane, name)
            else:
                self._remove(name)
            del self._registered[instance_id]
        for instance_id, start in running.items():
            after = start.register_after_seconds
            if instance_id not in self._registered and after is not None and start.running_since + after <= now:
                self._register(start)
                self._registered[instance_id] = start.node_name

    def _register(self, start: NodeStart) -> None:
        with self._shared.lock:
            template = self._shared.cloud.view(start.group_id).template
        ready = (
            {READY_AFTER: f"{start.ready_after_seconds:g}s"} if start.ready_after_seconds < 1e6 else {NEVER_READY: ""}
        )
        amounts = {name: str(amount) for name, amount in template.allocatable.items()}
        node = {
            "metadata": {
                "name": start.node_name,
                "labels": {**template.labels, "kubernetes.io/hostname": start.node_name},
                "annotations": {**template.annotations, **ready},
            },
            "spec": {
                "providerID": start.instance_id,
                "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in template.taints],
            },
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "False", "reason": "Booting"}],
            },
        }
        try:
            self._plane.request("/api/v1/nodes", method="POST", body=node)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it was taken, and the answer lost
                raise

    def _remove(self, name: str) -> None:
        """The node goes, and its pods at once: the control plane would take a minute over them."""
        pods = self._plane.request(f"/api/v1/pods?fieldSelector=spec.nodeName={name}")["items"]
        paths = [f"/api/v1/nodes/{name}"]
        paths += [f"/api/v1/namespaces/{p['metadata']['namespace']}/pods/{p['metadata']['name']}" for p in pods]
        for path in paths:
            try:
                self._plane.request(path, method="DELETE", body={"gracePeriodSeconds": 0})
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise


def silence(plane: ControlPlane, name: str) -> None:
    """The node says nothing any more, as when its machine is gone or hangs."""
    merge = "application/merge-patch+json"
    dead = {"metadata": {"annotations": {NEVER_READY: ""}}}
    plane.request(f"/api/v1/nodes/{name}", method="PATCH", body=dead, content=merge)
    unknown = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}
    plane.request(f"/api/v1/nodes/{name}/status", method="PATCH", body=unknown, content=merge)
