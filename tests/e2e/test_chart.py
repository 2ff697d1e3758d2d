"""The chart: what helm makes of it is what a real API server takes, and what our own command line takes."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.control_plane import ControlPlane
from tests.e2e.daemon import run_command
from tests.e2e.helm import CHART, render, run_helm
from tests.e2e.requesting import install

PATHS = {
    "ServiceAccount": "/api/v1/namespaces/kube-system/serviceaccounts",
    "ConfigMap": "/api/v1/namespaces/kube-system/configmaps",
    "Service": "/api/v1/namespaces/kube-system/services",
    "Deployment": "/apis/apps/v1/namespaces/kube-system/deployments",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/kube-system/networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/kube-system/poddisruptionbudgets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "PodMonitor": "/apis/monitoring.coreos.com/v1/namespaces/kube-system/podmonitors",
    "ServiceMonitor": "/apis/monitoring.coreos.com/v1/namespaces/kube-system/servicemonitors",
    "PrometheusRule": "/apis/monitoring.coreos.com/v1/namespaces/kube-system/prometheusrules",
}
MONITORING = Path(__file__).with_name("monitoring.yaml")
EVERYTHING: dict[str, Any] = {
    "cloudProvider": "fake",
    "autoscalingGroups": [{"name": "small", "minSize": 0, "maxSize": 5}],
    "providers": {"fake": {"options": {"groups": [{"name": "small", "max_size": 5}]}}},
    "settings": {"expander": "priority", "leader": {"leader-elect-resource-name": "another"}},
    "extraArgs": {"scan-interval": "20s", "balancing-ignore-label": ["a", "b"], "v": 4},
    "expanderPriorities": {"10": [".*"]},
    "extraEnv": {"NODEWRIGHT_MAX_NODES_TOTAL": 7},
    "customArgs": ["--salvo-scale-up"],
    "extraEnvConfigMaps": {"REGION": {"name": "cloud", "key": "region"}},
    "extraEnvSecrets": {"TOKEN": {"name": "cloud", "key": "token"}},
    "envFromSecret": "more",
    "podAnnotations": {"a": "b"},
    "tolerations": [{"operator": "Exists"}],
    "rbac": {"additionalRules": [{"apiGroups": ["x.io"], "resources": ["things"], "verbs": ["list"]}]},
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True, "rules": [{"alert": "Own", "expr": "up == 0"}]},
    "dashboard": {"enabled": True},
    "extraObjects": ["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n"],
}


LABELS = {"app.kubernetes.io/name": "nodewright"}
# With EVERYTHING and the examples, each value that values.yaml names stands in one of these.
COMBINATIONS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "dry run": {"mode": "dry-run", "cloudProvider": "aws", "awsRegion": "eu-west-1", "rbac": {"create": False}},
    "shadow": {"mode": "shadow", "deployment": {"annotations": {"a": "b"}}, "updateStrategy": {"type": "Recreate"}},
    "everything": EVERYTHING,
    "discovery by tags": {
        "cloudProvider": "aws",
        "autoDiscovery": {"clusterName": "mine", "tags": ["k8s.io/x"]},
        "rbac": {"serviceAccount": {"name": "mine", "annotations": {"eks.amazonaws.com/role-arn": "arn"}}},
        "nameOverride": "nodes",
        "dnsPolicy": "Default",
        "hostNetwork": True,
    },
    "discovery by specs": {
        "cloudProvider": "gce",
        "autoDiscovery": {"specs": ["mig:namePrefix=workers,min=0,max=10"]},
        "rbac": {"serviceAccount": {"create": False, "name": "given", "automountServiceAccountToken": False}},
        "image": {"repository": "images.example/n", "tag": "1", "pullPolicy": "Always", "pullSecrets": ["images"]},
        "envFromConfigMap": "more",
        "additionalLabels": {"owner": "nodes"},
    },
    "what is switched on brings its rights": {
        "settings": {"provisioning": {"enable-provisioning-requests": True}, "expander": "least-cost"},
        "extraArgs": {"capacity-quotas-enabled": None, "capacity-buffer-controller-enabled": None},
        "prices": {"prices": [{"type": "m5.large", "per_hour": 0.1}]},
    },
    "one replica in each zone": {
        "replicaCount": 3,
        "revisionHistoryLimit": 2,
        "priorityClassName": "",
        "podDisruptionBudget": {"maxUnavailable": None, "minAvailable": 2},
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": LABELS},
            }
        ],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}}
                ]
            }
        },
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "podLabels": {"team": "nodes"},
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
    },
    "who may connect": {"networkPolicy": {"enabled": True}},
    "who may connect, and to where": {
        "securePage": {"enabled": True, "port": 9443, "secretName": "tls"},
        "networkPolicy": {
            "enabled": True,
            "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "egress": [{"ports": [{"port": 53, "protocol": "UDP"}]}, {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}],
        },
        "podMonitor": {"enabled": True, "namespace": "monitoring", "interval": "1m", "selector": {"a": "b"}},
        "service": {"create": False},
    },
    "monitored elsewhere": {
        "service": {"annotations": {"a": "b"}, "servicePort": 9000},
        "serviceMonitor": {
            "enabled": True,
            "namespace": "monitoring",
            "interval": "",
            "selector": {"a": "b"},
            "annotations": {"a": "b"},
            "relabelings": [{"targetLabel": "cluster", "replacement": "prod"}],
            "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "python_.*"}],
        },
        "prometheusRule": {
            "enabled": True,
            "namespace": "monitoring",
            "interval": "30s",
            "additionalLabels": {"a": "b"},
            "runbookUrl": "https://docs.example.com/runbooks/",
        },
        "dashboard": {"enabled": True, "labels": {"grafana_dashboard": "yes"}},
    },
    "files of one's own": {
        "extraVolumes": [{"name": "certificates", "secret": {"secretName": "certificates"}}],
        "extraVolumeMounts": [{"name": "certificates", "mountPath": "/etc/more", "readOnly": True}],
        "initContainers": [{"name": "wait", "image": "images.example/wait:1"}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "securityContext": {
            "runAsNonRoot": False,
            "runAsUser": 0,
            "runAsGroup": 0,
            "seccompProfile": {"type": "Unconfined"},
        },
        "containerSecurityContext": {
            "allowPrivilegeEscalation": True,
            "readOnlyRootFilesystem": False,
            "capabilities": {"drop": [], "add": ["NET_BIND_SERVICE"]},
        },
    },
}
EXAMPLES = {path.stem: yaml.safe_load(path.read_text()) for path in (CHART / "examples").glob("*.yaml")}


@pytest.fixture
def monitored(clean: ControlPlane) -> ControlPlane:
    """Knows the resources of the Prometheus operator."""
    install(clean, yaml.safe_load(MONITORING.read_text())["items"])
    return clean


@pytest.mark.parametrize("values", [*COMBINATIONS.values(), *EXAMPLES.values()], ids=[*COMBINATIONS, *EXAMPLES])
def test_a_real_api_server_takes_every_manifest(monitored: ControlPlane, values: dict[str, Any]) -> None:
    """By server-side dry run, with strict validation: a field that it does not know is an error."""
    documents = render({"fullnameOverride": "of-the-chart", **values})
    for document in documents:
        if "namespace" in document["metadata"]:  # values name one that is not there
            document["metadata"]["namespace"] = "kube-system"
        path = f"{PATHS[document['kind']]}?dryRun=All&fieldValidation=Strict"
        monitored.request(path, method="POST", body=document)
    assert {"Deployment", "PodDisruptionBudget"} <= {document["kind"] for document in documents}


def test_each_value_is_in_a_combination() -> None:
    """A value that is added to values.yaml comes with one."""
    given = [*COMBINATIONS.values(), *EXAMPLES.values(), {"fullnameOverride": "of-the-chart"}]
    known = {path for values in given for path in list_paths(values)}
    wanted = set(list_paths(yaml.safe_load((CHART / "values.yaml").read_text())))
    assert wanted - known == set()


def list_paths(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of each value, and of those within one."""
    for name, value in values.items():
        yield name
        yield from (f"{name}.{key}" for key in (value if isinstance(value, dict) else ()))


@pytest.mark.parametrize("example", sorted(path.stem for path in (CHART / "examples").glob("*.yaml")))
def test_examples_become_command_lines_that_are_understood(farm_binary: Path, tmp_path: Path, example: str) -> None:
    """What the container is started with, and the settings file that is mounted, pass ``config check``."""
    assert farm_binary.exists()
    documents = render({}, f"--values={CHART / 'examples' / f'{example}.yaml'}")
    check(documents, tmp_path)


def test_everything_at_once_is_understood(farm_binary: Path, tmp_path: Path) -> None:
    assert farm_binary.exists()
    documents = render(EVERYTHING)
    shown = check(documents, tmp_path)
    assert "max-nodes-total" in shown
    assert "20s" in shown
    role = next(document for document in documents if document["kind"] == "Role")
    assert ["another"] in [rule.get("resourceNames") for rule in role["rules"]]


def test_arguments_as_users_of_the_other_chart_write_them(farm_binary: Path, tmp_path: Path) -> None:
    """A flag given twice as flag_1 and flag_2, and one without a value."""
    assert farm_binary.exists()
    values = {"balancing-ignore-label_1": "a", "balancing-ignore-label_2": "b", "force-ds": None, "v": 4}
    documents = render({"extraArgs": values})
    [pod] = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    args = pod["containers"][0]["args"]
    assert args[-4:] == ["--balancing-ignore-label=a", "--balancing-ignore-label=b", "--force-ds", "--v=4"]
    check(documents, tmp_path)


def check(documents: list[dict[str, Any]], folder: Path) -> str:
    """Answers what ``config check`` shows."""
    settings = next(document["data"] for document in documents if "settings.yaml" in document.get("data", {}))
    file = folder / "settings.yaml"
    file.write_text(settings["settings.yaml"])
    [pod] = [document["spec"]["template"]["spec"] for document in documents if document["kind"] == "Deployment"]
    [container] = pod["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"] or () if "value" in entry}
    command, *args = container["args"]
    assert command == "run"
    flags = [arg for arg in args if arg not in ("--dry-run", "--shadow") and not arg.startswith("--config=")]
    result = run_command("config", "check", str(file), *flags, environ=env)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("place", [{"settings": {"provisioning": {"enable-provisioning-requests": True}}}, {}])
def test_requests_for_capacity_bring_their_rights(farm_binary: Path, place: dict[str, Any]) -> None:
    assert farm_binary.exists()
    [role] = [document for document in render(place) if document["kind"] == "ClusterRole"]
    named = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert ({"podtemplates", "provisioningrequests", "provisioningrequests/status"} <= named) == bool(place)


@pytest.mark.parametrize("settings", [{"disruption-config-map-name": "budgets"}, {}])
def test_a_config_map_of_disruption_budgets_may_be_watched(farm_binary: Path, settings: dict[str, Any]) -> None:
    assert farm_binary.exists()
    [role] = [document for document in render({"settings": settings}) if document["kind"] == "Role"]
    rules = [rule for rule in role["rules"] if "budgets" in rule.get("resourceNames", ())]
    assert [rule["verbs"] for rule in rules] == [["list", "watch"]] * bool(settings)


@pytest.mark.parametrize("mode", ["dry-run", "shadow"])
def test_who_only_looks_has_no_right_to_write(farm_binary: Path, mode: str) -> None:
    assert farm_binary.exists()
    for document in render({"mode": mode}):
        for rule in document.get("rules", ()):
            assert set(rule["verbs"]) <= {"get", "list", "watch"}


@pytest.mark.parametrize(("mode", "makes"), [("run", True), ("dry-run", True), ("shadow", False)])
def test_priorities_beside_cluster_autoscaler_are_its_own(farm_binary: Path, mode: str, makes: bool) -> None:
    assert farm_binary.exists()
    made = {document["metadata"]["name"] for document in render({"mode": mode, "expanderPriorities": {"10": [".*"]}})}
    assert ("cluster-autoscaler-priority-expander" in made) == makes


def test_its_own_node_is_not_removed_under_it(farm_binary: Path) -> None:
    """Neither by itself or another autoscaler, nor by pods that want its room; one that is drained goes in turn."""
    assert farm_binary.exists()
    documents = render({"podAnnotations": {"a": "b"}})
    [template] = [document["spec"]["template"] for document in documents if document["kind"] == "Deployment"]
    annotations = template["metadata"]["annotations"]
    assert re.fullmatch("[0-9a-f]{64}", annotations.pop("checksum/providers"))
    assert annotations == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "a": "b"}
    assert template["spec"]["priorityClassName"] == "system-cluster-critical"
    [budget] = [document["spec"] for document in documents if document["kind"] == "PodDisruptionBudget"]
    assert budget["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()


def test_nothing_runs_as_root_or_writes_to_its_image(farm_binary: Path) -> None:
    assert farm_binary.exists()
    [pod] = [document["spec"]["template"]["spec"] for document in render({}) if document["kind"] == "Deployment"]
    assert pod["securityContext"]["runAsNonRoot"]
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mode": "walk"}, "mode"),
        ({"cloudprovider": "aws"}, "cloudprovider"),
        ({"autoscalingGroups": [{"name": "a"}]}, "minSize"),
        ({"settings": {"providers": {}}}, "settings.providers"),
        ({"securePage": {"enabled": True}}, "securePage.secretName"),
        ({"extraArgs": {"secure-address": ":1"}}, "extraArgs.secure-address"),
    ],
)
def test_values_that_are_wrong_are_refused(farm_binary: Path, values: dict[str, Any], said: str) -> None:
    assert farm_binary.exists()
    result = run_helm("template", "x", str(CHART), "--kube-version=1.36.2", values=values)
    assert result.returncode != 0
    assert said in result.stderr


def test_lint(farm_binary: Path) -> None:
    assert farm_binary.exists()
    result = run_helm("lint", "--strict", str(CHART))
    assert result.returncode == 0, result.stdout


def test_rules_of_alerts_stay_one_list(farm_binary: Path) -> None:
    assert farm_binary.exists()
    documents = render(EVERYTHING)
    [rule] = [document for document in documents if document["kind"] == "PrometheusRule"]
    names = [alert["alert"] for alert in rule["spec"]["groups"][0]["rules"] if "alert" in alert]
    assert names[0] == "NodewrightNobodyLeads"
    assert names[-1] == "Own"
    assert len(names) == len(yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())) + 1


def test_commands_in_the_pod_look_where_the_daemon_does(farm_binary: Path) -> None:
    """kubectl exec hands on the container's variables, and none of its arguments."""
    assert farm_binary.exists()
    [pod] = [document["spec"]["template"]["spec"] for document in render({}) if document["kind"] == "Deployment"]
    [container] = pod["containers"]
    assert {"name": "NODEWRIGHT_NAMESPACE", "value": "kube-system"} in container["env"]
    assert not [arg for arg in container["args"] if arg.startswith(("--namespace", "--kubeconfig"))]
