"""``nodewright providers``: every installed plugin, and what is wrong with it."""

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from nodewright.model.capability import Capability

Nodewright = Callable[..., Any]


def test_json_says_what_each_plugin_can_do(nodewright: Nodewright) -> None:
    document = nodewright("providers", "--output", "json").document
    [fake] = [plugin for plugin in document["providers"] if plugin["name"] == "fake"]
    assert (document["schema"], document["contract"]) == (1, "1.0")
    assert fake == {
        "name": "fake",
        "distribution": "nodewright-fake",
        "version": version("nodewright-fake"),
        "contract": "1.0",
        "capabilities": {capability.value: True for capability in Capability},
        "problem": None,
    }


def test_options_of_the_settings_count(nodewright: Nodewright, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("providers: {fake: {options: {switched_off: [pricing]}}}")
    listed = nodewright("providers", "--config", config, "-o", "json").document["providers"]
    [fake] = [provider for provider in listed if provider["name"] == "fake"]
    assert [name for name, can in fake["capabilities"].items() if not can] == ["pricing"]


def test_wrong_options_are_that_plugins_problem(nodewright: Nodewright, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("providers: {fake: {options: {swiched_off: []}}}")
    ended = nodewright("providers", "--config", config)
    assert ended.code == 0
    assert "did you mean switched_off?" in " ".join(ended.out.split())


def test_the_table_names_every_capability(nodewright: Nodewright) -> None:
    ended = nodewright("providers")
    assert ended.code == 0
    assert "nodewright-fake" in ended.out
    assert all(capability.value in ended.out for capability in Capability)
