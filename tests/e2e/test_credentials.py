"""Credentials that run out while the connection goes on."""

import json
from pathlib import Path

from tests.e2e.cloud import RealClock
from tests.e2e.control_plane import ControlPlane

from nodewright.adapters.kube.api import Request
from nodewright.adapters.kube.connection import Connection, connect
from nodewright.model.moment import format_moment

REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
EXEC = "client.authentication.k8s.io/v1"


def who_asks(connection: Connection) -> str:
    """The user whom the API server takes us for."""
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    review = json.loads(connection.send(Request(method="POST", path=REVIEWS, body=body)))
    return str(review["status"]["userInfo"]["username"])


def test_an_exec_plugin_is_asked_again_when_its_token_runs_out(plane: ControlPlane, tmp_path: Path) -> None:
    issued = tmp_path / "credential.json"

    def issue(user: str, seconds: float) -> None:
        [held] = json.loads(plane.kubeconfig(user).read_text())["users"]
        until = format_moment(RealClock().now() + seconds)
        status = {"token": held["user"]["token"], "expirationTimestamp": until}
        issued.write_text(json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": status}))

    config = json.loads(plane.kubeconfig().read_text())
    plugin = {"apiVersion": EXEC, "command": "cat", "args": [str(issued)], "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": plugin}
    kubeconfig = tmp_path / "kubeconfig.json"
    kubeconfig.write_text(json.dumps(config))
    issue("nodewright", seconds=1)
    connection = connect(kubeconfig=str(kubeconfig))
    assert who_asks(connection) == "nodewright"
    issue("admin", seconds=3600)
    assert who_asks(connection) == "admin"
    issue("nodewright", seconds=3600)
    assert who_asks(connection) == "admin"  # its token holds for an hour: nobody asks the plugin
