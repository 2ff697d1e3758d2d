"""Values of cluster-autoscaler's chart, and its Deployment, as values of ours."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nodewright.cli.migration import SAME

Nodewright = Callable[..., Any]
ROOT = Path(__file__).parents[3]

VALUES = """
autoDiscovery: {clusterName: prod, tags: [k8s.io/cluster-autoscaler/enabled], roles: [worker]}
awsSecretAccessKey: topsecret
azureTenantID: t1
cloudProvider: aws
extraArgs: {v: 4, expander: "priority,least-waste", skip-nodes-with-local-storage: false, adress: x, namespace: x,
  grpc-expander-url: "dns:///x", scale-down-unneeded-time: soon}
image: {repository: registry.k8s.io/autoscaling/cluster-autoscaler, tag: v1.32.1, pullPolicy: Always}
rbac: {create: true, pspEnabled: false, clusterScoped: true}
tolerations: []
vpa: {enabled: true}
"""
DEPLOYMENT = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: ca}}
- apiVersion: apps/v1
  kind: Deployment
  spec:
    replicas: 2
    template:
      metadata: {annotations: {prometheus.io/scrape: 'true', team: infra}}
      spec:
        serviceAccountName: ca
        containers:
        - image: registry.k8s.io/autoscaling/cluster-autoscaler:v1.32.1
          command: [./cluster-autoscaler, --cloud-provider=aws, --nodes=1:10:a, --nodes=0:5:b:c,
            --node-group-auto-discovery=asg:tag=x, --max-node-provision-time, 10m, --balance-similar-node-groups,
            --skip-nodes-with-local-storage=false]
          env:
          - {name: AWS_REGION, value: eu-west-1}
          - {name: KEY, valueFrom: {secretKeyRef: {name: aws, key: secret}}}
          - {name: MY_TOKEN, value: hidden}
"""


def migrate(nodewright: Nodewright, tmp_path: Path, text: str) -> Any:
    file = tmp_path / "given.yaml"
    file.write_text(text)
    return nodewright("migrate", file)


def test_values_of_the_chart(nodewright: Nodewright, tmp_path: Path) -> None:
    ended = migrate(nodewright, tmp_path, VALUES)
    assert ended.code == 3
    assert yaml.safe_load(ended.out) == {
        "autoDiscovery": {"clusterName": "prod", "tags": ["k8s.io/cluster-autoscaler/enabled"]},
        "cloudProvider": "aws",
        "extraArgs": {"expander": "priority,least-waste", "skip-nodes-with-local-storage": False},
        "extraEnv": {"ARM_TENANT_ID": "t1"},
        "image": {"pullPolicy": "Always"},
        "rbac": {"create": True},
    }
    notes = [line.removeprefix("# Not taken over: ") for line in ended.out.splitlines() if line.startswith("#")]
    assert [note.partition(":")[0] for note in notes] == [
        "autoDiscovery.roles",
        "awsSecretAccessKey",
        "--v",
        "--adress",
        "--namespace",
        "--grpc-expander-url",
        "--scale-down-unneeded-time",
        "image.repository",
        "image.tag",
        "rbac.clusterScoped",
        "vpa",
    ]
    assert "topsecret" not in ended.out


def test_a_deployment(nodewright: Nodewright, tmp_path: Path) -> None:
    ended = migrate(nodewright, tmp_path, DEPLOYMENT)
    assert yaml.safe_load(ended.out) == {
        "autoDiscovery": {"specs": ["asg:tag=x"]},
        "autoscalingGroups": [
            {"name": "a", "minSize": 1, "maxSize": 10},
            {"name": "b:c", "minSize": 0, "maxSize": 5},
        ],
        "awsRegion": "eu-west-1",
        "cloudProvider": "aws",
        "extraArgs": {
            "max-node-provision-time": "10m",
            "balance-similar-node-groups": True,
            "skip-nodes-with-local-storage": False,
        },
        "extraEnvSecrets": {"KEY": {"name": "aws", "key": "secret"}},
        "podAnnotations": {"team": "infra"},
        "rbac": {"serviceAccount": {"create": False, "name": "ca"}},
        "replicaCount": 2,
    }
    assert "v1.32.1: it names cluster-autoscaler's image" in ended.out
    assert "hidden" not in ended.out


def test_secrets_are_never_copied(nodewright: Nodewright, tmp_path: Path) -> None:
    ended = migrate(
        nodewright,
        tmp_path,
        """
azureTenantID: t1
cloudProvider: aws
extraEnv: {MY_TOKEN: topsecret, MODE: slow}
extraObjects:
- {apiVersion: v1, kind: SecretStore, metadata: {name: kept}}
- {apiVersion: v1, kind: Secret, stringData: {key: topsecret}}
- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, stringData: {key: topsecret}}]}
- "kind: Secret\\nstringData: {key: topsecret}"
""",
    )
    assert ended.code == 3
    assert yaml.safe_load(ended.out) == {
        "cloudProvider": "aws",
        "extraEnv": {"ARM_TENANT_ID": "t1", "MODE": "slow"},
        "extraObjects": [{"apiVersion": "v1", "kind": "SecretStore", "metadata": {"name": "kept"}}],
    }
    assert "extraEnv.MY_TOKEN: looks like a secret; give it in extraEnvSecrets, from a Secret of yours" in ended.out
    assert [f"extraObjects[{number}]: holds a Secret" in ended.out for number in range(4)] == [False, True, True, True]
    assert "topsecret" not in ended.out


def test_nothing_left_over_is_0(nodewright: Nodewright, tmp_path: Path) -> None:
    ended = migrate(nodewright, tmp_path, "cloudProvider: aws\nreplicaCount: 2\n")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "cloudProvider: aws\nreplicaCount: 2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "has none of the values of cluster-autoscaler's chart"),
        ("[1, 2]", "is neither one document of chart values nor a Deployment"),
        ("", "is neither one document of chart values nor a Deployment"),
        ("apiVersion: v1\nkind: Service\n", "holds no Deployment of cluster-autoscaler"),
        ("apiVersion: apps/v1\nkind: Deployment\nspec: 7\n", "holds no Deployment of cluster-autoscaler"),
        ("a: [", "line 2: did not find expected node content"),
        ("autoDiscovery: foo", "given.yaml: autoDiscovery: must be a mapping"),
        ("{azureTenantID: t1, extraEnv: foo}", "given.yaml: extraEnv: must be a mapping"),
        ("autoscalingGroupsnamePrefix: [foo]", "given.yaml: autoscalingGroupsnamePrefix[0]: must be a mapping"),
        ("{kind: List, items: [7]}", "is neither one document of chart values nor a Deployment"),
        (
            "{apiVersion: v1, kind: Deployment, spec: {template: {spec: {containers: [foo]}}}}",
            "given.yaml: containers[0]: must be a mapping",
        ),
        (DEPLOYMENT.replace("{name: MY_TOKEN, value: hidden}", "FOO"), "given.yaml: env[2]: must be a mapping"),
        (DEPLOYMENT.replace("{name: aws, key: secret}", "aws"), "given.yaml: env KEY: secretKeyRef: must be a mapping"),
        (DEPLOYMENT.replace("serviceAccountName: ca", "volumes: 7"), "given.yaml: volumes: must be a list of mappings"),
        (DEPLOYMENT.replace("1:10:a", "1:10"), "'1:10' is not of the form min:max:name"),
    ],
)
def test_bad_input(nodewright: Nodewright, tmp_path: Path, text: str, message: str) -> None:
    ended = migrate(nodewright, tmp_path, text)
    assert (ended.code, ended.out) == (2, "")
    assert message in ended.err


def test_what_is_taken_over_as_it_is_has_a_place_in_the_chart() -> None:
    schema = json.loads((ROOT / "deploy/chart/values.schema.json").read_text())["properties"]
    for key, parts in SAME.items():
        assert key in schema
        assert set(parts or ()) <= set(schema[key].get("properties", ()))
