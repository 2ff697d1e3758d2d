"""``simulate`` reports the engine's status at the end, and every write."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

Command = Callable[..., subprocess.CompletedProcess[str]]
SCENARIO = """
name: look
duration: 12m
settings: {expander: price, max-node-provision-time: 5m}
providers:
  fake:
    groups:
      - {name: cheap, cpu: 4, memory: 16Gi, price_per_hour: 0.1}
      - {name: slow, cpu: 4, memory: 16Gi, price_per_hour: 0.2, request_delay: 1h,
         switched_off: {fast_failure_detection: no permission}}
    stock_outs: [{group: cheap}]
deployments:
  - {name: web, replicas: 2, at: 8m, pod: {cpu: 4}}
timeline:
  - {at: 11m, do: pause, for: 10m}
"""


def test_status_at_the_end(command: Command, tmp_path: Path) -> None:
    scenario = tmp_path / "look.yaml"
    scenario.write_text(SCENARIO)
    said = " ".join(command("simulate", scenario, "--status").stdout.split())
    assert "Status as of 12m after the start" in said
    assert "Writes to clouds are paused until 21m after the start, for another 9m." in said
    assert "Deletion budget of the cluster: 0 of 10 used within 10m." in said
    assert "2 machines owed, given up in" in said
    assert "STOCKOUT" in said


def test_status_and_audit_in_json(command: Command, tmp_path: Path) -> None:
    scenario = tmp_path / "look.yaml"
    scenario.write_text(SCENARIO)
    document = json.loads(command("simulate", scenario, "--status", "-o", "json").stdout)
    cheap, slow = document["status"]["groups"]
    assert cheap["backoff"]["error_class"] == "out_of_resources"
    assert slow["failure_detection"]["why_not_fast"] == "no permission"
    assert slow["requests"][0]["owed"] == 2
    assert Counter((r["action"], r["group"], r["outcome"]) for r in document["audit"]) == {
        ("IncreaseSize", "fake/cheap", "done"): 1,
        ("DeleteInstances", "fake/cheap", "done"): 1,
        ("IncreaseSize", "fake/slow", "done"): 1,
    }
    assert len({record["request"] for record in document["audit"]}) == 3
    assert "status" not in json.loads(command("simulate", scenario, "-o", "json").stdout)


ON_DEMAND = """
name: on demand
duration: 5m
settings: {node-autoprovisioning-enabled: true, expander: price}
providers:
  fake:
    machine_types:
      - {name: small, cpu: 2, memory: 8Gi, price_per_hour: 0.1}
      - {name: big, cpu: 8, memory: 32Gi, price_per_hour: 0.9}
    faults: [{kind: refuse, hook: create_node_group, error: out_of_capacity, times: 1}]
deployments:
  - {name: web, replicas: 2, at: 1m, pod: {cpu: 1}}
"""


def test_groups_made_on_demand(command: Command, tmp_path: Path) -> None:
    scenario = tmp_path / "demand.yaml"
    scenario.write_text(ON_DEMAND)
    document = json.loads(command("simulate", scenario, "--status", "-o", "json").stdout)
    refused, made = document["status"]["groups"][::-1]
    assert (refused["autoprovisioned"], refused["target"], refused["backoff"]["code"]) == (None, None, "outOfResources")
    assert (made["autoprovisioned"], made["target"], made["backoff"]) == ("big", 1, None)
    assert [(r["action"], r["outcome"], r["reason"]) for r in document["audit"]][:2] == [
        ("CreateNodeGroup", "refused", "machine type small"),
        ("CreateNodeGroup", "done", "machine type big"),
    ]
    said = " ".join(command("simulate", scenario, "--status").stdout.split())
    assert "created by the autoscaler, of machine type big" in said
