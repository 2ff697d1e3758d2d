"""Write what is made from the sources: settings.md, differences.md, plugin-hooks.md, reference/, JSON Schemas, the chart's schema of settings.

``python docs/generate.py`` writes all of them (``make generate``); a test compares.
"""

import json
import posixpath
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import differences
import figures
import hooks
import reference_pages
from object_keys import OBJECT_KEYS, ObjectKey
from schemas import chart_schema, disruption_schema, prices_schema, scenario_schema, settings_schema, sweep_schema

from nodewright.cli.daemon.reload import is_safe
from nodewright.cli.settings.checks import NEEDS, NOT_OF_CA
from nodewright.cli.settings.known_flags import (
    CA_FLAGS,
    PREFIX,
    PROVIDER_FIELDS,
    SECTIONS,
    SETTINGS,
    SHORT_FORM,
    CaFlag,
)
from nodewright.cli.settings.values import Setting, list_settings, write_value
from nodewright.model.group import GroupOptions
from nodewright.model.settings import Settings, default_options
from nodewright.model.settings_base import SAME, Help
from nodewright.spec.group_options import OPTION_NAMES

ROOT = Path(__file__).resolve().parents[1]
_WIDTH = 120
KIT = ROOT / "core/src/nodewright/cli/provider_kit/docs"
CHART = ROOT / "deploy/chart/values.schema.json"
# What an author of a provider uses without a checkout.
_AUTHORS_COMMANDS = ("simulate", "provider new", "provider check")
_COMMANDS_HEAD = "# Commands\n\nThose for authors of a provider. All: `docs/commands.md` in nodewright's repository.\n"
_EXAMPLE = "scenarios/stock-out-detected.yaml"
_COME_ALONG = frozenset(
    f"docs/{page}"
    for page in (
        "plugin-guide.md",
        "plugin-hooks.md",
        "commands.md",
        "scenarios/README.md",
        "schemas/scenario.schema.json",
        _EXAMPLE,
    )
)

_HEAD = """# Settings

This page is made from the sources: `make generate` writes it, and a test compares.

A setting is given as a flag (`--scan-interval=20s`), as a variable (`NODEWRIGHT_SCAN_INTERVAL=20s`) or in the YAML file that
`--config` names. A flag is stronger than a variable, and a variable stronger than the file. In the file a setting stands in its
section or at the top:

```yaml
# yaml-language-server: $schema=docs/schemas/settings.schema.json
scale-down:
  scale-down-unneeded-time: 5m
expander: price
providers:
  aws:
    nodes: ["1:10:workers"]
```

[`schemas/settings.schema.json`](schemas/settings.schema.json) tells an editor every key with its description: the comment in
the first line names a path or an address of it. `nodewright config check FILE` checks a file. The daemon reads it again before each loop: what
*takes effect at once* needs no restart.

Forms of values: DURATION is a number with a unit (`10s`, `1h30m`), LIST is separated by commas or blanks, or a flag that is
repeated. A switch is `--force-ds`, `--force-ds=true` or `--no-force-ds`.

On this page: SECTIONS.
"""


def main() -> None:
    for path, text in pages().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def pages() -> dict[Path, str]:
    """Return every generated file with its text."""
    docs = ROOT / "docs"
    return {
        docs / "settings.md": settings_page(),
        docs / "plugin-hooks.md": hooks.page(),
        KIT / "plugin-hooks.md": hooks.page(),
        KIT / "schemas/scenario.schema.json": _json(scenario_schema()),
        docs / "differences.md": differences.page(),
        docs / "reference/cli.md": reference_pages.cli_page(),
        docs / "reference/contract.md": reference_pages.contract_page(),
        docs / "reference/crds.md": reference_pages.crds_page(),
        docs / "reference/figures.md": figures.page(),
        docs / "schemas/settings.schema.json": _json(settings_schema()),
        docs / "schemas/scenario.schema.json": _json(scenario_schema()),
        docs / "schemas/sweep.schema.json": _json(sweep_schema()),
        docs / "schemas/prices.schema.json": _json(prices_schema()),
        docs / "schemas/disruption.schema.json": _json(disruption_schema()),
        CHART.parent / "README.md": reference_pages.chart_page(),
        CHART: _json(chart_schema(json.loads(CHART.read_text()))),
    } | _kit_pages(docs)


def _kit_pages(docs: Path) -> dict[Path, str]:
    """Return the pages for authors that are written by hand; ``nodewright provider new`` copies them out of the wheel."""
    commands = (docs / "commands.md").read_text().split("\n## ")
    wanted = [part for part in commands if part.partition("\n")[0] in _AUTHORS_COMMANDS]
    return {
        KIT / "plugin-guide.md": _without_repository((docs / "plugin-guide.md").read_text(), "docs"),
        KIT / "commands.md": _without_repository("\n## ".join([_COMMANDS_HEAD, *wanted]).strip() + "\n", "docs"),
        KIT / "scenarios/README.md": _without_repository((docs / "scenarios/README.md").read_text(), "docs/scenarios"),
        KIT / _EXAMPLE: (docs / _EXAMPLE).read_text(),
    }


def _without_repository(text: str, folder: str) -> str:
    """Return a page of docs for a reader without the repository: a link to a page that does not come along becomes text.

    The tree names no host; at a release deploy/hosted.py makes links of these.
    """
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}

    def told(match: re.Match[str]) -> str:
        shown, target = match.groups()
        if target.startswith("#"):
            return match[0] if target[1:] in anchors else shown
        path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
        if ":" in target or path in _COME_ALONG:
            return match[0]
        return f"{'' if shown == f'`{path}`' else f'{shown}: '}`{path}` in nodewright's repository"

    return re.sub(r"\[([^\]\[]+)\]\(([^)\s]+)\)", told, text)


def settings_page() -> str:
    titles = [
        *SECTIONS,
        "one provider",
        "options of node groups",
        "annotations, labels and taints",
        "flags without effect",
    ]
    links = ", ".join(f"[{title}](#{title.replace(',', '').replace(' ', '-')})" for title in titles)
    parts = [_HEAD.replace("SECTIONS", links)]
    for key, field in SECTIONS.items():
        parts.append(f"## {key}\n\n{_plain(field.type.__doc__)}\n")
        parts += [_entry(setting) for setting in SETTINGS.values() if setting.section == field.name]
    parts.append(
        "## one provider\n\nEach entry of `providers:` in the file, by the name of the plugin. Flags are the short form of one.\n"
    )
    parts.append(_entry(SHORT_FORM["cloud-provider"]))
    parts += [_entry(setting, is_flag=setting.flag in SHORT_FORM) for setting in PROVIDER_FIELDS.values()]
    parts += [_group_options(), _object_keys(), _ca_flags()]
    return "\n".join(parts)


def _entry(setting: Setting, *, is_flag: bool = True) -> str:
    """Return a setting under its own heading, so that links can point to it."""
    told = setting.help
    rows = [f"Default: {_default(setting)}."]
    rows.append(f"Form: `{setting.metavar}`." + (f" Variable: `{_variable(setting.flag)}`." if is_flag else ""))
    if told.raised:
        rows.append(f"Raised: {told.raised[0].lower()}{told.raised[1:]}")
    rows += [*_conditions(setting.flag), f"cluster-autoscaler: {_ca_name(told)}."]
    if setting.flag in SETTINGS:
        rows.append("Takes effect at once." if is_safe(setting) else "Takes effect at a restart.")
    facts = "\n".join(f"- {row}" for row in rows)
    return f"### {setting.flag}\n\n{_linked(told.text)}\n\n{facts}\n"


def _default(setting: Setting) -> str:
    unit = f" ({setting.help.unit})" if setting.help.unit else ""
    shown = write_value(setting, setting.default)
    return f"`{shown}`{unit}" if shown else "empty"


def _conditions(flag: str) -> Iterator[str]:
    if flag in NOT_OF_CA:
        yield "No effect with `--profile=ca`."
    if flag in NEEDS:
        other, wanted = NEEDS[flag]
        yield f"No effect without `--{other}`." if wanted is True else f"No effect without `--{other}={wanted}`."


def _ca_name(told: Help) -> str:
    if not told.ca:
        return "has no such flag"
    return "the same flag" if told.ca == SAME else f"`--{told.ca}`"


def _variable(flag: str) -> str:
    return PREFIX + flag.upper().replace("-", "_")


def _linked(text: str) -> str:
    """Return a text in lines, with links to the flags and pages that it names."""
    words = " ".join(_link(word) for word in text.split(" "))
    return textwrap.fill(words, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _link(word: str) -> str:
    bare = word.strip(".,;:()")
    flag = bare.removeprefix("--").partition("=")[0]
    if bare.startswith("--") and flag in SETTINGS | SHORT_FORM:
        return word.replace(bare, f"[`{bare}`](#{flag})")
    if bare.startswith("docs/"):
        return word.replace(bare, f"[{bare.removeprefix('docs/')}]({bare.removeprefix('docs/')})")
    return word


def _plain(docstring: str | None) -> str:
    return _linked(" ".join((docstring or "").split()))


def _group_options() -> str:
    defaults = default_options(Settings())
    rows = []
    for option in list_settings("", GroupOptions):
        names = [f"`{name}`" for name, field in OPTION_NAMES.items() if field == option.field]
        flags = [f"[`--{flag}`](#{flag})" for flag in _default_flags(option.field)]
        value = write_value(option, getattr(defaults, option.field))
        rows.append(
            f"| `{option.field}` | {', '.join(names)} | {', '.join(flags) or f'`{value}`'} | {option.help.text} |"
        )
    return (
        """## options of node groups

A provider may set these for a single node group; what it leaves out is as the flag says. The tag is the name behind
`k8s.io/cluster-autoscaler/node-template/autoscaling-options/` of an AWS tag, as in cluster-autoscaler; how other clouds name them is in the
documentation of their plugins (plugins/NAME/README.md). Times in a tag are durations such as `10m`.

| option | tag | default | what it does |
|---|---|---|---|
"""
        + "\n".join(rows)
        + "\n"
    )


def _default_flags(field: str) -> list[str]:
    """Return the flag that says an option's default: the one that changes it."""
    bare = field.replace("_seconds", "_time")
    return [flag for flag, setting in SETTINGS.items() if setting.field in (bare, field)]


def _object_keys() -> str:
    text = """## annotations, labels and taints

What nodewright reads from objects of the cluster, or writes on them. Keys of tags and labels that one cloud's plugin reads are in
plugins/NAME/README.md. Labels and annotations that kube-scheduler follows (zones, hostnames, volumes) mean here what they mean there.
"""
    for on in dict.fromkeys(key.on for key in OBJECT_KEYS):
        text += f"\n### on {on}\n\n| key | values | what it does | cluster-autoscaler |\n|---|---|---|---|\n"
        text += "".join(_key_row(key) for key in OBJECT_KEYS if key.on == on)
    return text


def _key_row(key: ObjectKey) -> str:
    return f"| {key.kind} `{key.key}` | {key.values} | {key.what} | {key.ca} |\n"


def _ca_flags() -> str:
    rows = "".join(f"| `--{flag.flag}` | {_ca_default(flag)} | {flag.why} |\n" for flag in CA_FLAGS.values())
    return f"""## flags without effect

Further flags of cluster-autoscaler. They are taken, so that a command line can stay as it is. One that *has no effect* takes any
value; `nodewright config check` and the log say so. Each of the others takes its default only.

| flag | default | |
|---|---|---|
{rows}"""


def _ca_default(flag: CaFlag) -> str:
    shown = write_value(flag.setting, flag.default)
    return f"`{shown}`" if shown else "empty"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    main()
