"""``nodewright provider new``: make the package of a new provider plugin, whose tests pass at once."""

import re
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import quote

import click
from jinja2 import Environment, StrictUndefined

from nodewright.adapters.provider import installed_providers
from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_RENDERED = ".jinja"


@click.command("new")
@click.argument("name", metavar="NAME")
@click.option(
    "--title", metavar="TEXT", help='The cloud\'s name in sentences. Default: made of NAME, such as "Acme Cloud".'
)
@click.option(
    "--folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where to put the package. Default: nodewright-NAME in the current directory.",
)
def new(name: str, title: str | None, folder: Path | None) -> None:
    """Make the package of a provider plugin for a new cloud.

    NAME is the provider's name, as in --cloud-provider. The package holds a provider for a made-up cloud in memory, its
    contract tests and a play of the whole engine; all of them pass at once. The folder must be new or empty.

    Exit codes: 0 done; 2 bad input.
    """
    folder = folder or Path(f"nodewright-{name}")
    made = render(_answers(name, title))
    _write(folder, made)
    for path in made:
        click.echo(folder / path)
    click.echo(f"\nIts tests pass: cd {quote(str(folder))} && pip install -e '.[test]' && pytest")
    click.echo("Now put your cloud's SDK in the place of sdk.py; README.md says how to go on.")


def render(answers: Mapping[str, str]) -> dict[Path, str]:
    """Return the files of the package: path → text."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - not HTML

    def fill(text: str) -> str:
        return environment.from_string(text).render(answers)

    found: dict[Path, str] = {}

    def walk(folder: Traversable, into: Path) -> None:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                walk(entry, into / fill(entry.name))
            else:
                text = entry.read_text(encoding="utf-8")
                path = into / fill(entry.name.removesuffix(_RENDERED))
                found[path] = fill(text) if entry.name.endswith(_RENDERED) else text

    walk(files("nodewright.cli") / "provider_template", Path())
    return found


def _answers(name: str, title: str | None) -> Mapping[str, str]:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"NAME: {printable(name)} must be lower case letters, digits and dashes, and begin with a letter"
        )
    taken = next((found.distribution for found in installed_providers() if found.name == name), None)
    if taken is not None:
        raise ConfigError(f"NAME: the package {taken} offers a provider {name} already")
    words = name.replace("-", " ").title()
    title = f"{words} Cloud" if title is None else title.strip()
    if not title or '"' in title or "\\" in title or not title.isprintable():
        raise ConfigError(f"--title: {printable(title)} must be one line of text without double quotes and backslashes")
    return {"name": name, "title": title, "module": name.replace("-", "_"), "class_name": words.replace(" ", "")}


def _write(folder: Path, made: Mapping[Path, str]) -> None:
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ConfigError(f"--folder: {folder} is not empty")
        for path, text in made.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--folder: {folder} cannot be written: {error.strerror or error}") from error
