"""Dumps are decoded to values; an error in one becomes one sentence."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nodewright.model.cluster import PodDisruptionBudget
from nodewright.model.decode import convert_object, decode_object, decode_objects
from nodewright.model.errors import ConfigError
from nodewright.model.node import Node
from nodewright.model.objects import KINDS, ClusterObjects
from nodewright.model.pod import Pod
from nodewright.model.quantity import MAX_UNITS, Quantity

NODE = """
{"apiVersion": "v1", "kind": "Node",
 "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "a"}, "creationTimestamp": "2026-01-31T12:00:00Z"},
 "spec": {"providerID": "cloud:///n1", "taints": [{"key": "k", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24"},
 "status": {"allocatable": {"cpu": "3920m", "memory": "12Gi", "pods": 110}, "images": [{"sizeBytes": 1}]}}
"""
POD_YAML = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {released: 2026-01-31}}
spec:
  containers:
  - name: c
    resources: {requests: {cpu: 0.5, memory: 2, example.com/x: 1e3000000}}
---
# an empty document, and a kind that is not used
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: web}
"""


def pod(**spec: Any) -> bytes:
    return json.dumps({"kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}, "spec": spec}).encode()


def requests(amount: str) -> bytes:
    """A pod that asks for one plausible amount, and for ``amount``, written as JSON."""
    return pod(containers=[{}, {"resources": {"requests": {"memory": "1Gi", "cpu": "@"}}}]).replace(
        b'"@"', amount.encode()
    )


def refusal(source: bytes, name: str = "cluster.json") -> str:
    with pytest.raises(ConfigError) as caught:
        decode_objects(source, name)
    return str(caught.value)


def test_one_node() -> None:
    [node] = decode_objects(NODE.encode(), "node.json").nodes
    assert node.name == "n1"
    assert node.metadata.creation_timestamp == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert node.spec.provider_id == "cloud:///n1"
    assert node.spec.taints[0].key == "k"
    assert node.allocatable == {"cpu": Quantity.of("3.92"), "memory": Quantity.of("12Gi"), "pods": Quantity.of("110")}


def test_yaml_documents_and_yaml_numbers() -> None:
    [found] = decode_objects(POD_YAML.encode(), "pods").pods
    assert found.metadata.labels == {"released": "2026-01-31"}
    requested = found.spec.containers[0].resources.requests
    assert requested["cpu"].milli == 500
    assert requested["memory"].value == 2
    assert requested["example.com/x"].value == MAX_UNITS


def test_every_kind_has_a_field_and_is_read_from_a_list() -> None:
    items = [
        {
            "kind": kind.kind or kind.name,
            "apiVersion": f"{kind.api_group}/v1".removeprefix("/"),
            "metadata": {"name": "x"},
        }
        for kind in KINDS.values()
    ]
    found = decode_objects(json.dumps({"kind": "List", "apiVersion": "v1", "items": items}).encode(), "all.json")
    assert set(found.__struct_fields__) == {kind.field for kind in KINDS.values()}
    for kind in KINDS.values():
        [one] = getattr(found, kind.field)
        assert type(one) is kind.type
        assert one.key == ("default/x" if kind.namespaced else "x")


@pytest.mark.parametrize("between", ["", "\n", "  \n\n"])
def test_json_texts_may_follow_each_other(between: str) -> None:
    pods = (
        '{"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]}'
    )
    found = decode_objects(f"{NODE}{between}{pods}{between}".encode(), "dump")
    assert [one.name for one in found.nodes] == ["n1"]
    assert [one.name for one in found.pods] == ["a", "b"]


def test_a_typed_list_in_yaml() -> None:
    text = b"kind: DaemonSetList\napiVersion: apps/v1\nitems: [{metadata: {name: a}}]"
    assert [one.key for one in decode_objects(text, "x.yaml").daemon_sets] == ["default/a"]


def test_json_in_a_file_called_yaml() -> None:
    assert len(decode_objects(NODE.encode(), "x.yaml").nodes) == 1


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_what_windows_writes(encoding: str) -> None:
    assert len(decode_objects(NODE.encode(encoding), "x.json").nodes) == 1


def test_other_groups_use_the_same_names_for_other_things() -> None:
    text = b'{"kind": "Node", "apiVersion": "longhorn.io/v1beta2", "metadata": {"name": "x"}, "spec": 3}'
    assert decode_objects(text, "x.json") == ClusterObjects()


def test_a_time_before_the_first_year_is_as_long_ago_as_that_year() -> None:
    """The API server takes it, in the template of anybody's DaemonSet; one object that is not read stops every write."""
    template = {"metadata": {"creationTimestamp": "0000-12-31T23:59:59Z", "labels": {"version": "0000-01-01"}}}
    source = {"kind": "DaemonSet", "metadata": {"name": "d", "namespace": "n"}, "spec": {"template": template}}
    [found] = decode_objects(json.dumps(source).encode(), "d.json").daemon_sets
    assert found.spec.template.metadata.creation_timestamp == datetime(1, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert found.spec.template.metadata.labels == {"version": "0000-01-01"}


def test_null_says_the_same_as_nothing() -> None:
    text = pod(nodeSelector=None, containers=[{"resources": {"requests": None, "limits": {"cpu": None}}}], volumes=None)
    [found] = decode_objects(text, "x.json").pods
    assert found.spec.containers[0].resources.limits == {}
    assert found.spec.volumes == ()


@pytest.mark.parametrize("amount", ["1e3000000", '"1e3000000"', '"9223372036854775807Gi"', "9223372036854775808"])
def test_an_absurd_amount_saturates(amount: str) -> None:
    [found] = decode_objects(requests(amount), "x.json").pods
    assert found.spec.containers[1].resources.requests["cpu"].value == MAX_UNITS


QUOTE = "(quote it: unquoted yes, on and true are booleans)"
LIKE = "(like 500m, 1.5Gi or 2e3)"
CPU = "cluster.json: Pod shop/web: spec.containers[1].resources.requests.cpu: "


@pytest.mark.parametrize(
    ("amount", "complaint"),
    [
        ('"abc"', "'abc' is not a quantity (like 500m, 1.5Gi or 2e3)"),
        ('""', "'' is not a quantity (like 500m, 1.5Gi or 2e3)"),
        ('"-1"', "'-1' is negative"),
        ("-0.5", "the number -0.5 is negative"),
        ("true", "must be a quantity (like 500m, 1.5Gi or 2e3), not the boolean true"),
        ("{}", "must be a quantity (like 500m, 1.5Gi or 2e3), not a mapping"),
        ('["1"]', "must be a quantity (like 500m, 1.5Gi or 2e3), not a list"),
    ],
)
def test_a_wrong_amount_names_the_pod_and_the_field(amount: str, complaint: str) -> None:
    assert refusal(requests(amount)) == CPU + complaint


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b"", "cluster.json: the file holds nothing"),
        (b" \n# nothing\n", "cluster.json: the file holds nothing"),
        (b"[]", "cluster.json: must be a mapping, not a list"),
        (b"- a", "cluster.json: must be a Kubernetes object or a List of them, not a list"),
        (b"hello", "cluster.json: must be a Kubernetes object or a List of them, not 'hello'"),
        (b"12", "cluster.json: must be a Kubernetes object or a List of them, not the number 12"),
        (b"{}", "cluster.json: an object without a kind"),
        (b'{"kind": 5}', "cluster.json: kind: must be a string, not a whole number"),
        (b"kind: 5", "cluster.json: kind: must be a string, not the number 5"),
        (b'{"kind": "PodL', "cluster.json: the JSON ends in the middle; is the file complete?"),
        (b'{"kind" "Pod"}', "cluster.json: not valid JSON: expected ':' (byte 8)"),
        (b"\x7fELF\x02\x01\x01\x00\xff", "cluster.json: not UTF-8 text"),
        (b'{"kind": "Node", "metadata": {"name": "\xff"}}', "cluster.json: Node: not UTF-8 text"),
        (b'{"kind": "X", "items": ' + b"[" * 1_000_000, "cluster.json: nested too deeply"),
        (b'{"kind": "Pod", "x": ' + b'{"a":' * 1_000_000, "cluster.json: nested too deeply"),
        (b'{"kind": "PodList", "items": 3}', "cluster.json: items: must be a list, not a whole number"),
        (b"kind: PodList\nitems: 3", "cluster.json: items: must be a list, not the number 3"),
        (b'{"kind": "PodList", "items": [7]}', "cluster.json: items[0]: must be a mapping, not a whole number"),
        (b"kind: PodList\nitems: [7]", "cluster.json: items[0]: must be a mapping, not the number 7"),
        (b'{"kind": "List", "items": [{"metadata": {}}]}', "cluster.json: items[0]: an object without a kind"),
        (b'{"kind": "List", "items": [{"kind": "List"}]}', "cluster.json: items[0]: a List inside a list"),
        (b'{"kind": "NodeList", "items": [{}]}', "cluster.json: items[0]: a Node without metadata.name"),
        (
            b'{"kind": "NodeList", "items": [{"spec": 1}]}',
            "cluster.json: items[0]: Node: spec: must be a mapping, not the number 1",
        ),
        (b'{"kind": "Node", "metadata": 3}', "cluster.json: Node: metadata: must be a mapping, not the number 3"),
        (NODE.encode() * 2, "cluster.json: Node n1 occurs twice"),
        (pod(containers=[1]), "cluster.json: Pod shop/web: spec.containers[0]: must be a mapping, not the number 1"),
        (pod(containers={"a": 1}), "cluster.json: Pod shop/web: spec.containers: must be a list, not a mapping"),
        (
            pod(priority=2**31),
            "cluster.json: Pod shop/web: spec.priority: must be at most 2147483647, not the number 2147483648",
        ),
        (pod(priority=1.5), "cluster.json: Pod shop/web: spec.priority: must be a whole number, not the number 1.5"),
        (pod(hostNetwork="yes"), "cluster.json: Pod shop/web: spec.hostNetwork: must be true or false, not 'yes'"),
        (
            pod(nodeSelector={"a": "b", "...": "c", "a.b/c": True, "d": 1}),
            f"cluster.json: Pod shop/web: spec.nodeSelector[a.b/c]: must be a string, not the boolean true {QUOTE}",
        ),
        (
            pod(nodeSelector={"...": 5}),
            "cluster.json: Pod shop/web: spec.nodeSelector[...]: must be a string, not the number 5 (quote it)",
        ),
        (
            pod(volumes=[{"persistentVolumeClaim": {}}]),
            "cluster.json: Pod shop/web: spec.volumes[0].persistentVolumeClaim: lacks claimName",
        ),
        (
            NODE.replace("12:00:00Z", "12:00:00").encode(),
            "cluster.json: Node n1: metadata.creationTimestamp: must be a time with a zone, like 2026-01-31T12:00:00Z",
        ),
        (
            NODE.replace("2026-01-31T12:00:00Z", "yesterday").encode(),
            "cluster.json: Node n1: metadata.creationTimestamp: must be a time, like 2026-01-31T12:00:00Z",
        ),
        (
            NODE.replace('"n1"', '"\\u001b[31m\\u202e"').replace('"110"', "{}").replace("110", "{}").encode(),
            f"cluster.json: Node \\x1b[31m\\u202e: status.allocatable.pods: must be a quantity {LIKE}, not a mapping",
        ),
        (
            requests("9" * 5000),
            "cluster.json: Pod shop/web: spec.containers[1].resources.requests[...]: the number is too large",
        ),
        (requests("NaN"), "cluster.json: not valid JSON: invalid character (byte 146)"),
    ],
)
def test_what_is_wrong_is_one_sentence(source: bytes, sentence: str) -> None:
    assert refusal(source) == sentence


def test_yaml_reads_unquoted_words_as_booleans() -> None:
    text = b"kind: Pod\nmetadata: {name: web, labels: {canary: yes}}"
    assert refusal(text, "x.yaml") == (
        f"x.yaml: Pod web: metadata.labels.canary: must be a string, not the boolean true {QUOTE}"
    )
    assert refusal(b"kind: Pod\nmetadata:\n  labels: {on: a}", "x.yaml") == (
        "x.yaml line 3: the key on must be a string here: quote it"
    )


def test_names_with_control_characters_and_markup_are_kept() -> None:
    text = json.dumps({"kind": "Pod", "metadata": {"name": "</script>[red]\x1b"}}).encode()
    assert decode_objects(text, "x.json").pods[0].name == "</script>[red]\x1b"


def test_one_object_of_a_known_type() -> None:
    assert decode_object(Node, NODE.encode()).name == "n1"
    assert decode_object(Pod, msgspec.Raw(b'{"spec": {"containers": null}}')) == Pod()
    assert convert_object(PodDisruptionBudget, {"status": {"disruptionsAllowed": 2}}).status.disruptions_allowed == 2
    assert decode_object(Pod, requests('"-1"')).spec.containers[1].resources.requests["cpu"].value == -1
    with pytest.raises(ConfigError, match=r"template: spec\.containers: must be a list, not the number 3"):
        convert_object(Pod, {"spec": {"containers": 3}}, "template")
    with pytest.raises(ConfigError, match="pod: the JSON ends in the middle"):
        decode_object(Pod, b"{", "pod")


def test_the_examples_of_a_real_cluster(tmp_path: Path) -> None:
    """A dump as kubectl prints it: indented, keys in order, managed fields and all."""
    shown = json.loads(NODE) | {"x": {"f:metadata": {"f:labels": {".": {}}}}}
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "items": [shown], "kind": "List", "metadata": {}}, indent=4))
    assert decode_objects(path.read_bytes(), str(path)).nodes == (decode_object(Node, NODE.encode()),)
