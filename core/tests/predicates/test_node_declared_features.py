"""NodeDeclaredFeatures: docs/behaviour/scheduling.md#nodedeclaredfeatures."""

from typing import Any

import pytest
from core.tests.predicates.manifests import cluster, node, pod, refusals
from msgspec.structs import replace

RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}
REASON = "NodeDeclaredFeatures: node(s) didn't match Pod's required features"


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({}, []),
        ({"hostNetwork": True}, []),
        ({"hostUsers": False}, []),
        ({"hostNetwork": True, "hostUsers": False}, ["old", "restarts"]),
        ({"containers": [{"name": "c", "restartPolicyRules": [RULE]}]}, ["old", "users"]),
    ],
)
def test_only_nodes_that_declare_what_the_pod_needs_take_it(spec: dict[str, Any], refused: list[str]) -> None:
    declared = {
        "old": (),
        "restarts": ("RestartAllContainersOnContainerExits",),
        "users": ("UserNamespacesHostNetworkSupport",),
    }
    nodes = [
        replace(node(name), status=replace(node(name).status, declared_features=features))
        for name, features in declared.items()
    ]
    assert refusals(cluster(*nodes), pod(**spec)) == dict.fromkeys(refused, REASON)
