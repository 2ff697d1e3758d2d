"""The settings as click options."""

import functools
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast, get_args, get_origin

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from nodewright.cli.settings.known_flags import CA_FLAGS, CONFIG_VARIABLE, KNOWN, SECTIONS
from nodewright.cli.settings.load import EXPANDERS, Flags, LoadedSettings, load
from nodewright.cli.settings.values import Setting, SettingKind, describe_default, parse_bool, summarize
from nodewright.model.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])
# By section: its name in a file, and its subject.
_HEADINGS = {
    "providers": ("One provider", "The short form of an entry of providers in --config"),
    **{field.name: (key, summarize(field.type)) for key, field in SECTIONS.items()},
}
_META = "nodewright.flags"
_ASSIGNED = re.compile(r"--(?P<flag>[a-z0-9-]+)=(?P<value>.*)", re.DOTALL)
_UNDERSCORED = re.compile(r"--[a-z0-9_-]+")
_BOOLEANS = frozenset(flag for flag, setting in KNOWN.items() if setting.kind is SettingKind.BOOLEAN)


class SettingsCommand(click.Command):
    """A command with settings as flags.

    It also accepts cluster-autoscaler's forms: ``--force-ds=true``, ``--force-ds=false``, ``--force_ds`` and ``-v=4``.

    With ``lists_settings`` its help shows all settings by section; otherwise it says where they are shown.
    """

    def __init__(self, *args: Any, lists_settings: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lists_settings = lists_settings

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_switch(_dashed(arg)) for arg in args[:end]), *args[end:]])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        settings = [param for param in self.params if isinstance(param, _SettingOption) and not param.hidden]
        own = [
            param.get_help_record(ctx)
            for param in self.get_params(ctx)
            if isinstance(param, click.Option) and not isinstance(param, _SettingOption)
        ]
        with formatter.section("Options"):
            formatter.write_dl([record for record in own if record is not None])
        if not self._lists_settings:
            with formatter.section("Settings"):
                formatter.write_text(
                    "Every setting is also a flag of this command. nodewright run --help lists them by section."
                )
            return
        for section, (heading, summary) in _HEADINGS.items():
            with formatter.section(heading):
                formatter.write_text(f"{summary}.")
                formatter.write_paragraph()
                formatter.write_dl([param.record for param in settings if param.setting.section == section])


class _SettingOption(click.Option):
    """A setting as a flag."""

    def __init__(self, *args: Any, setting: Setting, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.setting = setting

    @property
    def record(self) -> tuple[str, str]:
        """Return the flag as help shows it, and one sentence about its effect, with its default."""
        setting = self.setting
        is_switch = setting.kind is SettingKind.BOOLEAN
        shown = f"--[no-]{setting.flag}" if is_switch else f"--{setting.flag} {setting.metavar}"
        return shown, f"{setting.help.summary} Default: {describe_default(setting)}."

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Return the values that begin with ``incomplete``; of a list with commas, with its last part."""
        before, comma, begun = incomplete.rpartition(",")
        return [CompletionItem(before + comma + value) for value in self._values() if value.startswith(begun)]

    def _values(self) -> Iterable[str]:
        if self.setting.flag == "expander":
            return EXPANDERS
        if self.setting.flag == "cloud-provider":
            from nodewright.adapters.provider import installed_providers  # noqa: PLC0415 - it loads numpy and more

            return sorted(plugin.name for plugin in installed_providers())
        chosen = get_args(self.setting.type) if get_origin(self.setting.type) is Literal else ()
        return (*chosen, *self.setting.words)


class SettingsSource(NamedTuple):
    """The source of one process's settings; ``config`` is the file's path or None, ``flag`` the flag that names it."""

    flags: Flags
    config: str | None
    flag: str = "--config"

    def load(self) -> LoadedSettings:
        """Load flags, this process's environment and the file together; raise ConfigError."""
        text = self.read_file()
        return load(self.flags, os.environ, text, self.config or "")

    def read_file(self) -> bytes | None:
        if self.config is None:
            return None
        try:
            return Path(self.config).read_bytes()
        except OSError as error:
            raise ConfigError(f"{self.flag}: {self.config}: {error.strerror}") from None


def source_options(command: F) -> F:
    """Give a function every settings flag and ``--config``; it gets them as one argument ``source``.

    Use with ``@click.command(cls=SettingsCommand)``.
    """

    @functools.wraps(command)
    def with_source(*args: Any, config: str | None, **kwargs: Any) -> Any:
        flags = click.get_current_context().meta.get(_META, {})
        return command(*args, source=SettingsSource(flags, config), **kwargs)

    decorated: Any = with_source
    for flag, setting in reversed(KNOWN.items()):
        decorated = _make_option(setting, hidden=flag in CA_FLAGS)(decorated)
    option = click.option(
        "--config", metavar="FILE", envvar=CONFIG_VARIABLE, help="YAML file of settings; flags have precedence."
    )
    return cast("F", option(decorated))


def settings_options(command: F) -> F:
    """Do as source_options does, for a command that takes only ``settings``. Raise ConfigError for a wrong value."""

    @functools.wraps(command)
    def with_settings(*args: Any, source: SettingsSource, **kwargs: Any) -> Any:
        return command(*args, settings=source.load().settings, **kwargs)

    return cast("F", source_options(with_settings))


def _dashed(arg: str) -> str:
    """Replace underscores in the name of a flag, and the single dash of ``-v``: CA accepts both forms."""
    name, equals, value = arg.partition("=")
    if name == "-v":
        return f"-{arg}"
    return name.replace("_", "-") + equals + value if _UNDERSCORED.fullmatch(name) else arg


def _switch(arg: str) -> str:
    """Replace ``--flag=false`` by ``--no-flag``, which is click's form."""
    found = _ASSIGNED.fullmatch(arg)
    if found is None or found["flag"] not in _BOOLEANS:
        return arg
    try:
        return f"--{found['flag']}" if parse_bool(found["value"]) else f"--no-{found['flag']}"
    except ValueError as error:
        raise ConfigError(f"--{found['flag']}: {error}") from None


def _make_option(setting: Setting, *, hidden: bool) -> Callable[[F], F]:
    is_switch = setting.kind is SettingKind.BOOLEAN
    kind: dict[str, Any] = {"default": None} if is_switch else {"metavar": setting.metavar}
    return click.option(
        f"--{setting.flag}/--no-{setting.flag}" if is_switch else f"--{setting.flag}",
        cls=_SettingOption,
        setting=setting,
        multiple=setting.kind is SettingKind.LIST,
        expose_value=False,
        callback=_remember,
        hidden=hidden,
        **kind,
    )


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep values of the command line only. The environment is read elsewhere, with messages of its own."""
    if param.name is None or ctx.get_parameter_source(param.name) is not ParameterSource.COMMANDLINE:
        return
    flag = param.opts[0].removeprefix("--")
    ctx.meta.setdefault(_META, {})[flag] = str(value).lower() if isinstance(value, bool) else value
