"""Scenario files: strict YAML, read and held against what makes sense."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nodewright.adapters.simulated.scenario import (
    BudgetSpec,
    PodTemplate,
    Scale,
    Scenario,
    Seconds,
    SpareSpec,
    Workload,
    amounts_of,
)
from nodewright.model.complaint import printable, suggest
from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.quantity import Quantity
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options

_MAX_SECONDS = 100 * 365 * 86_400.0


def load_scenario(path: Path) -> Scenario:
    """The scenario in a file; raises ConfigError that names the file and the key."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    return read_scenario(text, str(path))


def read_scenario(text: bytes | str, source: str) -> Scenario:
    """As ``load_scenario``, from the text itself; ``source`` names it in messages."""
    documents = load_yaml(text, source)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{source}: a scenario is one mapping of keys to values")
    return check_scenario(decode_options(documents[0], Scenario, source, _decode), source)


def check_scenario(scenario: Scenario, source: str) -> Scenario:
    """The same scenario, if it makes sense; raises ConfigError."""
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


def _check_budget(budget: BudgetSpec, workloads: Sequence[str], where: str) -> None:
    if (budget.min_available is None) == (budget.max_unavailable is None):
        raise ConfigError(f"{where}: one of min_available and max_unavailable is needed, and not both")
    if (budget.workload is None) == (not budget.labels):
        raise ConfigError(f"{where}: either workload or labels must say which pods it is for")
    if budget.workload is not None and budget.workload not in workloads:
        raise ConfigError(f"{where}: no workload is called {budget.workload}{suggest(budget.workload, workloads)}")


def _check_amounts(pod: PodTemplate, where: str) -> None:
    for resource, amount in amounts_of(pod).items():
        try:
            Quantity.of(amount)
        except ValueError as error:
            raise ConfigError(f"{where}: {printable(resource)}: {error}") from error


def _decode(kind: type, raw: Any) -> Any:
    """msgspec's hook for ``Seconds``; raises ValueError."""
    if kind is not Seconds:
        raise TypeError(f"a scenario holds no {kind.__name__}")
    if isinstance(raw, bool) or not isinstance(raw, str | int | float):
        raise ValueError("must be a length of time like 90s or 1h30m")  # noqa: TRY004 - msgspec passes this kind on
    seconds = parse_duration(raw) if isinstance(raw, str) else float(raw)
    if not 0 <= seconds <= _MAX_SECONDS:
        raise ValueError("must be a length of time from 0 to 100 years")
    return Seconds(seconds)
