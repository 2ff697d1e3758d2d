"""The settings as click options."""

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from click.core import ParameterSource

from nodewright.cli.settings import CONFIG_VARIABLE, SETTINGS, SHORT_FORM, load_settings
from nodewright.cli.values import Kind, Setting, parse_bool, write_default
from nodewright.model.errors import ConfigError
from nodewright.model.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])
_META = "nodewright.flags"
_ASSIGNED = re.compile(r"--(?P<flag>[a-z0-9-]+)=(?P<value>.*)", re.DOTALL)
_BOOLEANS = frozenset(flag for flag, setting in SETTINGS.items() if setting.kind is Kind.BOOLEAN)


class SettingsCommand(click.Command):
    """A command whose boolean flags also take CA's form, ``--force-ds=true`` and ``--force-ds=false``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*(_switch(arg) for arg in args[:end]), *args[end:]])


def settings_options(command: F) -> F:
    """Give a function every settings flag and ``--config``; it gets them as one argument ``settings``.

    Use with ``@click.command(cls=SettingsCommand)``. A wrong value raises ConfigError.
    """

    @functools.wraps(command)
    def with_settings(*args: Any, config: str | None, **kwargs: Any) -> Any:
        flags = click.get_current_context().meta.get(_META, {})
        return command(*args, settings=read_settings(flags, config), **kwargs)

    decorated: Any = with_settings
    for setting in reversed([*SETTINGS.values(), *SHORT_FORM.values()]):
        decorated = _make_option(setting)(decorated)
    option = click.option(
        "--config", metavar="FILE", envvar=CONFIG_VARIABLE, help="YAML file of settings; flags are stronger."
    )
    return cast("F", option(decorated))


def read_settings(flags: dict[str, str | tuple[str, ...]], config: str | None) -> Settings:
    """Flags, this process's environment and the file ``config`` together."""
    if config is None:
        return load_settings(flags, os.environ)
    try:
        text = Path(config).read_bytes()
    except OSError as error:
        raise ConfigError(f"--config: {config}: {error.strerror}") from None
    return load_settings(flags, os.environ, text, config)


def _switch(arg: str) -> str:
    """``--flag=false`` as click knows it: ``--no-flag``."""
    found = _ASSIGNED.fullmatch(arg)
    if found is None or found["flag"] not in _BOOLEANS:
        return arg
    try:
        return f"--{found['flag']}" if parse_bool(found["value"]) else f"--no-{found['flag']}"
    except ValueError as error:
        raise ConfigError(f"--{found['flag']}: {error}") from None


def _make_option(setting: Setting) -> Callable[[F], F]:
    default = write_default(setting)
    help_text = f"Default: {default}." if default else None
    if setting.kind is Kind.BOOLEAN:
        return click.option(
            f"--{setting.flag}/--no-{setting.flag}",
            default=None,
            expose_value=False,
            callback=_remember,
            help=help_text,
        )
    return click.option(
        f"--{setting.flag}",
        metavar=setting.metavar,
        multiple=setting.kind is Kind.LIST,
        expose_value=False,
        callback=_remember,
        help=help_text,
    )


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Keep what the command line itself says; the environment is read elsewhere, with its own messages."""
    if param.name is None or ctx.get_parameter_source(param.name) is not ParameterSource.COMMANDLINE:
        return
    flag = param.opts[0].removeprefix("--")
    ctx.meta.setdefault(_META, {})[flag] = str(value).lower() if isinstance(value, bool) else value
