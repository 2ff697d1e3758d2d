"""``nodewright provider``: ``check`` a plugin against the contract, ``replay`` a recording, make a ``new`` one."""

import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from shlex import quote

import click
import msgspec
from jinja2 import Environment, StrictUndefined

from nodewright.adapters.clocks import SystemClock, VirtualClock
from nodewright.adapters.provider import InlineRunner, ProviderClient, installed_providers
from nodewright.adapters.provider.calls import UnexpectedError
from nodewright.adapters.provider.replay import Replay, find_recordings, replay
from nodewright.cli.connect import Connector
from nodewright.cli.screen import count, make_console, make_table, name_some, output_option, safe, write_json
from nodewright.cli.settings.flags import SettingsSource
from nodewright.model.capability import Capability
from nodewright.model.errors import BadAnswer, ConfigError, ProviderError
from nodewright.model.printable import printable, suggest
from nodewright.model.settings import ProviderSettings
from nodewright.testkit.contract import (
    AGREE_SECONDS,
    CHECKS,
    ContractOutcome,
    ContractWorld,
    LeakedMachines,
    Level,
    LiveWorld,
    MemoryWorld,
    Promise,
    PromiseVerdict,
    Touch,
    Verdict,
    certify,
    reached,
    run_contract,
)

# Stands for the group if the plugin lists none that can be used.
_NO_GROUP = "unknown"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_RENDERED = ".jinja"
# What comes along with each new package, so that its author needs no checkout of nodewright.
_KIT = {"docs": "the guide for authors, and every hook by itself", "chart": "nodewright's chart for helm"}


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
    contract tests and a scenario with the whole engine; all of them pass at once. Beside it are the guide for authors (docs) and
    nodewright's chart (chart). The folder must be new or empty.

    Exit codes: 0 done; 2 bad input.
    """
    folder = folder or Path(f"nodewright-{name}")
    made = render(_answers(name, title))
    kit = {path: text for part in _KIT for path, text in _read_kit(part).items()}
    _write(folder, {**made, **kit})
    for path in made:
        click.echo(folder / path)
    for part, said in _KIT.items():
        click.echo(f"{folder / part}: {said}")
    click.echo(f"\nIts tests pass: cd {quote(str(folder))} && pip install -e '.[test]' && pytest")
    click.echo("Now put your cloud's SDK in the place of sdk.py; README.md says how to go on.")


def render(answers: Mapping[str, str]) -> dict[Path, str]:
    """Return the files of the package: path → text."""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)  # noqa: S701 - not HTML

    def fill(text: str) -> str:
        return environment.from_string(text).render(answers)

    found: dict[Path, str] = {}
    for path, text in _walk(files("nodewright.cli") / "provider_template", Path()):
        is_rendered = path.suffix == _RENDERED
        named = Path(fill(str(path.with_suffix("") if is_rendered else path)))
        found[named] = fill(text) if is_rendered else text
    return found


def _read_kit(part: str) -> dict[Path, str]:
    """Return the files of one folder that comes along with a new package: path → text."""
    return dict(_walk(files("nodewright.cli") / "provider_kit" / part, Path(part)))


def _walk(folder: Traversable, into: Path) -> Iterator[tuple[Path, str]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, into / entry.name)
        else:
            yield into / entry.name, entry.read_text(encoding="utf-8")


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


KEPT, LEFT_BEHIND, BROKEN = 0, 1, 4
# A machine is removed by hand by its whole id; a broken promise is explained at the end of its line.
_LONGEST_LINE = 2000
SCHEMA = 2
_STYLES = {Verdict.KEPT: "green", Verdict.PARTLY: "yellow", Verdict.BROKEN: "red", Verdict.SKIPPED: "dim"}


class Certificate(msgspec.Struct, frozen=True, kw_only=True):
    """The provider that was checked, its group, whether checks that write were allowed, and every promise.

    ``left_behind`` are the ids of machines that checks made and could not remove, ``target_off`` by how much the group's
    target differs from what it was, and ``unknown`` says why it is not known what is left. Empty and 0: nothing is.
    """

    schema: int
    provider: str
    distribution: str
    version: str
    group_id: str
    write: bool
    verdict: Verdict
    level: Level | None
    left_behind: tuple[str, ...] = ()
    target_off: int = 0
    unknown: str = ""
    promises: tuple[PromiseVerdict, ...]


@click.group("provider")
def command() -> None:
    """Work with one provider plugin.

    Exit codes: 0 done, 2 bad input; the help of each command lists further ones.
    """


command.add_command(new)


@command.command("check")
@click.argument("name", metavar="NAME")
@click.option("--settings", "file", metavar="FILE", required=True, help="YAML file of settings with providers.NAME.")
@click.option("--group", "wanted", metavar="GROUP", help="The node group to check. Default: the first one.")
@click.option(
    "--write",
    is_flag=True,
    help="Also run checks that write; they may add two machines to GROUP and remove them again.",
)
@click.option(
    "--agree",
    type=click.FloatRange(0, 600),
    default=AGREE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="With --write: how long two instances must agree, after each check, that nothing is left of it.",
)
@output_option
def check(name: str, file: str, wanted: str | None, write: bool, agree: float, output: str) -> int:
    """Run the contract suite against a configured provider, and print which promises of the contract it keeps.

    The suite only reads, unless --write is given. Even then it deletes no machine that existed before: checks that need
    that belong to the plugin's own tests and are listed as skipped. First it prints to stderr what it will do. After each check
    that wrote it waits until two instances of the plugin agree that nothing is left of it, and lists by id what is.

    Exit codes: 0 no promise is broken; 1 something that was made could not be removed; 4 a promise is broken; 2 bad input, or
    the cloud cannot be read.
    """
    settings = _find_settings(name, file)
    client = Connector(clock=SystemClock(), dry_run=not write).connect(name, settings)
    group_id = _choose_group(client, wanted, file, write=write)
    click.echo(announce(client, group_id, write=write), err=True)
    worlds = _Worlds(client, settings, group_id, write=write, agree_seconds=agree)
    with _end_as_ctrl_c():
        try:
            made = _certify(worlds)
        finally:
            for line in _tell_left_behind(worlds):
                click.echo(line, err=True)
    if output == "json":
        write_json(msgspec.to_builtins(made))
    else:
        _print(made)
    if worlds.leaked:
        return LEFT_BEHIND
    return BROKEN if made.verdict == Verdict.BROKEN else KEPT


@contextmanager
def _end_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the checks as Ctrl-C does, so that machines that are left behind are listed."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


@command.command("replay")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@output_option
def replay_command(folder: Path, output: str) -> int:
    """Run recordings of NODEWRIGHT_RECORD again, and print what differs.

    DIR holds a recording or several. The installed provider gets the recorded answers of the cloud's API, and no request is
    sent. What it asks and what it answers is compared with the recording, at the recorded times.

    Exit codes: 0 nothing differs; 4 something differs; 2 bad input.
    """
    found = [replay(recording) for recording in find_recordings(folder)]
    if output == "json":
        write_json({"schema": 1, "replays": msgspec.to_builtins(found)})
    else:
        for one in found:
            _print_replay(one)
    return BROKEN if any(one.differences for one in found) else KEPT


def _print_replay(one: Replay) -> None:
    console = make_console()
    for difference in one.differences:
        console.print(safe(f"{difference.file or 'whole'}: {difference.what}"), soft_wrap=True)
        for label, text in (("recorded", difference.recorded), ("now", difference.now)):
            if text:
                console.print(safe(f"  {label}: {text}"), soft_wrap=True)
    said = f"{one.recording}: {one.provider}, recorded with {one.recorded_with or 'an unknown version'}:"
    compared = f"{count(one.calls, 'call')} and {count(one.exchanges, 'exchange')}"
    ending = f"{count(len(one.differences), 'difference')}." if one.differences else "nothing differs."
    console.print(safe(f"{said} {compared} replayed, {ending}"), soft_wrap=True)


def announce(client: ProviderClient, group_id: str, *, write: bool) -> str:
    """Return what the checks will do to the cloud."""
    able = [one for one in CHECKS if one.capability is None or one.capability in client.info.capabilities]
    does = Counter(one.touches for one in able)
    said = f"Checking provider {client.name} on group {printable(group_id)}: {count(does[Touch.READS], 'check')} that read."
    in_memory = Capability.SIMULATION in client.info.capabilities
    if not write:
        more = len(able) - does[Touch.READS] if in_memory else does[Touch.REFUSED] + does[Touch.RESIZES]
        return f"{said} Nothing is written; --write adds {more} checks that write."
    if in_memory:
        return f"{said} All others run too, each in a cloud in memory of its own."
    return (
        f"{said} {does[Touch.REFUSED]} {Touch.REFUSED.value}. {does[Touch.RESIZES]} {Touch.RESIZES.value} each, and take"
        " them back: some may start, and cost money, for minutes. No machine that is there now is ended."
    )


class _Worlds:
    """Make the world of each check: a live cloud is shared by all, a cloud in memory is made again for each."""

    def __init__(
        self, client: ProviderClient, settings: ProviderSettings, group_id: str, *, write: bool, agree_seconds: float
    ) -> None:
        self.client, self.group_id, self.write = client, group_id, write
        self._settings = settings
        self._clock = SystemClock()
        self._other: ProviderClient | None = None
        self.leaked = LeakedMachines(agree_seconds)

    def __call__(self) -> ContractWorld:
        if Capability.SIMULATION in self.client.info.capabilities:
            return self._in_memory()
        if self._other is None:
            self._other = Connector(clock=self._clock, dry_run=not self.write).connect(self.client.name, self._settings)
        return LiveWorld(
            self.client,
            self._other,
            self.group_id,
            clock=self._clock,
            may_write=self.write,
            leaked=self.leaked,
        )

    def _in_memory(self) -> ContractWorld:
        clock = VirtualClock()
        connector = Connector(clock=clock, dry_run=not self.write, make_runner=lambda: InlineRunner(clock))
        client = connector.connect(self.client.name, self._settings)
        return MemoryWorld(client, self.group_id, clock=clock, may_write=self.write)


def _certify(worlds: _Worlds) -> Certificate:
    promises = certify(run_contract(worlds))
    [plugin] = [found for found in installed_providers() if found.name == worlds.client.name]
    return Certificate(
        schema=SCHEMA,
        provider=worlds.client.name,
        distribution=plugin.distribution,
        version=plugin.version,
        group_id=worlds.group_id,
        write=worlds.write,
        verdict=_sum_up(promises),
        level=reached(promises),
        left_behind=tuple(sorted(worlds.leaked.ids)),
        target_off=worlds.leaked.target_off,
        unknown=worlds.leaked.unknown,
        promises=promises,
    )


def _sum_up(promises: Sequence[PromiseVerdict]) -> Verdict:
    """Return the verdict on the whole: kept only if every check that applies passed."""
    found = {promise.verdict for promise in promises if promise.applying}
    if Verdict.BROKEN in found:
        return Verdict.BROKEN
    return Verdict.KEPT if found == {Verdict.KEPT} else Verdict.PARTLY


def _tell_left_behind(worlds: _Worlds) -> list[str]:
    """Return what an operator must remove or set back by hand."""
    left, group_id = worlds.leaked, printable(worlds.group_id)
    lines = [
        f"left behind in {group_id}, remove it by hand: {printable(one, _LONGEST_LINE)}" for one in sorted(left.ids)
    ]
    if left.unknown:
        lines.append(f"it is not known what is left in {group_id}, check by hand: {printable(left.unknown)}")
    if left.target_off:
        lines.append(f"the target of {group_id} differs by {left.target_off:+d} from what it was: set it back by hand")
    return lines


def _find_settings(name: str, file: str) -> ProviderSettings:
    providers = SettingsSource({}, file, "--settings").load().settings.providers
    if name in providers:
        return providers[name]
    installed = sorted({found.name for found in installed_providers()})
    if name not in installed:
        known = suggest(name, installed) or f"; there are {', '.join(installed) or 'none'}"
        raise ConfigError(f"no installed package offers a provider {printable(name)}{known}")
    has = f"; it has {', '.join(providers)}" if providers else ""
    raise ConfigError(f"{file}: providers has no entry {name}{has}")


def _choose_group(client: ProviderClient, wanted: str | None, file: str, *, write: bool) -> str:
    """Return the id of the group to check. A plugin that breaks the contract here is left to the checks."""
    try:
        client.refresh()
    except ProviderError as error:
        if not _is_a_defect(error):
            raise
    try:
        names = [listed.id for listed in client.node_groups()]
    except ProviderError as error:
        if not _is_a_defect(error):
            raise
        return wanted or _NO_GROUP
    if not names:
        raise ConfigError(f"{file}: providers.{client.name} finds no node group to check")
    if wanted is not None and wanted not in names:
        known = suggest(wanted, names) or f"; there are {name_some(names)}"
        raise ConfigError(f"--group: provider {client.name} has no group {printable(wanted)}{known}")
    if wanted is None and write and len(names) > 1:
        raise ConfigError(f"--write: say with --group which of {name_some(names)} may be resized")
    return wanted or names[0]


def _is_a_defect(error: ProviderError) -> bool:
    """Return whether the plugin is to blame, and neither the cloud nor the settings."""
    return isinstance(error, BadAnswer) or error.code == UnexpectedError.code


def _print(made: Certificate) -> None:
    console = make_console()
    title = f"Provider {made.provider} ({made.distribution} {made.version}), group {made.group_id}"
    table = make_table(title, "promise", "level", "verdict", "checks", right=("checks",))
    for promise in made.promises:
        absent = "cannot happen here" if any(not one.possible for one in promise.checks) else "does not apply"
        said = promise.verdict.value if promise.applying else absent
        verdict = safe(said, _STYLES[promise.verdict])
        level = safe(Promise[promise.promise.upper()].level.value)
        checks = safe(f"{promise.count(ContractOutcome.PASSED)} of {promise.applying}")
        table.add_row(safe(promise.sentence), level, verdict, checks)
    console.print(table)
    for line in _explain(made.promises):
        console.print(safe(line, limit=_LONGEST_LINE), soft_wrap=True)
    reaches = (
        f"the level {made.level.value}"
        if made.level is not None
        else "no level: the plugin's own tests make the checks that were skipped here"
    )
    console.print(safe(f"The certificate reaches {reaches}."), soft_wrap=True)


def _explain(promises: Sequence[PromiseVerdict]) -> list[str]:
    """Return a line per failure, a line per reason for skipping, and the verdict."""
    results = [result for promise in promises for result in promise.checks]
    failed = [result for result in results if result.outcome == ContractOutcome.FAILED]
    skipped = Counter(one.reason for one in results if one.outcome == ContractOutcome.SKIPPED and one.possible)
    impossible = Counter(one.reason for one in results if not one.possible)
    lines = [f"broken: {one.check}: {one.demand} But {one.reason}" for one in failed]
    lines += [f"skipped {count(number, 'check')}: {reason}" for reason, number in skipped.most_common()]
    lines += [f"impossible here, {count(number, 'check')}: {reason}" for reason, number in impossible.most_common()]
    passed = len(results) - len(failed) - skipped.total() - impossible.total()
    ending = f"{count(len(failed), 'check')} failed." if failed else "Nothing is broken."
    return [*lines, f"{passed} of {count(len(results), 'check')} passed. {ending}"]
