"""Whatever a dump holds, it is objects or a refusal in one line; never anything else."""

import json
import string
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from nodewright.model.complaint import printable
from nodewright.model.decode import decode_objects
from nodewright.model.errors import ConfigError
from nodewright.model.meta import Kube
from nodewright.model.objects import KINDS, ClusterObjects


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


def read(source: bytes, name: str) -> ClusterObjects | str:
    try:
        return decode_objects(source, name)
    except ConfigError as error:
        message = str(error)
        if message != printable(message, len(message)):
            raise AssertionError(message) from error
        return message


@settings(deadline=None)
@given(st.one_of(objects, lists, values), st.sampled_from(["x.json", "x.yaml"]))
def test_any_json(value: Any, name: str) -> None:
    assert read(json.dumps(value).encode(), name)


@settings(deadline=None)
@given(st.one_of(st.binary(), st.text().map(str.encode)), st.sampled_from(["x.json", "x.yaml", "x"]))
def test_any_bytes(source: bytes, name: str) -> None:
    assert read(source, name)


@settings(deadline=None)
@given(objects, st.data())
def test_any_damage(value: dict[str, Any], data: st.DataObject) -> None:
    source = bytearray(json.dumps({"kind": "List", "items": [value]}).encode())
    at = data.draw(st.integers(0, len(source) - 1))
    with_what = data.draw(st.sampled_from([b"", *(c.encode() for c in string.punctuation), b"\xff", b"\x00", b"0"]))
    source[at : at + data.draw(st.integers(0, len(source)))] = with_what
    assert read(bytes(source), data.draw(st.sampled_from(["x.json", "x.yaml"])))


@settings(deadline=None)
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
