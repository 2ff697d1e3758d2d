"""Simulations from Python: ``simulate`` runs a scenario, and the result has data frames."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from nodewright.model.errors import ConfigError
from nodewright.spec.options import decode_options
from nodewright_simulator.build import BuildOptions, build_simulation
from nodewright_simulator.lives import NodeCauses, list_nodes, list_pods
from nodewright_simulator.openb import is_trace, trace_scenario
from nodewright_simulator.report import write_report
from nodewright_simulator.result import SimulationResult
from nodewright_simulator.scenario import Scenario
from nodewright_simulator.scenario_file import check_scenario, decode_span, load_scenario, read_flat_settings
from nodewright_simulator.sweep.figures import FIGURES

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Result:
    """The result of a simulation. ``details`` holds everything; the data frames need pandas.

    Times in data frames are seconds since the start of the scenario, and missing (NaN) for what did not happen.
    """

    scenario: Scenario
    details: SimulationResult

    @property
    def figures(self) -> dict[str, float | None]:
        """Return the figures of the run by name, as docs/sweep.md lists them; None: not known."""
        return {name: figure.read(self.details) for name, figure in FIGURES.items()}

    @property
    def pods(self) -> "DataFrame":
        """Return a row for each pod, without those of DaemonSets.

        Columns: name, owner (kind), arrived, started, wait (seconds, of pods that started), node, ended, end (ended,
        evicted, lost, or empty).
        """
        rows = [asdict(pod) for pod in list_pods(self.details) if pod.owner != "DaemonSet"]
        for row in rows:
            row["wait"] = row["started"] - row["arrived"] if row["started"] is not None else None
        columns = ("name", "owner", "arrived", "started", "wait", "node", "ended", "end")
        return self._frame(rows, columns, times=("arrived", "started", "ended"))

    @property
    def nodes(self) -> "DataFrame":
        """Return a row for each node. Columns: name, group, added, ready, gone, pods (how many ran there), why_added, why_gone."""
        causes = NodeCauses(self.details)
        rows = []
        for node in list_nodes(self.details):
            why_gone = causes.of_going(node) if node.gone is not None else ""
            more = {"pods": len(node.pods), "why_added": causes.of_coming(node), "why_gone": why_gone}
            rows.append(
                {
                    "name": node.name,
                    "group": node.group,
                    "added": node.added,
                    "ready": node.ready,
                    "gone": node.gone,
                    **more,
                }
            )
        columns = ("name", "group", "added", "ready", "gone", "pods", "why_added", "why_gone")
        return self._frame(rows, columns, times=("added", "ready", "gone"))

    @property
    def decisions(self) -> "DataFrame":
        """Return a row for each write to a cloud. Columns: at, what, group, before, after, pods, hedged, outcome, why, message."""
        columns = ("at", "what", "group", "before", "after", "pods", "hedged", "outcome", "why", "message")
        return self._frame([asdict(decision) for decision in self.details.decisions], columns, times=("at",))

    def save_report(self, path: str | Path) -> None:
        """Write the HTML page."""
        Path(path).write_text(write_report(self.details, self.scenario), encoding="utf-8")

    def _frame(self, rows: list[dict[str, Any]], columns: tuple[str, ...], times: tuple[str, ...]) -> "DataFrame":
        try:
            import pandas as pd  # noqa: PLC0415 - an extra
        except ImportError:
            raise ConfigError('data frames need pandas: pip install "nodewright[pandas]"') from None
        frame = pd.DataFrame(rows, columns=list(columns))
        for column in times:
            frame[column] = pd.to_numeric(frame[column]) - self.details.start
        return frame


def simulate(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int | None = None,
) -> Result:
    """Run a scenario on virtual time to its end.

    ``scenario`` is the path of a scenario file or of a folder with a trace, or the scenario itself, also as a mapping with
    the keys of a file. ``settings`` (by flag without dashes) and ``seed`` replace those of the scenario. Raise ConfigError for
    bad input, PluginError for a provider that cannot be used.
    """
    found = _read(scenario)
    found = replace(found, settings={**found.settings, **(settings or {})}, seed=found.seed if seed is None else seed)
    read_flat_settings(found.settings, f"scenario {found.name}")
    return Result(found, build_simulation(found, BuildOptions(folder=Path())).run())


def _read(scenario: str | Path | Mapping[str, Any] | Scenario) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario
    if isinstance(scenario, Mapping):
        return check_scenario(decode_options(scenario, Scenario, "scenario", decode_span), "scenario")
    return trace_scenario(str(scenario)) if is_trace(Path(scenario)) else load_scenario(Path(scenario))
