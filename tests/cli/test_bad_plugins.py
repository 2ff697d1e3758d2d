"""Plugins that are missing or broken: one sentence, exit code 2, and the others stay usable."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Finished = subprocess.CompletedProcess[str]
Command = Callable[..., Finished]
AddPlugin = Callable[..., None]

DUMP = json.dumps({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})

WHOLE = """
from nodewright import spec

class Provider:
    def __init__(self, context):
        pass

    @spec.hookimpl
    def provider_info(self):
        return spec.ProviderInfo(name="odd", spec_version={version}, capabilities=frozenset({capabilities}))

    @spec.hookimpl
    def refresh(self, wanted):
        return True

    @spec.hookimpl
    def node_groups(self):
        return {groups}

    @spec.hookimpl
    def target_size(self, group_id):
        return 0

    @spec.hookimpl
    def instances(self, group_id):
        return []

    @spec.hookimpl
    def template_node(self, group_id):
        raise spec.AccessDenied("no permission to read it")

    @spec.hookimpl
    def increase_size(self, group_id, expected_target, target):
        return 0

    @spec.hookimpl
    def decrease_target_size(self, group_id, expected_target, target):
        return 0

    {last}
    def delete_instances(self, group_id, instance_ids, expected_target):
        return []
"""


def whole(*, version: str = "(1, 0)", capabilities: str = "", groups: str = "[]", last: str = "@spec.hookimpl") -> str:
    return WHOLE.format(version=version, capabilities=capabilities, groups=groups, last=last)


BROKEN = {
    "raises on import": (
        "import a_library_that_is_not_there\n",
        "provider odd of nodewright-odd cannot be imported: ModuleNotFoundError: No module named",
    ),
    "exits on import": ("raise SystemExit(3)\n", "provider odd of nodewright-odd cannot be imported: SystemExit: 3"),
    "ends the process on import": (
        "import os\nos._exit(7)\n",
        "provider odd of nodewright-odd cannot be imported: SystemExit: os._exit(7)",
    ),
    "ends the process when built": (
        "import os\nclass Provider:\n    def __init__(self, context):\n        os._exit(0)\n",
        "provider odd of nodewright-odd cannot be built: SystemExit: os._exit(0)",
    ),
    "is interrupted on import": (
        "raise KeyboardInterrupt\n",
        "provider odd of nodewright-odd cannot be imported: KeyboardInterrupt",
    ),
    "is no syntax": ("def\n", "provider odd of nodewright-odd cannot be imported: SyntaxError"),
    "names nothing": ("", "provider odd of nodewright-odd cannot be imported: AttributeError"),
    "raises when built": (
        "class Provider:\n    def __init__(self, context):\n        raise ValueError('no\\nregion')\n",
        "provider odd of nodewright-odd cannot be built: ValueError: no region",
    ),
    "lacks a hook": (
        whole().replace("delete_instances", "_later"),
        "plugin odd: hook delete_instances is missing, and it is required",
    ),
    "forgets hookimpl": (whole(last=""), "plugin odd: method delete_instances lacks @hookimpl"),
    "claims what it cannot": (
        whole(capabilities="{spec.Capability.PRICING}"),
        "plugin odd: hook node_price is missing, and provider_info declares pricing",
    ),
    "is of another contract": (
        whole(version="(9, 0)"),
        "plugin odd: it needs contract 9.0, this nodewright speaks 1.0",
    ),
    "is called otherwise": (whole().replace('"odd"', '"even"'), "plugin odd: provider_info names it 'even'"),
}


@pytest.mark.parametrize("defect", BROKEN)
def test_planning_with_it_is_refused(command: Command, add_plugin: AddPlugin, defect: str) -> None:
    source, sentence = BROKEN[defect]
    add_plugin("odd", source)
    ended = command("plan", "-", "--cloud-provider", "odd", stdin=DUMP)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"nodewright: {sentence}")
    assert ended.stderr.count("\n") == 1


def test_all_broken_plugins_are_listed_and_hide_no_other(command: Command, add_plugin: AddPlugin) -> None:
    for number, (source, _) in enumerate(BROKEN.values()):
        add_plugin(f"odd{number}", source)
    ended = command("providers", "--output", "json")
    assert (ended.returncode, ended.stderr) == (0, "")
    plugins: dict[str, Any] = {plugin["name"]: plugin for plugin in json.loads(ended.stdout)["providers"]}
    assert [plugins.pop(name)["problem"] for name in ("aws", "fake", "gce")] == [None, None, None]
    for name in ("azure", "externalgrpc"):
        assert plugins.pop(name)["problem"].startswith("its options "), "it lacks an option that it cannot do without"
    assert len(plugins) == len(BROKEN)
    assert all(plugin["problem"] and plugin["capabilities"] is None for plugin in plugins.values())


def test_one_that_ends_the_process_hides_no_other(command: Command, add_plugin: AddPlugin) -> None:
    add_plugin("odd", "import os\nos.write(1, b'{')\nos.kill(os.getpid(), 9)\n")
    ended = command("providers", "--output", "json")
    assert ended.returncode == 0
    found = {plugin["name"]: plugin["problem"] for plugin in json.loads(ended.stdout)["providers"]}
    assert found["odd"] == "it ended its process when it was imported or built, with exit code -9"
    assert found["fake"] is None


def test_limits_other_than_those_of_nodes_are_refused(command: Command, add_plugin: AddPlugin) -> None:
    add_plugin("odd", whole(groups="[spec.NodeGroup(id='a', min_size=0, max_size=9)]"))
    ended = command("plan", "-", "--cloud-provider", "odd", "--nodes", "0:5:a", stdin=DUMP)
    assert ended.returncode == 2
    assert "group a with the limits 0 to 9, while --nodes says 0 to 5" in ended.stderr
    assert command("plan", "-", "--cloud-provider", "odd", "--nodes", "0:9:a", stdin=DUMP).returncode == 0


def test_a_group_of_nodes_that_is_not_listed_is_refused(command: Command, add_plugin: AddPlugin) -> None:
    add_plugin("odd", whole(groups="[spec.NodeGroup(id='web', min_size=0, max_size=9)]"))
    ended = command("plan", "-", "--cloud-provider", "odd", "--nodes", "0:5:zzz", stdin=DUMP)
    assert (ended.returncode, ended.stdout) == (2, "")
    sentence = "--nodes: provider odd lists no group zzz, nor another with its limits; it lists web"
    assert ended.stderr == f"nodewright: {sentence}\n"


def test_what_a_plugin_prints_in_a_call_does_not_stand_in_the_json(command: Command, add_plugin: AddPlugin) -> None:
    loud = whole().replace("        return True\n", "        print('reading the cloud')\n        return True\n")
    add_plugin("odd", loud)
    ended = command("plan", "-", "--cloud-provider", "odd", "--output", "json", stdin=DUMP)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)
    assert "reading the cloud" in ended.stderr


@pytest.mark.parametrize(
    ("listed", "is_told"),
    [
        ("spec.NodeGroup(id='other', min_size=0, max_size=9)", True),
        ("spec.NodeGroup(id='https://cloud/pools/mine', min_size=0, max_size=4)", False),
        ("spec.NodeGroup(id='another-name', min_size=0, max_size=5)", False),
    ],
    ids=["nothing of it", "a URL", "an id of the cloud"],
)
def test_doctor_tells_of_a_group_of_nodes_that_is_not_listed(
    command: Command, add_plugin: AddPlugin, listed: str, is_told: bool
) -> None:
    add_plugin("odd", whole(groups=f"[{listed}]"))
    ended = command("doctor", "--cloud-provider", "odd", "--nodes", "0:5:mine", "--output", "json")
    [provider] = json.loads(ended.stdout)["providers"]
    told = [finding["message"] for finding in provider["findings"] if finding["subject"] == "--nodes"]
    sentence = "provider odd lists no group mine, nor another with its limits: it is not scaled"
    assert told == ([sentence] if is_told else [])


def test_a_missing_plugin_says_how_to_get_it(command: Command) -> None:
    ended = command("plan", "-", "--cloud-provider", "nimbus", stdin=DUMP)
    assert ended.returncode == 2
    assert (
        "no installed package offers the provider nimbus (installed: aws, azure, externalgrpc, fake, gce)"
        in ended.stderr
    )
    assert "docs/plugin-guide.md" in ended.stderr
    assert "pip install" not in ended.stderr


def test_a_name_that_two_packages_claim_is_refused(command: Command, add_plugin: AddPlugin) -> None:
    add_plugin("odd", whole())
    add_plugin("odd", whole(), distribution="another-odd")
    ended = command("plan", "-", "--cloud-provider", "odd", stdin=DUMP)
    assert ended.returncode == 2
    assert "claimed by several packages: another-odd" in ended.stderr
    listed = json.loads(command("providers", "-o", "json").stdout)["providers"]
    assert [plugin["distribution"] for plugin in listed if plugin["name"] == "odd"] == ["another-odd", "nodewright-odd"]
    assert all(plugin["problem"] for plugin in listed if plugin["name"] == "odd")


def test_a_group_with_min_above_max_is_refused(command: Command, add_plugin: AddPlugin) -> None:
    add_plugin("odd", whole(groups="[spec.NodeGroup(id='a', min_size=5, max_size=2)]"))
    ended = command("plan", "-", "--cloud-provider", "odd", stdin=DUMP)
    assert ended.returncode == 2
    assert "group a with minimum 5 above maximum 2" in ended.stderr


def test_a_provider_that_fails_spoils_its_own_groups_only(
    command: Command, add_plugin: AddPlugin, tmp_path: Any
) -> None:
    add_plugin("odd", whole().replace("return True", "raise spec.AccessDenied('no permission to list')"))
    groups = tmp_path / "groups.yaml"
    groups.write_text("groups: [{name: a, cpu: 4, memory: 8Gi, max_size: 3}]")
    ended = command("plan", "-", "--cloud-provider", "odd", "--groups", groups, stdin=DUMP)
    assert ended.returncode == 0
    assert "Provider odd could not be read: accessDenied: no permission to list." in ended.stdout
    assert "dump/a" in ended.stdout
