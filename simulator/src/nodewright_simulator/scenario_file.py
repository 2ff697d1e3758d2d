"""Read and check scenario files, which are strict YAML."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable, suggest
from nodewright.model.quantity import Quantity
from nodewright.model.settings import Settings
from nodewright.model.settings_base import Section
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options
from nodewright_simulator.scenario import (
    BudgetSpec,
    PodShape,
    Scale,
    Scenario,
    SpareSpec,
    TimeSpan,
    TraceSpec,
    Workload,
    amounts_of,
)

_MAX_SECONDS = 100 * 365 * 86_400.0


def load_scenario(path: Path) -> Scenario:
    """Load the scenario in a file; raise ConfigError that names the file and the key."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    return read_scenario(text, str(path))


def read_scenario(text: bytes | str, source: str) -> Scenario:
    """Do as ``load_scenario`` does, from the text itself; ``source`` names it in messages."""
    documents = load_yaml(text, source)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{source}: a scenario is one mapping of keys to values")
    return check_scenario(decode_options(documents[0], Scenario, source, decode_span), source)


def check_scenario(scenario: Scenario, source: str) -> Scenario:
    """Return the same scenario if it makes sense; raise ConfigError otherwise."""
    if not scenario.providers:
        raise ConfigError(f"{source}: providers: at least one is needed")
    workloads: tuple[Workload, ...] = (*scenario.deployments, *scenario.jobs, *scenario.daemon_sets)
    names = [workload.name for workload in workloads]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{source}: two workloads are called {twice}")
    deployments = [deployment.name for deployment in scenario.deployments]
    for happening in scenario.timeline:
        if isinstance(happening, Scale) and happening.deployment not in deployments:
            unknown = printable(happening.deployment)
            hint = suggest(unknown, deployments)
            raise ConfigError(f"{source}: timeline: no deployment is called {unknown}{hint}")
    for workload in workloads:
        _check_amounts(workload.pod, f"{source}: {workload.name}")
    _check_capacity(scenario, deployments, source)
    if scenario.engine_pod is not None:
        _check_amounts(scenario.engine_pod, f"{source}: engine_pod")
    if scenario.trace is not None:
        _check_trace(scenario.trace, f"{source}: trace")
    for budget in scenario.disruption_budgets:
        _check_budget(budget, names, f"{source}: disruption_budgets: {budget.name}")
    return scenario


def _check_capacity(scenario: Scenario, deployments: Sequence[str], source: str) -> None:
    for request in scenario.provisioning_requests:
        for pod_set in request.pod_sets:
            _check_amounts(pod_set.pod, f"{source}: provisioning_requests: {request.name}")
    for spare in scenario.capacity_buffers:
        _check_spare(spare, deployments, f"{source}: capacity_buffers: {spare.name}")


def _check_spare(spare: SpareSpec, deployments: Sequence[str], where: str) -> None:
    if (spare.pod is None) == (spare.deployment is None):
        raise ConfigError(f"{where}: one of pod and deployment is needed, and not both")
    if spare.pod is not None:
        _check_amounts(spare.pod, where)
    elif spare.deployment not in deployments:
        unknown = printable(spare.deployment or "")
        raise ConfigError(f"{where}: no deployment is called {unknown}{suggest(unknown, deployments)}")


def _check_trace(spec: TraceSpec, where: str) -> None:
    if spec.folder is not None and spec.file is not None:
        raise ConfigError(f"{where}: folder and file: give one of them, not both")
    if spec.mapping is not None and spec.file is None:
        raise ConfigError(f"{where}: mapping: needs file")


def _check_budget(budget: BudgetSpec, workloads: Sequence[str], where: str) -> None:
    if (budget.min_available is None) == (budget.max_unavailable is None):
        raise ConfigError(f"{where}: one of min_available and max_unavailable is needed, and not both")
    if (budget.workload is None) == (not budget.labels):
        raise ConfigError(f"{where}: either workload or labels must say which pods it is for")
    if budget.workload is not None and budget.workload not in workloads:
        raise ConfigError(f"{where}: no workload is called {budget.workload}{suggest(budget.workload, workloads)}")


def _check_amounts(pod: PodShape, where: str) -> None:
    for resource, amount in amounts_of(pod).items():
        try:
            Quantity.of(amount)
        except ValueError as error:
            raise ConfigError(f"{where}: {printable(resource)}: {error}") from error


def decode_span(kind: type, raw: Any) -> Any:
    """Decode ``TimeSpan``, as msgspec's hook; raise ValueError."""
    if kind is not TimeSpan:
        raise TypeError(f"a scenario holds no {kind.__name__}")
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError("must be a length of time like 90s or 1h30m")  # noqa: TRY004 - msgspec passes this kind on
    seconds = parse_duration(raw) if isinstance(raw, str) else float(raw)
    if not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError("must be a length of time from 0 to 100 years")
    return TimeSpan(seconds)


_AT = re.compile(r" - at `\$.*`$")


def read_flat_settings(flat: Mapping[str, Any], source: str) -> Settings:
    """Return all settings with these flags set; raise ConfigError that names the flag."""
    sections: dict[str, Section] = {}
    flags = {flag.encode_name: (section.name, flag) for section in _sections() for flag in _flags(section)}
    given: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        if name not in flags:
            hint = suggest(str(name), flags)
            raise ConfigError(f"{source}: settings: there is no setting {printable(str(name))}{hint}")
        section, flag = flags[name]
        given.setdefault(section, {})[name] = _read(flag.type, value, f"{source}: settings.{name}")
    for field in _sections():
        if field.name in given:
            sections[field.name] = _convert(given[field.name], field.type, source)
    return msgspec.structs.replace(Settings(), **sections)


def _sections() -> list[msgspec.structs.FieldInfo]:
    fields = msgspec.structs.fields(Settings)
    return [field for field in fields if isinstance(field.type, type) and issubclass(field.type, Section)]


def _flags(section: msgspec.structs.FieldInfo) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(section.type)


def _read(kind: Any, value: Any, where: str) -> Any:
    """Read a value: durations may be Go-style text, and a flag that may be repeated may have a single value."""
    info = msgspec.inspect.type_info(kind)
    choices = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    words = [word for choice in choices if isinstance(choice, msgspec.inspect.LiteralType) for word in choice.values]
    if isinstance(value, str) and value not in words and any(_is_duration(choice) for choice in choices):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ConfigError(f"{where}: {' nor '.join((str(error), *map(str, words)))}") from error
    is_list = isinstance(info, msgspec.inspect.VarTupleType)
    return [value] if is_list and not isinstance(value, list) else value


def _is_duration(info: msgspec.inspect.Type) -> bool:
    return isinstance(info, msgspec.inspect.Metadata) and bool((info.extra or {}).get("duration"))


def _convert(given: Mapping[str, Any], kind: Any, source: str) -> Section:
    try:
        converted: Section = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        flag = next((name for name in given if f"$.{name}" in str(error)), "")
        raise ConfigError(f"{source}: settings.{flag}: {_AT.sub('', str(error))}") from error
    return converted
