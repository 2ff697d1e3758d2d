"""``nodewright providers``: the installed plugins."""

import os
from collections.abc import Iterable, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import click
import msgspec

from nodewright.adapters.clocks import SystemClock
from nodewright.adapters.provider import BUILD_SECONDS, InstalledProvider, installed_providers
from nodewright.cli.connect import Connector
from nodewright.cli.screen import make_console, make_table, output_option, safe, write_json
from nodewright.cli.settings.flags import SettingsSource
from nodewright.cli.settings.known_flags import CONFIG_VARIABLE
from nodewright.model.capability import Capability
from nodewright.model.errors import ConfigError, NodewrightError
from nodewright.model.settings import ProviderSettings
from nodewright.spec.hooks import SPEC_VERSION

SCHEMA = 1
# Longer than the loader waits for a plugin.
_LONGEST = BUILD_SECONDS + 10


class Described(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin's description of itself; ``problem`` says why it could not be loaded, and then the rest is unknown.

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
    is listed with its problem. Each is loaded in a process of its own. Exit code: 0, even if a plugin cannot be loaded.
    """
    settings = SettingsSource({}, config).load().settings
    found = _describe_all(installed_providers(), settings.providers)
    if output == "json":
        write_json(as_json(found))
    else:
        _print(found)


def as_json(found: Iterable[Described]) -> dict[str, Any]:
    """Return the document of ``--output json``."""
    return {"schema": SCHEMA, "contract": _version(SPEC_VERSION), "providers": msgspec.to_builtins(list(found))}


def _describe_all(
    installed: Iterable[InstalledProvider], settings: Mapping[str, ProviderSettings]
) -> tuple[Described, ...]:
    """Describe each plugin in a process of its own, all in parallel. A plugin that ends its process does not hide others."""
    spawning = get_context("spawn")
    begun = []
    for plugin in installed:
        receiver, sender = spawning.Pipe(duplex=False)
        known = settings.get(plugin.name, ProviderSettings())
        process = spawning.Process(target=_describe_to, args=(sender, plugin, known), daemon=True)
        process.start()
        sender.close()
        begun.append((plugin, process, receiver))
    return tuple(_await(*one) for one in begun)


def _await(plugin: InstalledProvider, process: SpawnProcess, receiver: Connection) -> Described:
    try:
        if receiver.poll(_LONGEST):
            found: Described = receiver.recv()
            return found
        problem = f"it was not imported and built within {_LONGEST:g} s"
    except EOFError:
        process.join()
        problem = f"it ended its process when it was imported or built, with exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()
    return _identify(plugin, problem)


def _describe_to(sender: Connection, plugin: InstalledProvider, settings: ProviderSettings) -> None:
    """Describe the plugin in this process; send what it prints to stderr, out of the command's output."""
    os.dup2(2, 1)
    sender.send(_describe(plugin, settings))


def _identify(plugin: InstalledProvider, problem: str | None = None) -> Described:
    return Described(name=plugin.name, distribution=plugin.distribution, version=plugin.version, problem=problem)


def _describe(plugin: InstalledProvider, settings: ProviderSettings) -> Described:
    try:
        info = Connector(clock=SystemClock()).connect(plugin.name, settings).info
    except ConfigError as error:
        return _identify(plugin, f"its options (providers.{plugin.name}.options): {error}")
    except NodewrightError as error:
        return _identify(plugin, str(error))
    return msgspec.structs.replace(
        _identify(plugin),
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
