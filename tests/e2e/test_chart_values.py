"""The chart with values as people have them, many from cluster-autoscaler's chart: what becomes of each."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.control_plane import ControlPlane
from tests.e2e.helm import CHART, render, run_helm

from nodewright.adapters.config_files import read_prices
from nodewright.expander import parse_priorities

SELECTED = {"app.kubernetes.io/name": "nodewright", "app.kubernetes.io/instance": "nodewright"}
OVERLAPPING: dict[str, Any] = {
    "awsRegion": "eu-central-1",
    "extraEnv": {"AWS_REGION": "eu-west-1", "ACCOUNT": 111122223333, "RATIO": 0.5, "DEBUG": True},
    "additionalLabels": {"owner": "platform", "helm.sh/chart": "ours"},
    "podLabels": {"team": "nodes", "app.kubernetes.io/version": "9", "app.kubernetes.io/instance": "other"},
    "podAnnotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
    "serviceMonitor": {"enabled": True, "selector": {"owner": "prometheus"}},
    "prometheusRule": {"enabled": True, "additionalLabels": {"owner": "prometheus"}, "interval": None},
    "dashboard": {"enabled": True, "labels": {"owner": "grafana"}},
}


def find(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    [found] = [document for document in render(values) if document["kind"] == kind]
    return found


def find_pod(values: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = find("Deployment", values)["spec"]["template"]
    return pod


def find_args(values: dict[str, Any]) -> list[str]:
    args: list[str] = find_pod(values)["spec"]["containers"][0]["args"]
    return args


def test_what_is_given_twice_stands_once_and_the_users_counts(farm_binary: Path) -> None:
    """Rendering itself fails where a key stands twice."""
    assert farm_binary.exists()
    pod = find_pod(OVERLAPPING)
    labels = pod["metadata"]["labels"]
    assert (
        labels.items() >= {**SELECTED, "app.kubernetes.io/version": "9", "owner": "platform", "team": "nodes"}.items()
    )
    assert labels["helm.sh/chart"] == "ours"
    assert pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "true"
    names = [entry["name"] for entry in pod["spec"]["containers"][0]["env"]]
    assert len(names) == len(set(names))
    for kind, owner in (("ServiceMonitor", "prometheus"), ("PrometheusRule", "prometheus"), ("Service", "platform")):
        assert find(kind, OVERLAPPING)["metadata"]["labels"]["owner"] == owner


def test_the_values_of_a_new_plugin(farm_binary: Path) -> None:
    """Those that ``nodewright provider new`` makes: a dry run with the plugin's own image, groups and credentials."""
    assert farm_binary.exists()
    values = yaml.safe_load((CHART.parents[1] / "docs/examples/acme/values.yaml").read_text())
    [container] = find_pod(values)["spec"]["containers"]
    assert container["image"] == "nodewright-acme:1.0.0"
    assert container["envFrom"] == [{"secretRef": {"name": "nodewright-acme"}}]
    args = find_args(values)
    assert {"--cloud-provider=acme", "--nodes=0:10:web", "--dry-run"} <= set(args)
    [config] = find("ConfigMap", values)["data"].values()
    assert yaml.safe_load(config)["providers"] == {"acme": {"options": {"endpoint": "demo", "cluster": "default"}}}


def test_a_pod_monitor_and_a_network_policy_find_the_pods(farm_binary: Path) -> None:
    assert farm_binary.exists()
    peers = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    egress = [{"ports": [{"port": 443}]}]
    values = {"podMonitor": {"enabled": True}, "networkPolicy": {"enabled": True, "from": peers, "egress": egress}}
    assert find("PodMonitor", values)["spec"]["selector"]["matchLabels"] == SELECTED
    policy = find("NetworkPolicy", values)["spec"]
    assert policy["podSelector"]["matchLabels"] == SELECTED
    assert policy["ingress"] == [{"ports": [{"port": "http"}], "from": peers}]
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], egress)
    open_policy = find("NetworkPolicy", {"networkPolicy": {"enabled": True}})["spec"]
    assert (open_policy["policyTypes"], "egress" in open_policy) == (["Ingress"], False)


@pytest.mark.parametrize("name", ["n", "on", "123"])
def test_a_release_may_have_any_name(farm_binary: Path, name: str) -> None:
    """YAML has other meanings for these."""
    assert farm_binary.exists()
    result = run_helm("template", name, str(CHART), "--kube-version=1.36.2", values={"fullnameOverride": "x"})
    labels = [document["metadata"]["labels"] for document in yaml.safe_load_all(result.stdout) if document]
    assert {found["app.kubernetes.io/instance"] for found in labels} == {name}


def test_numbers_stay_as_they_are_written(farm_binary: Path) -> None:
    """Helm has made floats of them, which Go writes as 1e+06."""
    assert farm_binary.exists()
    [container] = find_pod(OVERLAPPING)["spec"]["containers"]
    env = {entry["name"]: entry["value"] for entry in container["env"]}
    assert (
        env.items() >= {"ACCOUNT": "111122223333", "RATIO": "0.5", "DEBUG": "true", "AWS_REGION": "eu-west-1"}.items()
    )
    groups = [{"name": "one # two", "minSize": 0, "maxSize": 1000000}]
    args = find_args({"extraArgs": {"max-nodes-total": 1000000}, "autoscalingGroups": groups})
    assert args[-2:] == ["--nodes=0:1000000:one # two", "--max-nodes-total=1000000"]


@pytest.mark.parametrize(
    ("cloud", "flag"),
    [
        ("aws", "asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/mine"),
        ("azure", "label:cluster-autoscaler-enabled=true,cluster-autoscaler-name=mine"),
    ],
)
def test_groups_are_discovered_by_the_name_of_the_cluster(farm_binary: Path, cloud: str, flag: str) -> None:
    assert farm_binary.exists()
    args = find_args({"cloudProvider": cloud, "autoDiscovery": {"clusterName": "mine"}})
    assert args[-1] == f"--node-group-auto-discovery={flag}"


@pytest.mark.parametrize(
    "given",
    [
        {"extraArgs": {"enable-provisioning-requests": None}},
        {"extraEnv": {"NODEWRIGHT_ENABLE_PROVISIONING_REQUESTS": True}},
        {"extraEnv": {"NODEWRIGHT_ENABLE_PROVISIONING_REQUESTS": "true"}},
    ],
)
def test_rights_follow_a_setting_wherever_it_stands(farm_binary: Path, given: dict[str, Any]) -> None:
    assert farm_binary.exists()
    named = {resource for rule in find("ClusterRole", given)["rules"] for resource in rule["resources"]}
    assert "provisioningrequests" in named


def test_prices_are_a_file_beside_the_settings(farm_binary: Path) -> None:
    assert farm_binary.exists()
    prices = {"prices": [{"type": "m5.large", "per_hour": 0.08, "as_of": "2026-11-01"}], "currencies": {"EUR": 1.08}}
    given = {"prices": prices}
    assert "--prices=/etc/nodewright/prices.yaml" in find_args(given)
    [maps] = [one for one in render(given) if one["kind"] == "ConfigMap" and "settings.yaml" in one["data"]]
    assert read_prices(maps["data"]["prices.yaml"].encode(), "prices.yaml").rates == {"EUR": 1.08}
    assert not [word for word in find_args({}) if word.startswith("--prices")]
    bad = run_helm("template", "n", str(CHART), values={"prices": {"prices": [{"type": "m", "per_hour": -1}]}})
    assert bad.returncode != 0
    assert "per_hour" in bad.stderr


def test_other_providers_start_the_pods_anew_and_other_settings_do_not(farm_binary: Path) -> None:
    assert farm_binary.exists()
    plain = find_pod({})
    assert find_pod({"settings": {"expander": "price"}}) == plain
    assert find_pod({"providers": {"fake": {"options": {}}}}) != plain


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        ({}, {"maxUnavailable": 1}),
        ({"maxUnavailable": "50%"}, {"maxUnavailable": "50%"}),
        ({"minAvailable": 1}, {"minAvailable": 1}),
    ],
)
def test_a_budget_has_one_number(farm_binary: Path, given: dict[str, Any], budget: dict[str, Any]) -> None:
    assert farm_binary.exists()
    spec = find("PodDisruptionBudget", {"podDisruptionBudget": given})["spec"]
    assert {name: spec[name] for name in spec if name != "selector"} == budget


def test_a_parent_chart_may_have_its_condition_among_the_values(farm_binary: Path) -> None:
    assert farm_binary.exists()
    assert render({"enabled": True, "global": {"region": "here"}}) == render({})


@pytest.mark.parametrize("given", [{"10": [".*"], "50": ["a\\.b", "c # d"]}, "10: ['.*']\n50: ['a\\.b', 'c # d']"])
def test_priorities_are_those_that_the_expander_reads(farm_binary: Path, given: object) -> None:
    assert farm_binary.exists()
    made = [document for document in render({"expanderPriorities": given}) if "priorities" in document.get("data", {})]
    [text] = [document["data"]["priorities"] for document in made]
    assert parse_priorities(text) == {10: [".*"], 50: ["a\\.b", "c # d"]}


def test_a_section_of_which_all_lines_are_commented_out_is_as_if_it_were_not_there(farm_binary: Path) -> None:
    """It is null to helm."""
    assert farm_binary.exists()
    maps = ("settings", "providers", "extraArgs", "extraEnv", "podLabels", "podAnnotations", "additionalLabels")
    lists = ("customArgs", "autoscalingGroups", "tolerations", "extraVolumes", "extraVolumeMounts", "extraObjects")
    assert render(dict.fromkeys(maps + lists)) == render({})


def test_no_budget(farm_binary: Path) -> None:
    assert farm_binary.exists()
    assert "PodDisruptionBudget" not in {document["kind"] for document in render({"podDisruptionBudget": None})}


def test_a_monitor_may_relabel(farm_binary: Path) -> None:
    assert farm_binary.exists()
    more = {
        "annotations": {"a": "b"},
        "relabelings": [{"targetLabel": "cluster", "replacement": "prod"}],
        "metricRelabelings": [{"action": "drop", "sourceLabels": ["__name__"], "regex": "python_.*"}],
    }
    monitor = find("ServiceMonitor", {"serviceMonitor": {"enabled": True, **more}})
    [endpoint] = monitor["spec"]["endpoints"]
    assert monitor["metadata"]["annotations"] == more["annotations"]
    assert (endpoint["relabelings"], endpoint["metricRelabelings"]) == (more["relabelings"], more["metricRelabelings"])


def test_a_pod_that_has_everything_is_taken_by_a_real_api_server(clean: ControlPlane) -> None:
    values = {
        **OVERLAPPING,
        "replicaCount": 2,
        "image": {"repository": "images.example/nodewright", "tag": "1", "pullSecrets": ["images"]},
        "deployment": {"annotations": {"a": "b"}},
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "resources": {"limits": {"cpu": "1", "memory": "600Mi"}, "requests": {"cpu": "1", "memory": "600Mi"}},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "CriticalAddonsOnly", "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": SELECTED}}
                ]
            }
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": SELECTED},
            }
        ],
        "extraVolumes": [{"name": "certificates", "secret": {"secretName": "certificates"}}],
        "extraVolumeMounts": [{"name": "certificates", "mountPath": "/etc/more", "readOnly": True}],
        "initContainers": [{"name": "wait", "image": "images.example/wait:1"}],
        "updateStrategy": {"type": "Recreate"},
    }
    path = "/apis/apps/v1/namespaces/kube-system/deployments?dryRun=All&fieldValidation=Strict"
    clean.request(path, method="POST", body=find("Deployment", values))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"extraArgs": {"address": ":9000"}}, "extraArgs.address: the chart gives this flag, from service.servicePort"),
        ({"extraArgs": {"dry-run": None}}, "extraArgs.dry-run: the chart gives this flag, from mode"),
        ({"extraEnv": {"NODEWRIGHT_NAMESPACE": "x"}}, "extraEnv.NODEWRIGHT_NAMESPACE"),
        ({"serviceMonitor": {"enabled": True}, "service": {"create": False}}, "nothing for it to find"),
        (
            {"cloudProvider": "gce", "autoDiscovery": {"clusterName": "x"}},
            "for cloudProvider 'gce' give autoDiscovery.specs",
        ),
        (
            {"vpa": {"enabled": True}},
            "additional properties 'vpa' not allowed",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(farm_binary: Path, values: dict[str, Any], said: str) -> None:
    assert farm_binary.exists()
    result = run_helm("template", "x", str(CHART), "--kube-version=1.36.2", values=values)
    assert result.returncode != 0
    assert said in result.stderr


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ({"cloudProvider": "aws"}, True),
        ({"cloudProvider": "aws", "autoDiscovery": {"clusterName": "mine"}}, False),
        ({"cloudProvider": "aws", "extraArgs": {"nodes": "0:3:workers"}}, False),
    ],
)
def test_who_names_no_groups_is_told(clean: ControlPlane, values: dict[str, Any], warned: bool) -> None:
    """Only an installation shows the notes; this one stops short of writing."""
    where = ("--namespace=kube-system", "--dry-run=server", f"--kubeconfig={clean.kubeconfig()}")
    result = run_helm("install", "x", str(CHART), *where, values=values)
    assert result.returncode == 0, result.stderr
    assert ("No node group is named" in result.stdout) == warned


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        ({}, {"cpu": "200m", "memory": "400Mi"}, {"memory": "1Gi"}),
        ({"limits": {"cpu": "100m"}}, {"memory": "400Mi"}, {"cpu": "100m", "memory": "1Gi"}),
        ({"requests": {"memory": "2Gi"}}, {"cpu": "200m", "memory": "2Gi"}, {}),
        ({"limits": {"memory": "300Mi"}}, {"cpu": "200m"}, {"memory": "300Mi"}),
        ({"limits": None, "requests": {"cpu": 1}}, {"cpu": 1, "memory": "400Mi"}, {"memory": "1Gi"}),
    ],
)
def test_no_default_contradicts_what_is_said_of_a_resource(
    given: dict[str, Any], requests: dict[str, Any], limits: dict[str, Any]
) -> None:
    """A request above its limit is refused by the API server."""
    [container] = find_pod({"resources": given})["spec"]["containers"]
    assert container["resources"] == {"requests": requests, "limits": limits}


@pytest.mark.parametrize(
    ("address", "key", "page"),
    [
        ("", "runbook", "docs/runbooks.md"),
        ("https://docs.example.com/runbooks/", "runbook_url", "https://docs.example.com/runbooks/"),
    ],
)
def test_alerts_name_their_runbook_where_people_read_it(farm_binary: Path, address: str, key: str, page: str) -> None:
    """A file is no URL, so it is not called one."""
    assert farm_binary.exists()
    rule = find("PrometheusRule", {"prometheusRule": {"enabled": True, "runbookUrl": address}})
    rules = rule["spec"]["groups"][0]["rules"]
    alerts = [one for one in rules if "alert" in one]
    assert {one["alert"]: one["annotations"].keys() - {"summary", "description"} for one in alerts} == {
        one["alert"]: {key} for one in alerts
    }
    assert {one["alert"]: one["annotations"][key] for one in alerts} == {
        one["alert"]: f"{page}#{one['alert'].lower()}" for one in alerts
    }
    assert [one["record"] for one in rules if "record" in one]
