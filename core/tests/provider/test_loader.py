"""Only the named plugin is loaded, and each way in which it can be unusable is one clear sentence."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint
from typing import Any

import pytest
from msgspec.structs import replace

from nodewright import spec
from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider import InlineRunner, installed_providers, load_provider
from nodewright.adapters.provider.loader import how_to_install
from nodewright.model.errors import ConfigError, ContractViolation, PluginError, PluginNotFound
from nodewright.spec import Capability, Price, ProviderContext, hookimpl


@dataclass
class Entry:
    """An entry point whose package exists in this test only."""

    name: str
    load: Callable[[], Any]
    value: str = "acme.provider:Acme"
    dist: Distribution | None = None
    loaded: list[str] = field(default_factory=list)


def entry(plugin: object, name: str = "scripted") -> Entry:
    return Entry(name=name, load=lambda: lambda _context: plugin)


def load(*entries: Any, name: str = "scripted") -> Any:
    clock = VirtualClock()
    return load_provider(name, ProviderContext(clock=clock), runner=InlineRunner(clock), entries=entries)


def refused(*entries: Any, name: str = "scripted") -> str:
    """The one sentence of the refusal."""
    with pytest.raises(PluginError) as caught:
        load(*entries, name=name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def raising(error: BaseException) -> Callable[..., Any]:
    def act(*_: object) -> Any:
        raise error

    return act


def test_a_good_plugin_loads_and_its_neighbours_are_left_alone(scripted: Any) -> None:
    broken = Entry(name="broken", load=raising(AssertionError("imported a neighbour")))
    client = load(broken, entry(scripted))
    assert client.name == "scripted"
    assert client.target_size("g") == 2


def test_installed_providers_are_listed_without_an_import() -> None:
    broken = EntryPoint(name="broken", value="no_such_package.x:Y", group=spec.ENTRY_POINT_GROUP)
    assert [(found.name, found.distribution) for found in installed_providers([broken])] == [
        ("broken", "no_such_package.x")
    ]
    assert "fake" in {found.name for found in installed_providers()}


def test_an_unknown_name_gets_the_nearest_one(scripted: Any) -> None:
    assert "did you mean scripted?" in refused(entry(scripted), name="scriptd")
    assert "pip install" in refused(entry(scripted), name="azuer")
    assert "pip install" not in refused(entry(scripted), name="nothere")


def test_a_checkout_names_the_folder_of_the_plugin() -> None:
    assert how_to_install("azure", None) == 'pip install "nodewright[azure]"'
    origin = '{"url": "file:///a%20b/core", "dir_info": {"editable": true}}'
    assert how_to_install("azure", origin) == "pip install -e '/a b/plugins/azure'"
    assert "[azure]" in how_to_install("azure", '{"url": "file:///x/nodewright.whl", "archive_info": {}}')


def test_an_upper_case_name_is_refused(scripted: Any) -> None:
    assert "a name has lower case" in refused(entry(scripted, name="Acme"), name="Acme")


def test_what_a_plugin_prints_is_not_output(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def load_loudly() -> Callable[[object], Any]:
        sys.stdout.write("imported, ")
        return lambda _context: sys.stdout.write("made") and scripted

    entry = Entry(name="scripted", load=load_loudly)
    load_provider("scripted", ProviderContext(clock=VirtualClock()), entries=[entry])
    assert capsys.readouterr() == ("", "imported, made")


def test_two_packages_with_one_name_are_refused(scripted: Any) -> None:
    other = Entry(name="scripted", load=lambda: None, value="rival.provider:Rival")
    with pytest.raises(PluginNotFound, match=r"acme\.provider .* and rival\.provider .*uninstall all but one"):
        load(entry(scripted), other)


def test_a_broken_import_keeps_its_cause() -> None:
    absent = EntryPoint(name="acme", value="no_such_package.provider:Acme", group=spec.ENTRY_POINT_GROUP)
    with pytest.raises(PluginError, match="cannot be imported: ModuleNotFoundError: No module named") as caught:
        load(absent, name="acme")
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_one_that_takes_too_long_to_build_is_named() -> None:
    clock = VirtualClock()
    slow = Entry(name="scripted", load=lambda: lambda context: context.clock.sleep(61))
    with pytest.raises(PluginError, match=r"scripted of acme\.provider was not imported and built within 60 s"):
        load_provider("scripted", ProviderContext(clock=clock), runner=InlineRunner(clock), entries=[slow])
    assert clock.now() == 60


@pytest.mark.parametrize("error", [ValueError("no\nendpoint"), SystemExit(4), KeyboardInterrupt()])
def test_a_broken_constructor_is_one_sentence(error: BaseException) -> None:
    assert "scripted of acme.provider cannot be built" in refused(Entry(name="scripted", load=lambda: raising(error)))


def test_the_plugins_own_config_error_passes_through() -> None:
    with pytest.raises(ConfigError, match=r"^unknown key zone$"):
        load(Entry(name="scripted", load=lambda: raising(ConfigError("unknown key zone"))))


def test_a_class_or_a_value_in_place_of_a_provider_is_refused(scripted: Any) -> None:
    assert "not a provider" in refused(entry(type(scripted)))
    assert "cannot be called" in refused(Entry(name="scripted", load=lambda: 3))


def variant(base: Any, **members: Any) -> Any:
    return type("Variant", (type(base),), members)()


def test_a_missing_hook_is_named(scripted: Any) -> None:
    assert "hook template_node is missing" in refused(entry(variant(scripted, template_node=None)))


def test_a_method_without_the_marker_is_named(scripted: Any) -> None:
    def node_price(self: Any, group_id: str) -> Price:
        return Price(per_hour=self.target, source=group_id)

    assert "method node_price lacks @hookimpl" in refused(entry(variant(scripted, node_price=node_price)))


def test_an_unknown_hook_is_named(scripted: Any) -> None:
    @hookimpl
    def explode(self: Any) -> Any:
        return self

    assert "explode" in refused(entry(variant(scripted, explode=explode)))


def test_wrong_and_missing_arguments_are_named(scripted: Any) -> None:
    @hookimpl
    def target_size(self: Any, group: str) -> int:
        return len(group) + int(self.target)

    assert "group" in refused(entry(variant(scripted, target_size=target_size)))

    @hookimpl
    def increase_size(self: Any, group_id: str, target: int) -> int:
        return target + len(group_id) + int(self.target)

    assert "hook increase_size does not take expected_target" in refused(
        entry(variant(scripted, increase_size=increase_size))
    )


def test_an_async_hook_is_refused(scripted: Any) -> None:
    @hookimpl
    async def target_size(self: Any, group_id: str) -> int:
        return len(group_id) + int(self.target)

    assert "target_size is async" in refused(entry(variant(scripted, target_size=target_size)))


def test_a_capability_without_its_hooks_is_refused(scripted: Any) -> None:
    scripted.info = replace(scripted.info, capabilities=frozenset({Capability.PRICING}))
    assert "hook node_price is missing, and provider_info declares pricing" in refused(entry(scripted))


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"spec_version": (1, 99)}, "it needs contract 1.99, this nodewright speaks 1.0"),
        ({"spec_version": (2, 0)}, "it needs contract 2.0"),
        ({"spec_version": "1"}, "'1' as contract version"),
        ({"name": "other"}, "provider_info names it 'other'"),
        ({"capabilities": frozenset({"flying"})}, "declares 'flying', which is no capability"),
    ],
)
def test_what_the_plugin_says_of_itself_must_hold(scripted: Any, info: dict[str, Any], words: str) -> None:
    scripted.info = replace(scripted.info, **info)
    assert words in refused(entry(scripted))


def test_an_info_that_is_none_or_raises_is_refused(scripted: Any) -> None:
    scripted.info = None
    assert "hook provider_info answered None" in refused(entry(scripted))
    assert "gives no provider_info" in refused(entry(variant(scripted, provider_info=hookimpl(_crash))))


def test_contract_violations_are_of_their_own_kind(scripted: Any) -> None:
    scripted.info = None
    with pytest.raises(ContractViolation):
        load(entry(scripted))


def _crash(self: Any) -> Any:
    raise RuntimeError(f"{type(self).__name__} is confused")
