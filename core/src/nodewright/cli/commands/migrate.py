"""``nodewright migrate``: values of our chart from those of cluster-autoscaler."""

import sys
from pathlib import Path

import click

from nodewright.cli.screen import count, output_option, write_json
from nodewright.model.errors import ConfigError

SCHEMA = 1
_NOT_ALL = 3


@click.command("migrate")
@click.argument("file", metavar="FILE")
@output_option
def command(file: str, output: str) -> int:
    """Convert values of cluster-autoscaler's chart, or its Deployment, into values of nodewright's chart, on stdout.

    FILE is YAML: what helm get values prints, or kubectl get deployment -o yaml; - reads it from stdin. A comment names
    each thing that is not taken over, and why. Secrets are not copied, nor the image: it is cluster-autoscaler's.

    Exit codes: 0 everything was taken over; 3 something was not; 2 bad input.
    """
    from nodewright.cli.migration import migrate
    from nodewright.model.yaml_text import load_yaml

    found = migrate(load_yaml(_read(file), file), "stdin" if file == "-" else file)
    if output == "json":
        write_json({"schema": SCHEMA, "values": found.values, "notes": list(found.notes)})
    else:
        import yaml

        for note in found.notes:
            click.echo(f"# Not taken over: {note}{'' if note.endswith('?') else '.'}")
        click.echo(yaml.safe_dump(found.values, sort_keys=False, allow_unicode=True), nl=False)
        if found.notes:
            click.echo(f"{count(len(found.notes), 'thing')} not taken over: see the comments.", err=True)
    return _NOT_ALL if found.notes else 0


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
