"""What the result of a run depends on, as one short hash."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nodewright_simulator.scenario import Scenario

_TABLES = ("nodes.csv", "nodes.csv.gz", "pods.csv", "pods.csv.gz")


def digest_files(scenario: Scenario) -> dict[str, str]:
    """Return digests of the files that the scenario names: the tables of its trace, and the provider's file."""
    named = [Path(raw["file"]) for raw in scenario.providers.values() if isinstance(raw.get("file"), str)]
    if scenario.trace is not None and scenario.trace.folder is not None:
        named += [Path(scenario.trace.folder, table) for table in _TABLES]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in named if path.is_file()}


def hash_inputs(scenario: Scenario, files: Mapping[str, str]) -> str:
    """Return 16 hexadecimal digits. Paths and texts for people do not count, the version of nodewright does."""
    trace = scenario.trace
    if trace is not None and trace.folder is not None:
        trace = replace(trace, folder="")
    plain = msgspec.to_builtins(replace(scenario, name="", description="", trace=trace), enc_hook=float)
    document = {"scenario": plain, "files": files, "nodewright": version("nodewright-simulator")}
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:16]
