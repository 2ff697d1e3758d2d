"""Pages and schemas are as the sources have them, and every setting is described in words that hold."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import generate
import jsonschema
import msgspec
import object_keys
import pytest
import yaml

from nodewright.adapters.config_files import read_prices
from nodewright.cli.settings.known_flags import KNOWN, PROVIDER_FIELDS, SETTINGS, SHORT_FORM
from nodewright.cli.settings.values import SettingKind, list_settings
from nodewright.model.group import GroupOptions
from nodewright.model.settings_base import SAME, Help
from nodewright.model.yaml_text import load_yaml
from nodewright_simulator.scenario import Event, Scenario

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs/schemas"
DESCRIBED = {**PROVIDER_FIELDS, **SHORT_FORM, **SETTINGS}
CA = {
    line.split(" | ")[0]
    for line in (ROOT / "core/tests/cli/settings/ca_flags.txt").read_text().splitlines()
    if not line.startswith("#")
}
_KEY = re.compile(r"[a-z0-9][a-z0-9.-]*\.(io|com)/[A-Za-z0-9._/-]*|nodewright\.io/.*|[A-Z][A-Za-z]+ClusterAutoscaler")


def test_generated_files_are_as_the_sources_have_them() -> None:
    stale = [str(path.relative_to(ROOT)) for path, text in generate.pages().items() if path.read_text() != text]
    assert stale == [], "run: make generate"


@pytest.mark.parametrize("flag", sorted(DESCRIBED))
def test_a_description_is_sentences_and_names_only_what_there_is(flag: str) -> None:
    told = DESCRIBED[flag].help
    for text in filter(None, (told.text, told.raised)):
        assert text[0].isupper() or text.startswith("--")
        assert text.endswith(".")
        assert set(re.findall(r"--([a-z][a-z-]+[a-z])", text)) <= set(KNOWN)
        assert not re.search(r"\b(nobody|somebody|whoever|whatever)\b", text, re.IGNORECASE)
        assert all((ROOT / page).exists() for page in re.findall(r"docs/[\w/.-]+\.md", text))


@pytest.mark.parametrize("flag", sorted(DESCRIBED))
def test_of_what_can_be_raised_it_is_said_what_that_changes(flag: str) -> None:
    setting = DESCRIBED[flag]
    assert bool(setting.help.raised) >= (
        setting.kind in (SettingKind.DURATION, SettingKind.INTEGER, SettingKind.NUMBER)
    )
    assert bool(setting.help.unit) >= (setting.kind in (SettingKind.INTEGER, SettingKind.NUMBER))


@pytest.mark.parametrize("flag", sorted(DESCRIBED))
def test_the_flag_of_cluster_autoscaler_is_one_that_it_has(flag: str) -> None:
    told = DESCRIBED[flag].help
    assert (told.ca == SAME) == (flag in CA)
    assert told.ca in ("", SAME) or told.ca in CA


def test_options_of_groups_are_described() -> None:
    assert all(option.help.text for option in list_settings("", GroupOptions))


def test_every_key_of_a_scenario_is_described() -> None:
    bare = [f"{kind.__name__}.{field.name}" for kind in _structs() for field in _fields(kind) if not _help(field)]
    assert bare == []


def _structs() -> Iterator[type[msgspec.Struct]]:
    seen: set[Any] = set()
    waiting: list[Any] = [Scenario, Event]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind not in seen:
            seen.add(kind)
            yield kind
            waiting += [field.type for field in _fields(kind)]
        waiting += get_args(kind)


def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _help(field: msgspec.structs.FieldInfo) -> str:
    notes = get_args(field.type) if get_origin(field.type) is Annotated else ()
    return next((note.text for note in notes if isinstance(note, Help)), "")


def test_every_key_of_an_object_in_the_sources_is_on_the_page() -> None:
    listed = {key.key for key in object_keys.OBJECT_KEYS if _KEY.fullmatch(key.key)}
    found = {text for path in (ROOT / "core/src").rglob("*.py") for text in _texts(path)}
    assert found - listed == object_keys.STANDARD_KEYS | object_keys.OTHER_TEXTS
    assert listed <= found


def _texts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _KEY.fullmatch(node.value):
            yield node.value


def _check(schema: str, value: Any) -> list[str]:
    checker = jsonschema.Draft7Validator(json.loads((SCHEMAS / schema).read_text()))
    return [error.json_path for error in checker.iter_errors(value)]


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("scenarios/*.yaml")), ids=lambda path: path.name)
def test_scenarios_fit_their_schema(path: Path) -> None:
    assert _check("scenario.schema.json", yaml.safe_load(path.read_text())) == []


def test_the_sweep_of_the_docs_fits_its_schema() -> None:
    sweep = yaml.safe_load((ROOT / "docs/examples/sweep/expanders.yaml").read_text())
    assert _check("sweep.schema.json", sweep) == []
    assert _check("sweep.schema.json", sweep | {"grid": {"expander": "random"}}) == ["$.grid.expander"]


def test_the_prices_of_the_docs_fit_their_schema() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/prices.md").read_text(), re.DOTALL)
    document = load_yaml(example, "docs/prices.md")[0]
    assert _check("prices.schema.json", document) == []
    assert read_prices(example.encode(), "docs/prices.md").reserved
    assert _check("prices.schema.json", document | {"prices": [{"type": "m", "per_hour": -1}]}) == [
        "$.prices[0].per_hour"
    ]


def test_a_scenario_with_a_wrong_key_does_not() -> None:
    scenario = {"name": "x", "duration": "1h", "providers": {"fake": {}}, "timeline": [{"do": "scale", "at": 1}]}
    assert _check("scenario.schema.json", scenario) == ["$.timeline[0]"]
    assert _check("scenario.schema.json", scenario | {"timeline": [], "settings": {"speed": 1}}) == ["$.settings"]


GOOD = """
scale-down: {scale-down-unneeded-time: 5m, scale-down-delay-after-add: 0, max-pod-moves-per-hour: 3}
failures: {max-node-provision-time: auto, hedging: auto}
scale-up:
expander: price,least-waste
gpu-total: ["nvidia-tesla-k80:0:16"]
startup-taint: a,b
v: 4
providers: {aws: {nodes: ["1:10:workers"], options: {region: x}, call-timeout: 30s}}
"""


def test_a_file_of_settings_fits_its_schema_and_the_charts() -> None:
    chart = jsonschema.Draft7Validator(json.loads(generate.CHART.read_text()))
    good = yaml.safe_load(GOOD)
    assert _check("settings.schema.json", good) == []
    providers = good.pop("providers")
    assert list(chart.iter_errors({"settings": good, "providers": providers})) == []


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("scale-down: {scale-down-unneeded-time: 5}", "$['scale-down']['scale-down-unneeded-time']"),
        ("scale-down-enabled: 'yes'", "$['scale-down-enabled']"),
        ("profile: mine", "$.profile"),
        ("scale-down: {expander: price}", "$['scale-down']"),
        ("speed: 1", "$"),
        ("providers: {aws: {node: []}}", "$.providers.aws"),
        ("loop: {max-total-unready-percentage: 101}", "$.loop['max-total-unready-percentage']"),
    ],
)
def test_what_nodewright_refuses_the_schema_refuses(text: str, where: str) -> None:
    assert _check("settings.schema.json", yaml.safe_load(text)) == [where]


@pytest.mark.parametrize("path", [generate.CHART, SCHEMAS / "settings.schema.json"], ids=lambda path: path.name)
def test_every_key_of_a_schema_has_a_description(path: Path) -> None:
    schema = json.loads(path.read_text())
    keys = dict(_keys(schema, "$"))
    assert len(keys) > 150
    assert [key for key, found in keys.items() if not _description(found, schema)] == []


def test_a_key_without_a_description_is_found() -> None:
    schema = {
        "definitions": {"a": {"properties": {"b": {}}}},
        "items": {"properties": {"c": {"$ref": "#/definitions/a"}}},
    }
    keys = dict(_keys(schema, "$"))
    assert list(keys) == ["$.definitions.a.b", "$.items.c"]
    assert [_description(found, schema) for found in keys.values()] == ["", ""]


def _keys(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the schema of each key that an object of the schema may have, with its path."""
    if isinstance(node, list):
        for index, part in enumerate(node):
            yield from _keys(part, f"{path}[{index}]")
    if not isinstance(node, dict):
        return
    for name, part in node.items():
        if name == "properties":
            yield from ((f"{path}.{key}", found) for key, found in part.items())
            for key, found in part.items():
                yield from _keys(found, f"{path}.{key}")
        elif name != "default":
            yield from _keys(part, f"{path}.{name}")


def _description(found: dict[str, Any], schema: dict[str, Any]) -> str:
    """Return the description of a key, or that of the definition which it names."""
    if "$ref" in found:
        found = schema["definitions"][found["$ref"].rpartition("/")[2]]
    text: str = found.get("description", "")
    return text
