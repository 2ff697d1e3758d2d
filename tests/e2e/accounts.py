"""The service account of the chart with the chart's roles, and what a kubelet puts into its pods: tokens that rotate."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import wait_until
from tests.e2e.helm import render_mode
from tests.e2e.rights import path_of, read_roles

from nodewright.adapters.kube.connection import PodEnvironment

CORE = "/api/v1/namespaces/kube-system"
_ACCOUNTS = f"{CORE}/serviceaccounts"
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_SHORTEST_SECONDS = 600  # the API server issues none for less


class Account:
    """A service account in kube-system. Each of its tokens lives as long as a Secret that it is bound to."""

    def __init__(self, plane: ControlPlane, name: str) -> None:
        self.user = f"system:serviceaccount:kube-system:{name}"
        self._plane = plane
        self._name = name

    def issue(self) -> tuple[str, str]:
        """A token, and the path of its Secret."""
        meta = {"generateName": f"{self._name}-"}
        secret = self._plane.request(f"{CORE}/secrets", method="POST", body={"metadata": meta})["metadata"]
        bound = {"apiVersion": "v1", "kind": "Secret", "name": secret["name"], "uid": secret["uid"]}
        spec = {"expirationSeconds": _SHORTEST_SECONDS, "boundObjectRef": bound}
        path = f"{_ACCOUNTS}/{self._name}/token"
        issued = self._plane.request(path, method="POST", body={"spec": spec})
        token: str = issued["status"]["token"]
        wait_until(lambda: not is_refused(self._plane, token), "new token that is taken")
        return token, f"{CORE}/secrets/{secret['name']}"


@contextmanager
def make_account(plane: ControlPlane, name: str) -> Iterator[Account]:
    """One without rights."""
    plane.request(_ACCOUNTS, method="POST", body={"metadata": {"name": name}})
    try:
        yield Account(plane, name)
    finally:
        plane.request(f"{_ACCOUNTS}/{name}", method="DELETE")


@contextmanager
def make_account_of_chart(plane: ControlPlane) -> Iterator[Account]:
    """As helm would install it; the roles have names of their own, since a user has those of the chart."""
    [found] = [document for document in render_mode("run") if document["kind"] == "ServiceAccount"]
    name = found["metadata"]["name"]
    made = [(_ACCOUNTS, found), *((path_of(role), role) for role in read_roles("nodewright", name="in-a-pod"))]
    for path, document in made:
        plane.request(path, method="POST", body=document)
    try:
        yield Account(plane, name)
    finally:
        for path, document in made:
            plane.request(f"{path}/{document['metadata']['name']}", method="DELETE")


class PodFolder:
    """What is mounted at /var/run/secrets/kubernetes.io/serviceaccount, by way of links that are exchanged as a
    kubelet does it: a file is never half there.
    """

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._plane = plane
        self.path = folder
        self.authority = Path(
            json.loads(plane.kubeconfig().read_text())["clusters"][0]["cluster"]["certificate-authority"]
        )
        self._secret = ""
        self._numbers = count(1)
        folder.mkdir()
        for name in ("token", "ca.crt", "namespace"):
            (folder / name).symlink_to(f"..data/{name}")

    @property
    def pod(self) -> PodEnvironment:
        host, port = self._plane.server.removeprefix("https://").split(":")
        return PodEnvironment(self.path, {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port})

    def mount(self, account: Account) -> None:
        """A new token, of whichever account."""
        token, self._secret = account.issue()
        held = self.path / f"..{next(self._numbers)}"
        held.mkdir()
        (held / "token").write_text(token)
        (held / "namespace").write_text("kube-system")
        shutil.copy(self.authority, held / "ca.crt")
        self._exchange(held.name)

    @contextmanager
    def unmounted(self) -> Iterator[None]:
        """Every file is away."""
        name = (self.path / "..data").readlink().name
        self._exchange("..nowhere")
        yield
        self._exchange(name)

    def withdraw(self) -> None:
        """The token that is mounted holds no longer; the API server remembers for ten seconds that it did."""
        self._plane.request(self._secret, method="DELETE")

    def kubeconfig(self) -> Path:
        """For who is no pod, and has the same files."""
        config: dict[str, Any] = json.loads(self._plane.kubeconfig().read_text())
        config["clusters"][0]["cluster"]["certificate-authority"] = str(self.path / "ca.crt")
        config["users"][0]["user"] = {"tokenFile": str(self.path / "token")}
        file = self.path.with_suffix(".kubeconfig")
        file.write_text(json.dumps(config))
        return file

    def _exchange(self, target: str) -> None:
        fresh = self.path / "..data_tmp"
        fresh.symlink_to(target)
        fresh.replace(self.path / "..data")


def is_refused(plane: ControlPlane, token: str) -> bool:
    """Whether the API server refuses its bearer."""
    told = plane.request(_REVIEWS, method="POST", body={"spec": {"token": token}})
    return not told["status"].get("authenticated")
