"""Buffers of spare capacity in scenario files."""

import pytest

from nodewright.model.errors import ConfigError
from nodewright_simulator.build import build_simulation
from nodewright_simulator.scenario_file import read_scenario

SCENARIO = """
name: spare capacity
duration: 30m
settings:
  capacity-buffer-controller-enabled: true
  capacity-buffer-pod-injection-enabled: true
  scale-down-unneeded-time: 2m
  scale-down-delay-after-add: 1m
providers:
  fake: {groups: [{name: pool, cpu: 2, memory: 8Gi, max_size: 10}]}
deployments:
  - {name: web, replicas: 4, pod: {cpu: 1}}
capacity_buffers:
  - {name: share, deployment: web, percentage: 50, at: 1m}
  - {name: own, pod: {cpu: 2}, replicas: 2, at: 1m, deleted_at: 20m}
"""


def test_buffers_hold_room_until_they_are_deleted() -> None:
    result = build_simulation(read_scenario(SCENARIO, "file")).run()
    increases = [(one.at, one.before, one.after, one.pods) for one in result.decisions if one.what == "increase"]
    assert increases == [(0, 0, 2, 4), (60, 2, 5, 4)]
    assert result.final.nodes == {"fake/pool": 3}
    assert result.status.buffers is not None
    assert [(one.buffer, one.state, one.held) for one in result.status.buffers] == [("default/share", "full", 2)]


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (
            "deployment: web",
            "deployment: wep",
            "capacity_buffers: share: no deployment is called wep; did you mean web?",
        ),
        ("pod: {cpu: 2}", "pod: {cpu: much}", "capacity_buffers: own: cpu: 'much' is not a quantity"),
        ("deployment: web", "namespace: x", "namespace"),
        ("deployment: web, ", "", "capacity_buffers: share: one of pod and deployment is needed, and not both"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_buffer(good: str, bad: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_scenario(SCENARIO.replace(good, bad, 1), "file")
    assert message in str(raised.value)
