"""A real control plane with fake kubelets, on loopback: etcd, API server, scheduler, controllers and kwok.

Nothing of it outlives this process: every part ends when its standard input closes.
"""

import csv
import io
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.e2e import farm_files
from tests.e2e.binary import Unavailable
from tests.e2e.certificates import ClientAuthority

_STARTS_WITHIN = 300.0
_LOOK_EVERY = 0.05
# An API server that lost its etcd takes minutes over a polite end.
_ENDS_POLITELY = ("etcd", "kwok")


class ControlPlane:
    """``users`` maps further users to their groups; each gets a token and a kubeconfig, and its requests are audited."""

    def __init__(self, binary: Path, folder: Path, users: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.binary = binary
        self.folder = folder
        masters = ("system:masters",)
        self._users = {"admin": masters, "kwok": masters, "system:kube-scheduler": (), "controllers": masters}
        self._users |= dict(users or {})
        self._audited = tuple(users or {})
        self._tokens = {user: secrets.token_hex(16) for user in self._users}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = dict(zip(("etcd", "peer", "api", "scheduler", "controller", "kwok"), _free_ports(6), strict=True))
        self.server = f"https://127.0.0.1:{self._ports['api']}"
        self.clients = ClientAuthority(folder)

    def __enter__(self) -> Self:
        try:
            self._prepare()
            self._start_storage()
            self._start_clients()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def kubeconfig(self, user: str = "admin") -> Path:
        return self.folder / f"kubeconfig-{user.replace(':', '-')}.json"

    def request(
        self, path: str, *, method: str = "GET", body: object = None, user: str = "admin", content: str = ""
    ) -> Any:
        """The decoded answer; raises urllib.error.HTTPError."""
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Authorization": f"Bearer {self._tokens[user]}",
            "Content-Type": content or "application/json",
        }
        asked = urllib.request.Request(self.server + path, data=data, method=method, headers=headers)  # noqa: S310 - https to our own server
        context = ssl.create_default_context(cafile=str(self._authority))
        try:
            with urllib.request.urlopen(asked, context=context, timeout=240) as reply:  # noqa: S310 - as above
                raw = reply.read()
        except urllib.error.HTTPError as error:
            with error:  # its connection would stay open for as long as the error is held
                said = io.BytesIO(error.read())
            raise urllib.error.HTTPError(error.url, error.code, error.reason, error.headers, said) from None
        return json.loads(raw) if raw.startswith((b"{", b"[")) else raw

    def restart_apiserver(self, *, down: float = 0.0) -> None:
        """Every connection is cut, and the server is back ``down`` seconds later."""
        self._end("apiserver")
        time.sleep(down)  # noqa: TID251 - the real control plane runs in real time
        self._start_apiserver()

    def memory(self) -> dict[str, int]:
        """Resident MiB of each process."""
        found = {}
        for name, process in self._processes.items():
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmRSS:"):
                    found[name] = int(line.split()[1]) // 1024
        return found

    def stop(self) -> None:
        for name in ("kwok", "scheduler", "controller", "apiserver", "etcd"):
            self._end(name)

    @property
    def _authority(self) -> Path:
        """The API server's self-signed certificate, which it writes when it starts."""
        return self.folder / "certs" / "apiserver.crt"

    def _prepare(self) -> None:
        with (self.folder / "tokens.csv").open("w") as file:
            rows = csv.writer(file)
            for number, (user, groups) in enumerate(self._users.items()):
                rows.writerow([self._tokens[user], user, f"uid-{number}", ",".join(groups)])
        key = self.folder / "service-account.key"
        subprocess.run(["openssl", "genrsa", "-traditional", "-out", str(key), "2048"], check=True, capture_output=True)
        for user in self._users:
            farm_files.write_kubeconfig(self.kubeconfig(user), self.server, self._authority, self._tokens[user])

    def _start_storage(self) -> None:
        ports = self._ports
        self._start("etcd", farm_files.etcd_flags(self.folder, ports["etcd"], ports["peer"]))
        self._start_apiserver()

    def _start_apiserver(self) -> None:
        etcd, port = self._ports["etcd"], self._ports["api"]
        self._start("apiserver", farm_files.apiserver_flags(self.folder, etcd, port, self._audited))
        self._wait("the API server", lambda: self.request("/readyz"))

    def _start_clients(self) -> None:
        folder, ports = self.folder, self._ports
        scheduler = self.kubeconfig("system:kube-scheduler")
        self._start("scheduler", farm_files.scheduler_flags(folder, scheduler, ports["scheduler"]))
        controllers = self.kubeconfig("controllers")
        self._start("controller", farm_files.controller_flags(folder, controllers, ports["controller"]))
        stages = subprocess.run([str(self.binary), "stages"], check=True, capture_output=True).stdout
        self._start("kwok", farm_files.kwok_flags(folder, self.kubeconfig("kwok"), ports["kwok"], stages))
        self._wait("the scheduler", lambda: _ask(f"https://127.0.0.1:{ports['scheduler']}/readyz"))
        self._wait("the controllers", lambda: _ask(f"https://127.0.0.1:{ports['controller']}/healthz"))
        self._wait("kwok", lambda: _ask(f"http://127.0.0.1:{ports['kwok']}/healthz"))
        account = "/api/v1/namespaces/default/serviceaccounts/default"  # no pod can be created without it
        self._wait("the default service account", lambda: self.request(account))

    def _start(self, name: str, flags: list[str]) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(self.binary), name, *flags],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HOME": str(self.folder), "KUBEFARM_FOLLOW_STDIN": "1"},
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.send_signal(signal.SIGTERM if name in _ENDS_POLITELY else signal.SIGKILL)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _wait(self, what: str, probe: Callable[[], object]) -> None:
        deadline = time.monotonic() + _STARTS_WITHIN
        while True:
            self._check_alive()
            try:
                probe()
            except (OSError, urllib.error.URLError) as error:
                if time.monotonic() > deadline:
                    raise Unavailable(f"{what} did not answer within {_STARTS_WITHIN:g} s: {error}") from None
                time.sleep(_LOOK_EVERY)  # noqa: TID251 - the real control plane runs in real time
            else:
                return

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() is not None:
                end = (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]
                raise Unavailable(f"{name} ended with status {process.returncode}: {' '.join(end.split())}")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()


def _ask(url: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, context=context, timeout=2) as reply:  # noqa: S310 - our own processes on loopback
            reply.read()
    except (
        urllib.error.HTTPError
    ) as error:  # not ready yet; its connection would stay open as long as the error is held
        error.close()
        raise
