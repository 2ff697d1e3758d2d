"""Requests for capacity in scenario files."""

import pytest

from nodewright.model.errors import ConfigError
from nodewright_simulator.build import build_simulation
from nodewright_simulator.scenario_file import read_scenario

SCENARIO = """
name: a request of all or nothing
duration: 30m
settings: {enable-provisioning-requests: true}
providers:
  fake: {groups: [{name: pool, cpu: 2, memory: 8Gi, max_size: 10}]}
provisioning_requests:
  - name: train
    class: best-effort-atomic-scale-up.autoscaling.x-k8s.io
    at: 1m
    pod_sets:
      - {count: 4, pod: {cpu: 1}}
deployments:
  - name: workers
    at: 5m
    replicas: 4
    pod:
      cpu: 1
      annotations:
        autoscaling.x-k8s.io/consume-provisioning-request: train
        autoscaling.x-k8s.io/provisioning-class-name: best-effort-atomic-scale-up.autoscaling.x-k8s.io
"""


def test_a_request_is_served_and_its_pods_run() -> None:
    result = build_simulation(read_scenario(SCENARIO, "file")).run()
    assert (result.final.running, result.final.nodes) == (4, {"fake/pool": 2})
    assert [decision.pods for decision in result.decisions if decision.what == "increase"] == [4]
    assert any(held.event.reason == "CapacityBookingConsumed" for held in result.events)


def test_an_amount_that_is_none_is_told_with_its_request() -> None:
    with pytest.raises(ConfigError, match="file: provisioning_requests: train: cpu"):
        read_scenario(SCENARIO.replace("{cpu: 1}}", "{cpu: much}}"), "file")
