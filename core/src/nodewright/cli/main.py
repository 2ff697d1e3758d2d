"""The command ``nodewright``: finds the subcommand, and turns every error into one sentence and an exit code.

Exit codes: 0 done, 1 a bug in nodewright, 2 bad input or a plugin that cannot be used, 130 interrupted,
141 the reader of our output went away. Single commands add their own; their help says so.
"""

import codecs
import errno
import io
import shlex
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

import click

from nodewright.cli.broken_pipe import ReaderGone, abandon_output
from nodewright.model.errors import InvariantError, NodewrightError, PluginNotFound, ProviderError
from nodewright.model.printable import printable, suggest

DONE, BUG, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 130, 141
_LONGEST_MESSAGE = 2000
_IN_ASCII = {"→": "->", "×": "x", "–": "-", "−": "-", "…": "..."}  # noqa: RUF001
_DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


# Each is ``command`` in a module of its name in cli/commands, which is imported only when it runs, for a fast start.
COMMANDS = {
    "demo": "Run a simulated cluster whose cloud runs out of machines.",
    "plan": "Show what would be done to the cluster in a kubectl dump.",
    "explain": "Say why a node is kept, a pod waits or a group does not grow.",
    "savings": "Show which nodes could go because their pods cost less elsewhere.",
    "run": "Run the daemon: scale the node groups of a live cluster.",
    "simulate": "Run a scenario or a trace on virtual time.",
    "record": "Record a cluster as a trace, which simulate runs again.",
    "sweep": "Simulate many settings, scenarios and seeds, and compare them.",
    "config": "Check a settings file, and show what it sets.",
    "status": "Show scale-ups in progress, backoffs, deletions and pauses.",
    "top": "Show in a terminal what the daemon does now.",
    "console": "Show any cluster, and what would be done to it, as a page on this machine.",
    "bundle": "Write what the daemon knows into a file for a report of a problem.",
    "pause": "Stop all writes to all clouds for a while.",
    "resume": "End a pause before its time.",
    "migrate": "Convert values of cluster-autoscaler's chart, or its Deployment, into ours.",
    "shadow": "Sum up a run beside a cluster-autoscaler.",
    "doctor": "Check permissions of the providers, and find other writers.",
    "provider": "Check whether a plugin keeps the provider contract.",
    "serve-externalgrpc": "Serve a provider to the Go cluster-autoscaler, over gRPC.",
    "providers": "List the installed provider plugins and their capabilities.",
}

# Commands that are defined in another command's module: the module, and the name there.
_BESIDE_ANOTHER = {"resume": ("pause", "resume")}

# The extra whose distribution offers the command as an entry point.
COMMANDS_OF_EXTRAS = {"demo": "simulator", "record": "sweep", "simulate": "simulator", "sweep": "simulator"}
COMMAND_ENTRY_POINTS = "nodewright.commands"


class Commands(click.Group):
    """Subcommands that are imported late."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in COMMANDS_OF_EXTRAS:
            return load_command_of_extra(cmd_name)
        module, name = _BESIDE_ANOTHER.get(cmd_name, (cmd_name.replace("-", "_"), "command"))
        command: click.Command = getattr(import_module(f"nodewright.cli.commands.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            known = suggest(args[0], COMMANDS) or f"; there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {printable(args[0])}{known}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def load_command_of_extra(name: str, group: str = COMMAND_ENTRY_POINTS) -> click.Command:
    """Return the command that an installed distribution offers as an entry point; raise PluginNotFound if none does."""
    for entry in import_module("importlib.metadata").entry_points(group=group, name=name):
        command: click.Command = entry.load()
        return command
    extra = COMMANDS_OF_EXTRAS[name]
    raise PluginNotFound(f'nodewright {name} is not installed: pip install "nodewright[{extra}]"')


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001 - click's signature
    if value and not ctx.resilient_parsing:
        click.echo(f"nodewright {_find_version()}")
        ctx.exit()


def _find_version() -> str:
    """Return the installed version; ``0+unknown`` for a source tree that is not installed."""
    metadata = import_module("importlib.metadata")
    try:
        return str(metadata.version("nodewright"))
    except metadata.PackageNotFoundError:
        return "0+unknown"


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Show the version."
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Scale the node groups of a Kubernetes cluster; every cloud is a plugin.

    Exit codes: 0 done, 1 a bug in nodewright, 2 bad input or a plugin that cannot be used.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Run the installed command. A character that the terminal's encoding lacks is written in ASCII."""
    codecs.register_error("nodewright", _write_in_ascii)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="nodewright")
    sys.exit(run(sys.argv[1:]))


def _write_in_ascii(error: UnicodeError) -> tuple[str, int]:
    """Return substitutes for characters that cannot be encoded, as an error handler of the codecs module."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_IN_ASCII.get(lacking, "?") for lacking in error.object[error.start : error.end]), error.end


def run(args: Sequence[str], command: click.Command = cli) -> int:
    """Run one command line and return its exit code."""
    debug = "--debug" in args
    try:
        code = command.main(args=list(args), prog_name="nodewright", standalone_mode=False)
        sys.stdout.flush()
    except (ReaderGone, BrokenPipeError):
        abandon_output()
        return BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        click.echo("nodewright: interrupted", err=True)
        return INTERRUPTED
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        return _refuse_usage(error)
    except Exception as error:  # noqa: BLE001 - every error ends in one sentence
        return _refuse(error, args, debug=debug)
    return code if isinstance(code, int) else DONE


def _refuse_usage(error: click.ClickException) -> int:
    context = getattr(error, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    _say(f"{error.format_message().rstrip('.')}{hint}")
    return BAD_INPUT


def _refuse(error: Exception, args: Sequence[str], *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error)
    if isinstance(error, NodewrightError) and not isinstance(error, InvariantError):
        whose = f"provider {error.provider}: " if isinstance(error, ProviderError) and error.provider else ""
        _say(f"{whose}{error}")
        return BAD_INPUT
    if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
        abandon_output()
        _say(f"cannot write {error.filename or 'the output'}: {error.strerror}")
        return BAD_INPUT
    again = "" if debug else f"; nodewright --debug {shlex.join(args)} shows where, please report it with that output"
    _say(f"a bug in nodewright: {type(error).__name__}: {error}{again}")
    return BUG


def _say(sentence: str) -> None:
    """Write one line to stderr; line breaks and control characters are escaped."""
    click.echo(f"nodewright: {printable(' '.join(sentence.split()), _LONGEST_MESSAGE)}", err=True)
