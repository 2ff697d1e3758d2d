"""An old plugin meets a newer contract, and each hook of the contract is asked by somebody."""

import ast
import re
from pathlib import Path

import pytest

from nodewright import spec
from nodewright.adapters.provider.loader import check_info, hook_names, register
from nodewright.model.errors import ContractViolation
from nodewright.testkit import FakeClock
from nodewright.testkit.contract import connect

ROOT = Path(__file__).parents[2]
ASKING = (ROOT / "core/src/nodewright", ROOT / "simulator/src/nodewright_simulator")
# The parts that carry a question on to the plugin, or check what it says, but do not ask for themselves.
CARRYING = ("adapters/provider", "testkit", "spec", "cli/provider_template")

# How a client of a provider is called where it is asked; ``source`` is that of the simulated kubelets.
CLIENT = re.compile(r"(self\._)?(client|provider|source)|self\._providers\[.+\]")


class PluginOf10:
    """A provider as it was written for contract 1.0. It stays as it is: a newer minor version must serve it."""

    @spec.hookimpl
    def provider_info(self) -> spec.ProviderInfo:
        return spec.ProviderInfo(name="old", spec_version=(1, 0), capabilities=frozenset({spec.Capability.PRICING}))

    @spec.hookimpl
    def refresh(self, wanted: frozenset[str]) -> bool:
        return wanted is not None

    @spec.hookimpl
    def node_groups(self) -> list[spec.NodeGroup]:
        return [spec.NodeGroup(id="a", min_size=0, max_size=3)]

    @spec.hookimpl
    def target_size(self, group_id: str) -> int:
        return len(group_id)

    @spec.hookimpl
    def instances(self, group_id: str) -> list[spec.Instance]:
        return [spec.Instance(id=f"old://{group_id}/1")]

    @spec.hookimpl
    def template_node(self, group_id: str) -> spec.NodeTemplate:
        raise spec.NodeGroupNotFound(group_id)

    @spec.hookimpl
    def increase_size(self, group_id: str, expected_target: int, target: int) -> int:
        return target - expected_target if group_id else 0

    @spec.hookimpl
    def decrease_target_size(self, group_id: str, expected_target: int, target: int) -> int:
        return expected_target - target if group_id else 0

    @spec.hookimpl
    def delete_instances(self, group_id: str, instance_ids: list[str], expected_target: int) -> list[str]:
        return instance_ids if group_id and expected_target else []

    @spec.hookimpl
    def node_price(self, group_id: str) -> spec.Price:
        return spec.Price(per_hour=0.1, source=group_id)


def test_todays_core_serves_a_plugin_of_1_0() -> None:
    plugin = PluginOf10()
    check_info(register("old", plugin), "old", plugin.provider_info())


def test_todays_core_asks_it_as_it_was_asked_by_1_0() -> None:
    client = connect("old", PluginOf10(), FakeClock())
    client.refresh(frozenset({"a"}))
    assert [listed.id for listed in client.node_groups()] == ["a"]
    assert (client.target_size("a"), client.instances("a")[0].id) == (1, "old://a/1")
    assert client.node_price("a") == spec.Price(per_hour=0.1, source="a")
    assert client.increase_size("a", 1, 2) == 1
    assert client.decrease_target_size("a", 2, 1) == 1
    assert client.delete_instances("a", ["old://a/1"], 1) == ("old://a/1",)
    assert client.failed_instances("a") is None


@pytest.mark.parametrize("speaks", [(1, 0), (1, 1), (1, 7)])
def test_a_newer_minor_version_serves_it_too(speaks: tuple[int, int]) -> None:
    plugin = PluginOf10()
    check_info(register("old", plugin), "old", plugin.provider_info(), speaks)


@pytest.mark.parametrize("speaks", [(0, 9), (2, 0)])
def test_another_major_version_refuses_it(speaks: tuple[int, int]) -> None:
    plugin = PluginOf10()
    with pytest.raises(ContractViolation, match=r"it needs contract 1\.0, this nodewright speaks"):
        check_info(register("old", plugin), "old", plugin.provider_info(), speaks)


HOOKS = [hook for protocol in (spec.RequiredHooks, *spec.CAPABILITY_HOOKS.values()) for hook in hook_names(protocol)]


def test_each_hook_is_asked() -> None:
    asked = {name for folder in ASKING for path in folder.rglob("*.py") for name in asked_in(path, folder)}
    # provider_info is asked where a plugin is loaded.
    assert [hook for hook in HOOKS if hook not in asked and hook != "provider_info"] == []


@pytest.mark.parametrize(
    ("line", "hooks"),
    [
        ("provider.node_price(group)", {"node_price"}),
        ("self._provider.refresh()", {"refresh"}),
        (
            "end = provider.force_delete_instances if force else provider.delete_instances\nend(group)",
            {"force_delete_instances", "delete_instances"},
        ),
        ("end = provider.delete_instances", set()),
        # What was read is not asked for again, and others have methods of the same names.
        ("held.gpu_label", set()),
        ("provider.gpu_label", set()),
        ("self.kubelets.next_change()", set()),
    ],
)
def test_only_calls_of_a_client_count(line: str, hooks: set[str]) -> None:
    assert asked_by(ast.parse(line)) == hooks


def asked_in(path: Path, folder: Path) -> set[str]:
    """The hooks that a module calls, unless the module only carries questions on."""
    if path.relative_to(folder).as_posix().startswith(CARRYING):
        return set()
    return asked_by(ast.parse(path.read_text()))


def asked_by(tree: ast.AST) -> set[str]:
    """The hooks that are called through a client of a provider."""
    bound = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    called: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            what = bound.get(node.func.id, node.func) if isinstance(node.func, ast.Name) else node.func
            for one in (what.body, what.orelse) if isinstance(what, ast.IfExp) else (what,):
                if isinstance(one, ast.Attribute) and CLIENT.fullmatch(ast.unparse(one.value)):
                    called.add(one.attr)
    return called & {*HOOKS}
