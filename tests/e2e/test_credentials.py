"""Credentials that run out or are withdrawn while the connection goes on."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from tests.e2e.accounts import Account, PodFolder, is_refused, make_account, make_account_of_chart
from tests.e2e.cloud import RealClock, SharedCloud
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import DaemonProcess, run_command, wait_until
from tests.e2e.test_scale_up import PODS, count_running, deploy

from nodewright.adapters.kube.api import ApiError, Request
from nodewright.adapters.kube.connection import Connection, connect
from nodewright.adapters.kube.reflector import ObjectCache, Reflector
from nodewright.adapters.kube.resources import Resource
from nodewright.model.duration import format_moment
from nodewright.model.pod import Pod

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
EXEC = "client.authentication.k8s.io/v1"


def who_asks(connection: Connection) -> str:
    """The user whom the API server takes us for."""
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    review = json.loads(connection.send(Request(method="POST", path=REVIEWS, body=body)))
    return str(review["status"]["userInfo"]["username"])


class Plugin:
    """An exec plugin, and the kubeconfig that names it; without ``issue`` it fails."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._issued = folder / "credential.json"
        config = json.loads(plane.kubeconfig().read_text())
        plugin = {"apiVersion": EXEC, "command": "cat", "args": [str(self._issued)], "interactiveMode": "Never"}
        config["users"][0]["user"] = {"exec": plugin}
        self.kubeconfig = folder / "kubeconfig.json"
        self.kubeconfig.write_text(json.dumps(config))

    def issue(self, token: str, seconds: float | None = None) -> None:
        """What it answers from now on; without ``seconds`` it does not say how long that holds."""
        status = {"token": token}
        if seconds is not None:
            status["expirationTimestamp"] = format_moment(RealClock().now() + seconds)
        self._issued.write_text(json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": status}))

    def fail(self) -> None:
        self._issued.unlink()


@pytest.fixture
def plugin(plane: ControlPlane, tmp_path: Path) -> Plugin:
    return Plugin(plane, tmp_path)


@pytest.fixture
def account(plane: ControlPlane) -> Iterator[Account]:
    """The service account of the chart, with its roles."""
    with make_account_of_chart(plane) as made:
        yield made


@pytest.fixture
def other(plane: ControlPlane) -> Iterator[Account]:
    with make_account(plane, "other") as made:
        yield made


@pytest.fixture
def mounted(plane: ControlPlane, account: Account, tmp_path: Path) -> PodFolder:
    """A pod's folder with a token of ``account``."""
    folder = PodFolder(plane, tmp_path / "serviceaccount")
    folder.mount(account)
    return folder


def token_of(plane: ControlPlane, user: str) -> str:
    [held] = json.loads(plane.kubeconfig(user).read_text())["users"]
    return str(held["user"]["token"])


def withdraw(plane: ControlPlane, folder: PodFolder) -> None:
    """Until the API server refuses the token: by now it would have run out."""
    token = (folder.path / "token").read_text()
    folder.withdraw()
    wait_until(lambda: is_refused(plane, token), "refusal of the token that was withdrawn")


# Exec plugins


def test_an_exec_plugin_is_asked_again_when_its_token_runs_out(plane: ControlPlane, plugin: Plugin) -> None:
    plugin.issue(token_of(plane, "nodewright"), seconds=1)
    connection = connect(kubeconfig=str(plugin.kubeconfig))
    assert who_asks(connection) == "nodewright"
    plugin.issue(token_of(plane, "admin"), seconds=3600)
    assert who_asks(connection) == "admin"
    plugin.issue(token_of(plane, "nodewright"), seconds=3600)
    assert who_asks(connection) == "admin"  # its token holds for an hour: the plugin is not asked


@pytest.mark.parametrize("seconds", [3600.0, None])
def test_an_exec_plugin_is_asked_again_when_its_token_is_refused(
    plane: ControlPlane, plugin: Plugin, mounted: PodFolder, account: Account, seconds: float | None
) -> None:
    """Independent of how long it said that would hold; while it fails, no call goes without credentials."""
    plugin.issue((mounted.path / "token").read_text(), seconds)
    connection = connect(kubeconfig=str(plugin.kubeconfig))
    assert who_asks(connection) == account.user
    plugin.fail()
    withdraw(plane, mounted)
    with pytest.raises(ApiError, match="cat returned no credentials") as caught:
        who_asks(connection)
    assert caught.value.status == 401
    plugin.issue(token_of(plane, "admin"), seconds)
    assert who_asks(connection) == "admin"


# Certificates


def test_a_certificate_that_ran_out_is_read_again(plane: ControlPlane, tmp_path: Path) -> None:
    """Its renewal writes another to its file. Connections under the old one are not used any more."""
    file = tmp_path / "client.pem"
    config = json.loads(plane.kubeconfig().read_text())
    config["users"][0]["user"] = {"client-certificate": file.name, "client-key": file.name}
    kubeconfig = tmp_path / "kubeconfig.json"
    kubeconfig.write_text(json.dumps(config))
    plane.clients.issue("first", file, timedelta(seconds=3))
    connection = connect(kubeconfig=str(kubeconfig))
    assert who_asks(connection) == "first"
    wait_until(lambda: status_of(connection) == 401, "refusal of the old certificate")
    plane.clients.issue("second", file)
    assert who_asks(connection) == "second"


def status_of(connection: Connection) -> int:
    """0 when it is answered."""
    try:
        who_asks(connection)
    except ApiError as error:
        return error.status
    return 0


# Service accounts


@pytest.mark.parametrize(
    "connect_by",
    [lambda mounted: connect(pod=mounted.pod), lambda mounted: connect(kubeconfig=str(mounted.kubeconfig()))],
    ids=["in a pod", "by a tokenFile"],
)
def test_a_service_account_follows_its_token(
    mounted: PodFolder, account: Account, other: Account, connect_by: Callable[[PodFolder], Connection]
) -> None:
    """The next call goes with the new token, without a wait of a minute."""
    connection = connect_by(mounted)
    assert who_asks(connection) == account.user == "system:serviceaccount:kube-system:nodewright"
    mounted.mount(other)
    assert who_asks(connection) == other.user
    mounted.mount(account)
    assert who_asks(connection) == account.user


def test_a_token_that_ran_out_fails_calls_until_there_is_another(
    plane: ControlPlane, mounted: PodFolder, account: Account
) -> None:
    connection = connect(pod=mounted.pod)
    assert who_asks(connection) == account.user
    withdraw(plane, mounted)
    with pytest.raises(ApiError) as caught:
        who_asks(connection)
    assert (caught.value.status, caught.value.retryable) == (401, False)
    mounted.mount(account)
    assert who_asks(connection) == account.user


@contextmanager
def busy(connection: Connection) -> Iterator[None]:
    """Every connection that is open is at work: the next call opens another."""
    watch = {"watch": "true", "timeoutSeconds": "60"}
    with connection.follow(Request(method="GET", path=PODS, query=watch)):
        yield


def test_files_that_are_away_or_wrong_for_a_moment_end_nothing(
    plane: ControlPlane, mounted: PodFolder, account: Account, other: Account
) -> None:
    connection = connect(pod=mounted.pod)
    assert who_asks(connection) == account.user
    with mounted.unmounted():
        assert who_asks(connection) == account.user  # over the connection that is there, with the token that was
        with busy(connection), pytest.raises(ApiError, match="no answer") as caught:
            who_asks(connection)  # over a new one
        assert caught.value.retryable
    authority = mounted.path / "ca.crt"
    ours = authority.read_bytes()
    authority.write_bytes((plane.folder / "certs" / "kube-scheduler.crt").read_bytes())
    with pytest.raises(ApiError, match="CERTIFICATE_VERIFY_FAILED"):
        who_asks(connection)
    authority.write_bytes(ours)
    mounted.mount(other)
    assert who_asks(connection) == other.user


class Hurried(Random):
    """What waits for a random time waits for the least."""

    def uniform(self, a: float, b: float) -> float:  # noqa: ARG002 - the signature of the base
        return a


def test_a_watch_outlives_its_token_and_what_follows_recovers(
    clean: ControlPlane, mounted: PodFolder, account: Account
) -> None:
    """The API server looks at a token when a watch begins. Then it refuses, until the file holds another token."""
    cache: ObjectCache[Pod] = ObjectCache()
    reflector = Reflector(connect(pod=mounted.pod), Resource[Pod]("Pod"), cache, RealClock(), Hurried(1))
    thread = threading.Thread(target=reflector.run)
    thread.start()
    try:
        assert cache.wait_synced(60.0), cache.problem
        withdraw(clean, mounted)
        create_pod(clean, "before")
        wait_until(lambda: "default/before" in names(cache), "pod by the old watch")
        clean.restart_apiserver()
        wait_until(lambda: "Unauthorized" in cache.problem, "refusal")
        create_pod(clean, "after")
        mounted.mount(account)
        wait_until(lambda: "default/after" in names(cache), "pod by a new watch")
        assert not cache.problem
    finally:
        reflector.stop()
        thread.join()


def create_pod(plane: ControlPlane, name: str) -> None:
    spec = {"containers": [{"name": "c", "image": "none.invalid/c"}]}
    plane.request(PODS, method="POST", body={"metadata": {"name": name}, "spec": spec})


def names(cache: ObjectCache[Pod]) -> set[str]:
    return {pod.key for pod in cache.all()}


# The whole daemon


def test_the_daemon_and_its_commands_in_a_pod(
    clean: ControlPlane, shared: SharedCloud, mounted: PodFolder, account: Account, tmp_path: Path
) -> None:
    """No kubeconfig is named. The token is rotated while the daemon runs, and the old one no longer holds."""
    environ = {"KUBECONFIG": str(mounted.kubeconfig()), "NODEWRIGHT_NAMESPACE": "kube-system"}
    daemon = DaemonProcess(tmp_path, None, shared.address, environ=environ)
    try:
        deploy(clean, "web", 4)
        wait_until(lambda: count_running(clean) == 4, "four running pods")
        token = (mounted.path / "token").read_text()
        mounted.withdraw()
        mounted.mount(account)
        wait_until(lambda: is_refused(clean, token), "refusal of the former token")
        assert nodewright(environ, "pause", "--for", "1h").endswith(f"(namespace kube-system of {clean.server}).\n")
        wait_until(lambda: "nodewright_paused 1.0" in daemon.page("address", "/metrics"), "pause in the metrics")
        status = json.loads(nodewright(environ, "status", "--output", "json"))
        assert status["paused_until"]
        assert [group["group"] for group in status["groups"]] == ["shared/small"]
        nodewright(environ, "pause", "--for", "2h")
        deploy(clean, "more", 4)
        nodewright(environ, "resume")
        wait_until(lambda: count_running(clean) == 8, "eight running pods")
        assert daemon.page("address", "/health-check") == "OK\n"
        assert daemon.end() == 0
    finally:
        daemon.kill()


def nodewright(environ: dict[str, str], *words: str) -> str:
    result = run_command(*words, environ=environ)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout
