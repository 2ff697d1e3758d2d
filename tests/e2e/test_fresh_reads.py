"""What is read past every cache, right before something is deleted, on the real API server."""

from tests.e2e.control_plane import ControlPlane

from nodewright.adapters.kube.connection import connect
from nodewright.adapters.kube.resources import PAGE
from nodewright.adapters.kube.writes import KubeWrites
from nodewright.snapshot.context import Workloads

NODES = "/api/v1/nodes"


def test_a_list_of_nodes_is_of_one_moment(clean: ControlPlane) -> None:
    """Of the moment at which its first page was asked for, even if much happens before the others; the chart's role may."""
    names = {f"page-{number:04}" for number in range(PAGE + 1)}
    for name in names:
        register(clean, name)
    nodes = KubeWrites(connect(kubeconfig=str(clean.kubeconfig("nodewright"))), Workloads).list_nodes()
    first = next(nodes).name
    clean.request(f"{NODES}/{max(names)}", method="DELETE")
    register(clean, "page-9999")
    assert {first, *(node.name for node in nodes)} == names


def register(plane: ControlPlane, name: str) -> None:
    plane.request(NODES, method="POST", body={"metadata": {"name": name}})
