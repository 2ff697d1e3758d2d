"""``nodewright doctor`` on the clouds of tests: the command itself, and what is wrong among its findings."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from nodewright.spec import Finding, FindingLevel


def bad(findings: Iterable[Finding]) -> dict[str, Finding]:
    """All but what is in order, by subject."""
    return {finding.subject: finding for finding in findings if finding.level is not FindingLevel.OK}


def said(findings: Iterable[Finding]) -> str:
    """The same as text, a line each."""
    return "\n".join(f"{one.subject}: {one.message}" for one in findings if one.level is not FindingLevel.OK)


class Told(NamedTuple):
    """``provider`` is the command's JSON about the one provider, ``shown`` its text."""

    provider: dict[str, Any]
    shown: str


def run_doctor(folder: Path, vendor: str, options: Mapping[str, Any], nodes: str, code: int) -> Told:
    """The command over the cloud's own protocol, in a process of its own, once for each form; it ends with ``code``."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"providers": {vendor: {"options": dict(options), "nodes": [nodes]}}}))
    command = [sys.executable, "-m", "nodewright", "doctor", "--config", str(config)]
    environment = {**os.environ, "COLUMNS": "200"}
    told = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, env=environment, check=False)
    assert told.returncode == code, told.stderr
    [provider] = json.loads(told.stdout)["providers"]
    shown = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return Told(provider, shown.stdout)
