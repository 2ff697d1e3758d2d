"""``nodewright bundle``: what the daemon knows, in one file for a report of a problem."""

import os
import stat
import sys
from pathlib import Path

import click

from nodewright.cli.debug_client import debug_address_option, fetch_page
from nodewright.model.errors import ConfigError


@click.command("bundle")
@click.argument("file", metavar="[FILE]", default="nodewright-bundle.tar.gz")
@debug_address_option
def command(file: str, debug_address: str) -> None:
    """Write into FILE what the daemon knows: the cluster, settings, status, last decisions, metrics and the end of the log.

    Secrets are left out: those of providers' options, and the variables of containers. Names and labels are in it, so
    look at it before you give it away. nodewright plan FILE and nodewright explain KIND NAME FILE read it back, without
    the cluster and its clouds. - writes it to stdout.

    Exit codes: 0 written; 2 no daemon answers, or FILE cannot be written.
    """
    if not file:
        raise ConfigError("FILE is empty: name a file, or - for stdout")
    if not debug_address:
        raise ConfigError("--debug-address: is empty: give the address of a daemon")
    content = fetch_page(debug_address, "/bundle", {})
    if content is None:
        raise ConfigError(f"--debug-address: no process listens at {debug_address}; run it in the pod: kubectl exec")
    if file == "-":
        sys.stdout.buffer.write(content)
        return
    try:
        _write_private(Path(file), content)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    click.echo(f"{file}: {len(content) // 1024 + 1} KiB; nodewright plan {file} reads it.")


def _write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, even if it existed before."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
        file.write(content)
