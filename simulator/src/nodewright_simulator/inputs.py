"""What the result of a run depends on, as one short hash."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import msgspec
from msgspec.structs import replace

from nodewright_simulator.scenario import Scenario

_SETTINGS = ("prices", "disruption-config")
_TABLES = ("nodes.csv", "nodes.csv.gz", "pods.csv", "pods.csv.gz")


def digest_files(scenario: Scenario) -> dict[str, str]:
    """Return digests, by what each is for, of the trace's tables and of the files that providers and settings name."""
    named = {f"provider {name}": raw.get("file") for name, raw in scenario.providers.items()}
    named |= {flag: scenario.settings.get(flag) for flag in _SETTINGS}
    if scenario.trace is not None and scenario.trace.folder is not None:
        named |= {table: str(Path(scenario.trace.folder, table)) for table in _TABLES}
    if scenario.trace is not None:
        named |= {"trace": scenario.trace.file, "mapping": scenario.trace.mapping}
    paths = {key: Path(path) for key, path in named.items() if isinstance(path, str) and path}
    return {key: hashlib.sha256(path.read_bytes()).hexdigest() for key, path in paths.items() if path.is_file()}


def hash_inputs(scenario: Scenario, files: Mapping[str, str]) -> str:
    """Return 16 hexadecimal digits. Paths and texts for people do not count, the version of nodewright does."""
    trace = scenario.trace
    if trace is not None:
        hidden = {key: "" for key in ("folder", "file", "mapping") if getattr(trace, key) is not None}
        trace = replace(trace, **hidden)
    plain = msgspec.to_builtins(replace(scenario, name="", description="", trace=trace), enc_hook=float)
    document = {"scenario": plain, "files": files, "nodewright": version("nodewright-simulator")}
    return hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:16]
