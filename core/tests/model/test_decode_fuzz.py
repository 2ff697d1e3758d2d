"""Any dump is decoded to objects or refused with one line."""

import json
import re
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from nodewright.model.decode import decode_objects
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Kube
from nodewright.model.objects import KINDS, ClusterObjects
from nodewright.model.printable import printable


def field_names(owner: type[Kube], seen: set[type[Kube]]) -> set[str]:
    """Every key that decoding ``owner`` looks at, at any depth."""
    if owner in seen:
        return set()
    seen.add(owner)
    names: set[str] = set()
    for field in structs.fields(owner):
        names.add(field.encode_name)
        for part in parts(field.type):
            if isinstance(part, type) and issubclass(part, Kube):
                names |= field_names(part, seen)
    return names


def parts(form: Any) -> list[Any]:
    return [form] + [part for argument in get_args(form) for part in parts(argument)]


def all_names() -> list[str]:
    seen: set[type[Kube]] = set()
    return sorted(set().union(*(field_names(kind.type, seen) for kind in KINDS.values())))


keys = st.one_of(st.sampled_from(all_names()), st.text(max_size=5), st.sampled_from(["cpu", "memory", "..."]))
texts = st.one_of(
    st.text(max_size=10),
    st.sampled_from(["1", "500m", "1e3000000", "-1", "abc", "2026-01-01T00:00:00Z", "In", "default"]),
)
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), texts)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=6), max_leaves=25
)
objects = st.fixed_dictionaries(
    {"kind": st.sampled_from(sorted(KINDS)), "metadata": st.one_of(st.just({"name": "x"}), values)},
    optional={"spec": values, "status": values, "apiVersion": texts, "data": values},
)
lists = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["List", "PodList", "NodeList", ""]),
        "items": st.one_of(st.lists(objects, max_size=3), values),
    }
)


DUMP = {
    "kind": "List",
    "apiVersion": "v1",
    "items": [
        {
            "kind": "Node",
            "metadata": {"name": "n", "labels": {"zone": "a"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": None}], "unschedulable": True},
            "status": {
                "allocatable": {"cpu": "4", "memory": "8Gi", "pods": 110},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        {
            "kind": "Pod",
            "metadata": {
                "name": "p",
                "namespace": "d",
                "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
            },
            "spec": {
                "containers": [{"resources": {"requests": {"cpu": "500m"}}, "ports": [{"hostPort": 80}]}],
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
                },
                "volumes": [{"persistentVolumeClaim": {"claimName": "c"}}],
                "priority": 5,
            },
        },
    ],
}
PATCHES = [
    "",
    "null",
    "3",
    "-1e400",
    '"x"',
    "true",
    "{}",
    "[]",
    '{"a":1}',
    '[{"b":null}]',
    "\\",
    '"',
    ",",
    "}",
    "]",
    "\x00",
]


def read(source: bytes, name: str) -> ClusterObjects | str:
    try:
        return decode_objects(source, name)
    except ConfigError as error:
        message = str(error)
        if message != printable(message, len(message)):
            raise AssertionError(message) from error
        return message


@given(st.one_of(objects, lists, values), st.sampled_from(["x.json", "x.yaml"]))
def test_any_json(value: Any, name: str) -> None:
    assert read(json.dumps(value).encode(), name)


@given(st.one_of(st.binary(), st.text().map(str.encode)), st.sampled_from(["x.json", "x.yaml", "x"]))
def test_any_bytes(source: bytes, name: str) -> None:
    assert read(source, name)


@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    source = json.dumps(DUMP)
    start = data.draw(st.integers(0, len(source) - 1))
    end = data.draw(st.integers(start, min(start + 12, len(source))))
    patch = data.draw(st.one_of(st.sampled_from(PATCHES), st.text(max_size=3)))
    damaged = (source[:start] + patch + source[end:]).encode("utf-8", "surrogatepass")
    assert read(damaged, data.draw(st.sampled_from(["x.json", "x.yaml"])))


@given(st.sampled_from(sorted(set(re.findall(r'"[^"]*"(?!:)|\d+|true', json.dumps(DUMP))))), st.sampled_from(PATCHES))
def test_any_value_replaced(value: str, patch: str) -> None:
    assert read(json.dumps(DUMP).replace(value, patch).encode(), "x.json")


@given(objects)
def test_json_and_yaml_say_the_same(value: dict[str, Any]) -> None:
    """YAML contains JSON, but for numbers that YAML does not know (NaN) and escapes of half characters."""
    text = json.dumps(value)
    if "NaN" in text or "Infinity" in text or "\\ud" in text:
        return
    as_json, as_yaml = read(text.encode(), "x.json"), read(text.encode(), "x.yaml")
    if isinstance(as_json, ClusterObjects):
        assert as_json == as_yaml
    else:
        assert isinstance(as_yaml, str)
