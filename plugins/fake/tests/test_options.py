"""Options are strict, and the README's examples are real."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from nodewright.model.errors import ConfigError
from nodewright.spec import Capability, ProviderContext
from nodewright.testkit import FakeClock
from nodewright_fake import CloudOptions, Delay, FakeProvider, load_options

README = Path(__file__).parents[1] / "README.md"


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)


def known_keys(info: Any) -> Iterator[str]:
    if isinstance(info, msgspec.inspect.StructType):
        for field in info.fields:
            yield field.encode_name
            yield from known_keys(field.type)
    for part in ("types", "item_type"):
        inner = getattr(info, part, ())
        for found in inner if isinstance(inner, tuple) else (inner,):
            yield from known_keys(found)


def test_the_readmes_options_load_and_show_every_option(tmp_path: Path) -> None:
    raw = yaml.safe_load(block("yaml"))
    options = load_options(raw)
    assert [group.name for group in options.groups] == ["small-a", "small-b"]
    assert len(options.faults) == 8
    assert set(known_keys(msgspec.inspect.type_info(CloudOptions))) - set(keys_of(raw)) == {"file"}
    path = tmp_path / "cloud.yaml"
    path.write_text(block("yaml"))
    assert load_options({"file": str(path)}).groups[0].size == 2


def test_the_readmes_python_runs() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), str(README), "exec"), names)  # noqa: S102 - our own README
    assert names["cloud"].view("a").target == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grups": []}, "options of provider fake: unknown key grups, did you mean groups?"),
        ({"groups": [{"name": "a", "max_sise": 3}]}, "unknown key groups[0].max_sise, did you mean max_size?"),
        ({"groups": [{"name": "web", "min_size": 5, "max_size": 2}]}, "group web: min_size 5 is above max_size 2"),
        ({"groups": [{"name": "web", "size": 11}]}, "group web: size 11 is above max_size 10"),
        ({"groups": [{"name": "a"}, {"name": "a"}]}, "group a: a name must be unique"),
        ({"groups": [{"name": "a/b"}]}, "group a/b: a name must be unique, not empty and without a slash"),
        ({"groups": [{"name": "a", "memory": "16 GB"}]}, "group a: memory: '16 GB' is not a quantity"),
        ({"groups": [{"name": "a", "ready_delay": {"uniform": [9, 3]}}]}, "groups[0].ready_delay: uniform takes the"),
        ({"groups": [{"name": "a", "ready_delay": "soon"}]}, "'soon' is not a duration"),
        (
            {"groups": [{"name": "a", "never_registers": 2}]},
            "groups[0].never_registers: must be at most 1.0, not the number 2",
        ),
        ({"faults": [{"kind": "explode"}]}, "Invalid value 'explode'"),
        ({"switched_off": ["flying"]}, "Invalid enum value 'flying'"),
        ({"file": "/no/such/file.yaml"}, "/no/such/file.yaml: cannot be read"),
        ({"file": "x.yaml", "groups": []}, "file must be the only key: move groups into x.yaml"),
    ],
)
def test_bad_options_are_one_sentence(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_options(options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: &x [1]\nb: *x\n", "aliases are not allowed"),
        ("groups: [", "not YAML"),
        ("- 1", "must hold a mapping"),
        ("[" * 5000, "not YAML"),
        ("groups: !!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_hostile_files_are_refused(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "cloud.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_options({"file": str(path)})
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_node_group_specs_pick_groups_whose_names_may_hold_colons() -> None:
    described = {"groups": [{"name": "pool:a"}, {"name": "b", "size": 1}, {"name": "c"}]}
    options = load_options(described, ("1:7:pool:a", "0:3:b"))
    assert [(g.name, g.min_size, g.max_size) for g in options.groups] == [("pool:a", 1, 7), ("b", 0, 3)]
    for spec, words in (("1:3:bb", "did you mean b?"), ("1:x:b", "not of the form min:max:name"), ("3:1:b", "above")):
        with pytest.raises(ConfigError, match=words):
            load_options(described, (spec,))


def test_auto_discovery_is_refused() -> None:
    context = ProviderContext(clock=FakeClock(), auto_discovery_specs=("label:x=y",))
    with pytest.raises(ConfigError, match="discovers no groups"):
        FakeProvider(context)


def test_durations_and_capabilities_parse() -> None:
    options = load_options({"groups": [{"name": "a", "provision_delay": "1h30m500ms"}], "switched_off": ["gpu"]})
    assert isinstance(options.groups[0].provision_delay, Delay)
    assert options.groups[0].provision_delay.values == (5400.5,)
    assert options.switched_off == (Capability.GPU,)


def test_a_key_of_another_level_is_no_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"unknown key max_sise$"):
        load_options({"max_sise": 3})
