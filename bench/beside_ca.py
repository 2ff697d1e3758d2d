"""Runs the Go cluster-autoscaler and nodewright on one real control plane with one fake cloud, and prints a table.

The environment variable CA_BINARY names the cluster-autoscaler 1.37; it is a client of ``nodewright
serve-externalgrpc``. The control plane is that of the end-to-end tests (``make control-plane``). The systems do the same
work one after another, never at once. The table is markdown, with the load average of the machine beside the figures:
a busy machine doubles the times.

Exit code 1: a promise is broken, or a scenario failed. 2: something is missing that this needs, or an unknown name.
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from beside_ca_report import SYSTEMS, Measured, broken_promises, write_table

ROOT = Path(__file__).resolve().parents[1]
# The scenarios, and about how many seconds one takes with one system.
SCENARIOS = {
    "burst": 225,
    "planned": 45,
    "failure": 50,
    "silence": 110,
    "restart": 75,
    "term": 75,
    "crash": 75,
    "handover": 75,
    "handover-crash": 75,
    "trickle": 170,
    "waves": 105,
    "groups": 70,
}
# The scenarios in which one system takes the lease over from the other, and those in which cluster-autoscaler elects.
_CHANGES = {"handover", "handover-crash"}
_ELECTS = {"term", "crash", *_CHANGES}


class Missing(Exception):
    """Something that the benchmark needs is not there; the text is one sentence."""


def main(words: Sequence[str] | None = None) -> int:
    chosen = _parse(words)
    try:
        _check_names("scenario", chosen.scenarios, SCENARIOS)
        _check_names("system", chosen.systems, SYSTEMS)
        binary = find_binary(chosen.systems, chosen.scenarios)
        farm = _find_control_plane()
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 2
    measured: list[Measured] = []
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="beside-ca-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"logs are in {folder}; {_estimate(chosen)}", file=sys.stderr)
    runs = import_module("beside_ca_runs")
    order = [(run, scenario) for run in range(chosen.runs) for scenario in chosen.scenarios]
    for found in runs.measure_all(farm, binary, folder, order, chosen.systems):
        measured.append(found)
        print(json.dumps(found), file=sys.stderr, flush=True)
        if chosen.json is not None:  # after each scenario, so that what was measured outlives an interruption
            chosen.json.write_text(json.dumps(measured, indent=1) + "\n")
    print(write_table(measured))
    broken = list(broken_promises(measured))
    for promise in broken:
        print(f"broken promise: {promise}", file=sys.stderr)
    return 1 if broken or any("error" in one["figures"] for one in measured) else 0


def find_binary(systems: Sequence[str], scenarios: Sequence[str]) -> Path | None:
    """Return the cluster-autoscaler, None where no system needs it. Raises Missing."""
    changes = [name for name in scenarios if name in _CHANGES]
    if "ca" not in systems and not changes:
        return None
    named = os.environ.get("CA_BINARY", "")
    if not named:
        needs = {"--systems": ["ca"] if "ca" in systems else [], "--scenarios": changes}
        without = " and ".join(f"{', '.join(names)} out of {flag}" for flag, names in needs.items() if names)
        raise Missing(f"CA_BINARY is not set: let it name a cluster-autoscaler 1.37, or leave {without}.")
    binary = Path(named)
    if not (binary.is_file() and os.access(binary, os.X_OK)):
        raise Missing(f"CA_BINARY names {named}, which is not a program.")
    if _ELECTS & set(scenarios) and shutil.which("unshare") is None:
        raise Missing(
            "unshare(1) of util-linux is missing: replicas of cluster-autoscaler need host names of their own."
        )
    return binary


def _find_control_plane() -> Path:
    """Return the program of the control plane. Raises Missing."""
    sys.path.append(str(ROOT))
    binary = import_module("tests.e2e.binary")
    try:
        farm: Path = binary.provide(may_build=False).farm
    except binary.Unavailable as reason:
        raise Missing(f"There is no control plane: {reason}.") from None
    return farm


def _check_names(kind: str, names: Sequence[str], known: Any) -> None:
    for name in names:
        if name not in known:
            raise Missing(f"There is no {kind} of the name {name}; known: {', '.join(known)}.")


def _estimate(chosen: argparse.Namespace) -> str:
    seconds = chosen.runs * len(chosen.systems) * sum(SCENARIOS[name] for name in chosen.scenarios)
    return f"this takes about {seconds / 60:.0f} min"


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    all_scenarios, all_systems = ",".join(SCENARIOS), ",".join(SYSTEMS)
    parser.add_argument(
        "--scenarios", type=_split, default=_split(all_scenarios), metavar="A,B", help=f"default: {all_scenarios}"
    )
    parser.add_argument(
        "--systems", type=_split, default=_split(all_systems), metavar="A,B", help=f"default: {all_systems}"
    )
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="of each scenario; all are shown; default: 1")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there, after each scenario")
    parser.add_argument("--folder", type=Path, help="for logs; default: a new one among the temporary files")
    return parser.parse_args(words)


def _split(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


if __name__ == "__main__":
    sys.exit(main())
