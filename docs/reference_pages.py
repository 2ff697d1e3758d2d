"""Pages of docs/reference: the options of each command, custom resources, types of the provider contract; and the chart's README."""

import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from nodewright import spec
from nodewright.cli.main import cli
from nodewright.cli.settings.known_flags import KNOWN
from nodewright.model.yaml_text import load_yaml

DEPLOY = Path(__file__).resolve().parents[1] / "deploy"
CRDS = DEPLOY / "crds"
_MADE = "This page is made from the sources: `make generate` writes it, and a test compares."

_CLI = f"""# Options of each command

{_MADE} [Commands](../commands.md) explains the commands, their
JSON and exit codes. Commands that plan also take every [setting](../settings.md) as a flag; those are not repeated here.
"""
_CONTRACT = f"""# Types of the contract

{_MADE} A plugin imports these names from `nodewright.spec`; the
signatures and texts below are read from the code when the site is built. [Provider hooks](../plugin-hooks.md) lists the hooks with
examples, and the [plugin guide](../plugin-guide.md) shows how they make a plugin.
"""
_CHART = f"""# nodewright

A Kubernetes node autoscaler whose clouds are plugins. {_MADE}

```
helm install nodewright deploy/chart -n kube-system -f my-values.yaml
```

`examples/` has four files to begin with. In nodewright's repository `deploy/README.md` tells of the image, rights and
upgrades, and `docs/migrating.md` of what differs from cluster-autoscaler's chart. Custom resources are not part of the chart: apply those of `deploy/crds/` that you use.

## Values

| key | type | default | description |
|---|---|---|---|
"""


def cli_page() -> str:
    return "\n".join([_CLI, *_commands(cli, "nodewright", click.Context(cli, info_name="nodewright"))])


def _commands(command: click.Command, path: str, context: click.Context) -> Iterator[str]:
    yield f"## {path}\n"
    yield f"```\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    yield f"{_text(command.help)}\n"
    rows = list(_options(command, context))
    if rows:
        yield "| option | value | default | what it does |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _commands(inner, f"{path} {name}", click.Context(inner, info_name=name, parent=context))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for option in command.params:
        names = [name for name in option.opts if name.startswith("-")]
        if isinstance(option, click.Option) and not {name.removeprefix("--") for name in names} & set(KNOWN):
            value = "" if option.is_flag else f"`{_cell(option.make_metavar(context))}`"
            default = f"`{option.default}`" if isinstance(option.default, str | float) and option.default != "" else ""
            shown = ", ".join(f"`{name}`" for name in names)
            yield f"| {shown} | {value} | {'' if option.is_flag else default} | {_cell(option.help or '')} |"


def crds_page() -> str:
    parts = [
        f"# Custom resources\n\n{_MADE}\nApply the definitions of `deploy/crds/` that you use; the chart does not install them.\n"
    ]
    for path in sorted(CRDS.glob("*.yaml")):
        definition = load_yaml(path.read_text(), path.name)[0]["spec"]
        for version in definition["versions"]:
            parts += _resource(definition, version)
    return "\n".join(parts)


def _resource(definition: dict[str, Any], version: dict[str, Any]) -> Iterator[str]:
    schema = version["schema"]["openAPIV3Schema"]
    names = definition["names"]
    yield f"## {names['kind']} {version['name']}\n"
    yield f"{_text(schema.get('description'))}\n" if schema.get("description") else ""
    also = f", short {', '.join(f'`{name}`' for name in names['shortNames'])}" if names.get("shortNames") else ""
    yield f"`{definition['group']}/{version['name']}`, {definition['scope'].lower()}, `kubectl get {names['plural']}`{also}.\n"
    yield "| field | type | what it is |\n|---|---|---|"
    rows = (row for name in ("spec", "status") for row in _fields(schema["properties"].get(name, {}), name, set()))
    yield "\n".join(rows) + "\n"


def _fields(schema: dict[str, Any], path: str, required: set[str]) -> Iterator[str]:
    """Yield a row for a field and for each field below it; a list shows the fields of its items."""
    items = schema.get("items", {})
    kind = f"list of {items.get('type', 'any')}" if schema.get("type") == "array" else schema.get("type", "any")
    allowed = f"one of {', '.join(f'`{json.dumps(one)}`' for one in schema['enum'])}" if "enum" in schema else ""
    needed = ", required" if path.rpartition(".")[2] in required else ""
    told = " ".join(filter(None, (_cell(schema.get("description", "")), allowed)))
    yield f"| `{path}` | {kind}{needed} | {told} |"
    inner, below = (items, f"{path}[]") if items else (schema, path)
    for name, field in inner.get("properties", {}).items():
        yield from _fields(field, f"{below}.{name}", set(inner.get("required", ())))


def chart_page() -> str:
    """Return the chart's README: its values with their defaults, described as in the schema."""
    values = load_yaml((DEPLOY / "chart/values.yaml").read_text(), "values.yaml")[0]
    schema = json.loads((DEPLOY / "chart/values.schema.json").read_text())
    return _CHART + "".join(f"{row}\n" for row in _values(values, schema, schema["definitions"], ""))


def _values(values: dict[str, Any], schema: dict[str, Any], known: dict[str, Any], path: str) -> Iterator[str]:
    for key, value in sorted(values.items()):
        found = schema["properties"][key]
        found = known[found["$ref"].rpartition("/")[2]] | found if "$ref" in found else found
        if isinstance(value, dict) and value and found.get("properties"):
            yield from _values(value, found, known, f"{path}{key}.")
        else:
            kinds = found.get("type", "any")
            kind = kinds if isinstance(kinds, str) else " or ".join(kinds)
            yield f"| `{path}{key}` | {kind} | `{json.dumps(value)}` | {_cell(found.get('description', ''))} |"


def contract_page() -> str:
    kinds: dict[str, list[str]] = {"Hooks": [], "Errors": [], "Values": [], "Functions": []}
    for name in spec.__all__:
        found = getattr(spec, name)
        module = getattr(found, "__module__", "")
        if module.startswith("nodewright.") and (inspect.isclass(found) or inspect.isfunction(found)):
            kinds[_kind(name, found)].append(f"{module}.{found.__qualname__}")
    directives = "\n".join(
        f"## {kind}\n\n" + "\n".join(f"::: {path}\n" for path in sorted(paths, key=lambda one: one.rpartition(".")[2]))
        for kind, paths in kinds.items()
        if paths
    )
    return f"{_CONTRACT}\n{directives}"


def _kind(name: str, found: Any) -> str:
    if inspect.isfunction(found):
        return "Functions"
    if issubclass(found, Exception):
        return "Errors"
    return "Hooks" if name.endswith("Hooks") else "Values"


def _text(text: str | None) -> str:
    r"""Return a help text as paragraphs: ``\b`` keeps lines in a terminal and means nothing here."""
    clean = inspect.cleandoc((text or "").replace("\b", ""))
    return re.sub(r"(?<!\n)\n(?!\n)", " ", clean).replace("<", "&lt;").strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
