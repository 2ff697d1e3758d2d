"""``nodewright config check``: check a settings file and show what it sets."""

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from nodewright.adapters.config_files import DisruptionFile, PricesFile
from nodewright.cli.daemon.reload import is_safe
from nodewright.cli.screen import count, make_console, make_table, output_option, safe, write_json
from nodewright.cli.settings.checks import check_daemon
from nodewright.cli.settings.flags import SettingsCommand, SettingsSource, source_options
from nodewright.cli.settings.known_flags import SECTIONS, SETTINGS
from nodewright.cli.settings.load import LoadedSettings
from nodewright.cli.settings.values import Setting, SettingKind, without_secrets, write_value
from nodewright.model.price_book import PriceBook
from nodewright.model.settings import ProviderSettings, Settings

SCHEMA = 1


@click.group("config")
def command() -> None:
    """Work with files of settings.

    Exit codes: 0 done, 2 bad input.
    """


@command.command("check", cls=SettingsCommand)
@click.argument("file", metavar="FILE")
@output_option
@source_options
def check(source: SettingsSource, file: str, output: str) -> None:
    """Check a file of settings, together with NODEWRIGHT_* variables and flags if there are any, and show what it sets.

    The files that --disruption-config and --prices name are checked, too. No provider is asked.

    Exit codes: 0 it can be used; 2 it cannot: the key and what is wrong with it are named.
    """
    loaded = SettingsSource(source.flags, file, "FILE").load()
    check_daemon(loaded.settings)
    DisruptionFile(lambda: loaded.settings.safety).check()
    prices = PricesFile(lambda: loaded.settings.scale_up)
    prices.check()
    not_checked = list(_find_not_checked(prices.read()))
    if output == "json":
        write_json(as_json(loaded) | {"not_checked": not_checked})
        return
    console = make_console()
    console.print(safe(f"{file} can be used."), soft_wrap=True)
    for note in loaded.idle:
        console.print(safe(note, "yellow"), soft_wrap=True)
    for note in not_checked:
        console.print(safe(note), soft_wrap=True)
    rows = list(_rows(loaded, f"{file}: "))
    if rows:
        table = make_table("What differs from the defaults", "setting", "value", "from", "takes effect")
        for row in rows:
            table.add_row(*map(safe, row))
        console.print(table)


def _find_not_checked(prices: PriceBook) -> Iterator[str]:
    """Yield a sentence for each thing that only a provider could tell."""
    if prices.by_group:
        yield f"{prices.name}: not checked whether the node groups with a price exist; nodewright doctor asks the providers"


def as_json(loaded: LoadedSettings) -> dict[str, Any]:
    """Return the document of ``--output json``: every setting in force and where it comes from."""
    settings = loaded.settings
    return {
        "schema": SCHEMA,
        "settings": {
            section: {
                setting.flag: _plain(setting, _get(settings, setting))
                for setting in SETTINGS.values()
                if setting.section == field.name
            }
            for section, field in SECTIONS.items()
        },
        "providers": {name: _provider(held) for name, held in settings.providers.items()},
        "given": {flag: given.origin for flag, given in loaded.given.items()},
        "reloads": sorted(setting.flag for setting in SETTINGS.values() if is_safe(setting)),
        "without_effect": list(loaded.idle),
    }


def _rows(loaded: LoadedSettings, home: str) -> Iterator[tuple[str, str, str, str]]:
    for setting in SETTINGS.values():
        value = _get(loaded.settings, setting)
        if value != setting.default:
            origin = loaded.given[setting.flag].origin.removeprefix(home)
            yield setting.flag, write_value(setting, value), origin, "at once" if is_safe(setting) else "at a restart"
    for name, held in loaded.settings.providers.items():
        groups = (*held.nodes, *held.node_group_auto_discovery)
        said = f"{count(len(held.options), 'option')}, {count(len(groups), 'spec')} of node groups"
        yield f"providers.{name}", said, "", "at a restart"


def _get(settings: Settings, setting: Setting) -> Any:
    return getattr(getattr(settings, setting.section), setting.field)


def _plain(setting: Setting, value: Any) -> Any:
    """Return a value as it is written in a file."""
    return write_value(setting, value) if setting.kind is SettingKind.DURATION else value


def _provider(held: ProviderSettings) -> dict[str, Any]:
    shown: dict[str, Any] = msgspec.to_builtins(held)
    shown["options"] = without_secrets(held.options)
    return shown
