"""Sweep files: strict YAML that says which simulations belong to a sweep."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from nodewright.cli.settings.load import load_settings
from nodewright.model.errors import ConfigError
from nodewright.model.printable import suggest
from nodewright.model.settings_base import Help
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options
from nodewright_simulator.inputs import digest_files, hash_inputs
from nodewright_simulator.openb import RECORDED_SUFFIX, is_trace, trace_scenario
from nodewright_simulator.scenario import Scenario, Strict, TimeSpan
from nodewright_simulator.scenario_file import decode_span, load_scenario, read_flat_settings

MOST_RUNS = 100_000


class SweepScenario(Strict, frozen=True, kw_only=True):
    """A scenario or a trace of a sweep."""

    path: Annotated[str, Help("A scenario file, or a folder with a trace. Relative paths start at the sweep file.")]
    name: Annotated[str, Help("Its name in tables. Without it: the name of the file or folder.")] = ""
    ends_at: Annotated[TimeSpan | None, Help("The run ends at this time of the scenario.")] = None
    compression: Annotated[float, Meta(gt=0, le=1_000_000), Help("A trace is replayed this many times as fast.")] = 1.0
    all_at_once: Annotated[bool, Help("All pods of a trace come at the start.")] = False


class Sweep(Strict, frozen=True, kw_only=True):
    """Simulations to compare: every variant on every scenario with every seed."""

    name: Annotated[str, Help("The name of the sweep. Without it: the name of the file.")] = ""
    scenarios: Annotated[
        tuple[str | SweepScenario, ...],
        Help("Scenario files and folders with traces: a path, or a mapping with a path and more."),
    ]
    seeds: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | tuple[int, ...],
        Help("How many seeds, counted from the scenario's own, or a list of seeds. All variants run with the same."),
    ] = 1
    settings: Annotated[
        dict[str, Any], Help("Settings of all variants, by flag without dashes. They replace those of a scenario.")
    ] = {}
    variants: Annotated[
        dict[str, dict[str, Any]], Help("Further settings of each variant, by the variant's name.")
    ] = {}
    grid: Annotated[
        dict[str, tuple[Any, ...]],
        Help("Values of settings, by flag: each variant runs with each combination of them."),
    ] = {}
    baseline: Annotated[str, Help("The variant that others are compared with. Without it: the first one.")] = ""


class SweepRun(msgspec.Struct, frozen=True, kw_only=True):
    """One simulation. ``id`` is a hash of everything that its result depends on; ``settings`` are those that the sweep sets."""

    id: str
    variant: str
    scenario: str
    seed: int
    settings: dict[str, Any]
    inputs: Scenario


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a sweep: all seeds of the first scenario with the first variant, then with the next."""

    name: str
    runs: tuple[SweepRun, ...]
    variants: tuple[str, ...]
    scenarios: tuple[str, ...]
    baseline: str


def load_sweep(path: Path) -> SweepPlan:
    """Read a sweep file and everything that it names; raise ConfigError that names the file and the key."""
    source = str(path)
    try:
        documents = load_yaml(path.read_bytes(), source)
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read: {error.strerror or error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{source}: a sweep is one mapping of keys to values")
    sweep = decode_options(documents[0], Sweep, source, decode_span)
    if not sweep.scenarios:
        raise ConfigError(f"{source}: scenarios: at least one is needed")
    if sweep.seeds == ():
        raise ConfigError(f"{source}: seeds: at least one is needed")
    variants = list_variants(sweep, source)
    scenarios = _load_scenarios(sweep, path)
    baseline = sweep.baseline or next(iter(variants))
    if baseline not in variants:
        raise ConfigError(f"{source}: baseline: there is no variant {baseline}{suggest(baseline, variants)}")
    runs = list(itertools.islice(_make_runs(sweep, variants, scenarios, source), MOST_RUNS + 1))
    if len(runs) > MOST_RUNS:
        raise ConfigError(f"{source}: more than {MOST_RUNS:,} runs")
    return SweepPlan(
        name=sweep.name or path.stem,
        runs=tuple(runs),
        variants=tuple(variants),
        scenarios=tuple(scenarios),
        baseline=baseline,
    )


def list_variants(sweep: Sweep, source: str) -> dict[str, dict[str, Any]]:
    """Return the settings of each variant: every named one with every combination of the grid."""
    empty = next((flag for flag, values in sweep.grid.items() if not values), None)
    if empty is not None:
        raise ConfigError(f"{source}: grid: {empty} has no values")
    found: dict[str, dict[str, Any]] = {}
    for (name, own), values in itertools.product(
        (sweep.variants or {"": {}}).items(), itertools.product(*sweep.grid.values())
    ):
        chosen = dict(zip(sweep.grid, values, strict=True))
        both = next((flag for flag in chosen if flag in own), None)
        if both is not None:
            raise ConfigError(f"{source}: {both} is set by the variant {name} and by the grid")
        words = [name, *(f"{flag}={_in_words(value)}" for flag, value in chosen.items())]
        label = " ".join(word for word in words if word) or "settings of the scenario"
        found[label] = {**sweep.settings, **own, **chosen}
    return found


def _in_words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _load_scenarios(sweep: Sweep, path: Path) -> dict[str, Scenario]:
    found: dict[str, Scenario] = {}
    for given in sweep.scenarios:
        entry = SweepScenario(path=given) if isinstance(given, str) else given
        name = entry.name or Path(entry.path).stem
        if name in found:
            raise ConfigError(f"{path}: scenarios: two are called {name}: give one a name")
        found[name] = _load_scenario(entry, path)
    return found


def _load_scenario(entry: SweepScenario, path: Path) -> Scenario:
    place = path.parent / entry.path
    if place.is_dir() or place.suffix == RECORDED_SUFFIX:
        if not is_trace(place):
            raise ConfigError(f"{path}: scenarios: {entry.path}: a trace is a folder with nodes.csv and pods.csv")
        compression, at_once = entry.compression, entry.all_at_once
        scenario = trace_scenario(str(place.resolve()), compression=compression, all_at_once=at_once)
    else:
        if entry.compression != 1.0 or entry.all_at_once:
            raise ConfigError(f"{path}: scenarios: {entry.path}: compression and all_at_once are for traces")
        scenario = load_scenario(place)
        if scenario.trace is not None:  # as in simulate, from the current folder
            trace = scenario.trace
            given = {key: getattr(trace, key) for key in ("folder", "file", "mapping")}
            places = {key: str(Path(path).resolve()) for key, path in given.items() if path is not None}
            scenario = replace(scenario, trace=replace(trace, **places))
    if entry.ends_at is not None:
        scenario = replace(scenario, duration=TimeSpan(min(scenario.duration, entry.ends_at)))
    return scenario


def _make_runs(
    sweep: Sweep, variants: Mapping[str, dict[str, Any]], scenarios: Mapping[str, Scenario], source: str
) -> Iterator[SweepRun]:
    for name, scenario in scenarios.items():
        for variant, settings in variants.items():
            changed = replace(scenario, settings={**scenario.settings, **settings})
            _check_settings(changed, f"{source}: {variant}: {name}")
            files = digest_files(changed)
            for seed in _seeds(sweep, scenario):
                inputs = replace(changed, seed=seed)
                yield SweepRun(
                    id=hash_inputs(inputs, files),
                    variant=variant,
                    scenario=name,
                    seed=seed,
                    settings=settings,
                    inputs=inputs,
                )


def _seeds(sweep: Sweep, scenario: Scenario) -> Sequence[int]:
    if isinstance(sweep.seeds, int):
        return range(scenario.seed, scenario.seed + sweep.seeds)
    return tuple(dict.fromkeys(sweep.seeds))


def _check_settings(scenario: Scenario, where: str) -> None:
    load_settings({}, {}, json.dumps(scenario.settings), f"{where}: settings")
    read_flat_settings(scenario.settings, where)
