"""``nodewright providers``: the installed plugins."""

from collections.abc import Iterable, Mapping
from typing import Any

import click
import msgspec

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.provider import InstalledProvider, installed_providers
from nodewright.cli.connect import Connector
from nodewright.cli.screen import make_console, make_table, output_option, safe, write_json
from nodewright.cli.settings.flags import SettingsSource
from nodewright.cli.settings.known_flags import CONFIG_VARIABLE
from nodewright.model.capability import Capability
from nodewright.model.errors import ConfigError, NodewrightError
from nodewright.model.settings import ProviderSettings
from nodewright.spec.hooks import SPEC_VERSION

SCHEMA = 1


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin as it says it is; ``problem`` says why it cannot be asked, and then the rest is unknown.

    ``contract`` is the oldest contract version that the plugin can live with.
    """

    name: str
    distribution: str
    version: str
    contract: str | None = None
    capabilities: dict[Capability, bool] | None = None
    problem: str | None = None


@click.command("providers")
@click.option(
    "--config", metavar="FILE", envvar=CONFIG_VARIABLE, help="YAML file of settings with the options of providers."
)
@output_option
def command(config: str | None, output: str) -> None:
    """List the installed provider plugins and their capabilities.

    The command loads every plugin, with its options from the settings if there are any. A plugin that cannot be loaded
    is listed with its problem. Exit code: 0, even if a plugin cannot be loaded.
    """
    settings = SettingsSource({}, config).load().settings
    found = describe(installed_providers(), settings.providers, Connector(clock=SystemClock()))
    if output == "json":
        write_json(as_json(found))
    else:
        _print(found)


def describe(
    installed: Iterable[InstalledProvider], settings: Mapping[str, ProviderSettings], connector: Connector
) -> tuple[Described, ...]:
    """Describe each plugin on its own."""
    return tuple(_describe(plugin, settings.get(plugin.name, ProviderSettings()), connector) for plugin in installed)


def as_json(found: Iterable[Described]) -> dict[str, Any]:
    """Return the document of ``--output json``."""
    return {"schema": SCHEMA, "contract": _version(SPEC_VERSION), "providers": msgspec.to_builtins(list(found))}


def _describe(plugin: InstalledProvider, settings: ProviderSettings, connector: Connector) -> Described:
    known = Described(name=plugin.name, distribution=plugin.distribution, version=plugin.version)
    try:
        info = connector.connect(plugin.name, settings).info
    except ConfigError as error:
        return msgspec.structs.replace(known, problem=f"its options (providers.{plugin.name}.options): {error}")
    except NodewrightError as error:
        return msgspec.structs.replace(known, problem=str(error))
    return msgspec.structs.replace(
        known,
        contract=_version(info.spec_version),
        capabilities={capability: capability in info.capabilities for capability in Capability},
    )


def _version(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _print(found: tuple[Described, ...]) -> None:
    console = make_console()
    if not found:
        console.print(safe("No provider plugin is installed. Try: pip install 'nodewright[fake]'"))
        return
    table = make_table("Provider plugins", "name", "package", "version", "contract", "state")
    for plugin in found:
        state = safe(plugin.problem, "red") if plugin.problem else safe("ok", "green")
        cells = (plugin.name, plugin.distribution, plugin.version, plugin.contract or "?")
        table.add_row(*(safe(cell) for cell in cells), state)
    console.print(table)
    usable = [(plugin.name, plugin.capabilities) for plugin in found if plugin.capabilities is not None]
    if usable:
        matrix = make_table("Capabilities", "capability", *(name for name, _ in usable))
        for capability in Capability:
            marks = (safe("yes", "green") if can[capability] else safe("no", "dim") for _, can in usable)
            matrix.add_row(safe(capability.value), *marks)
        console.print(matrix)
