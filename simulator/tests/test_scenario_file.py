"""Scenario files are decoded strictly, and errors name file and key."""

from pathlib import Path

import pytest

from nodewright.model.errors import ConfigError
from nodewright_simulator.scenario import Crash, Outage, PauseWrites, Restart, ResumeWrites, Scale, TimeSpan
from nodewright_simulator.scenario_file import load_scenario, read_flat_settings, read_scenario

MINIMAL = "name: x\nduration: 1h\nproviders: {fake: {}}\n"


def refuses(text: str, source: str = "s.yaml") -> str:
    with pytest.raises(ConfigError) as caught:
        read_scenario(text, source)
    message = str(caught.value)
    assert message.startswith(source)
    assert "\n" not in message
    return message


def test_the_least_that_is_needed() -> None:
    scenario = read_scenario(MINIMAL, "s.yaml")
    assert (scenario.name, scenario.duration, scenario.seed) == ("x", 3600.0, 0)


def test_everything() -> None:
    text = (
        MINIMAL
        + """
seed: 3
settings: {expander: price, scan-interval: 20s}
scheduler: most-allocated
deployments:
  - {name: web, replicas: 3, at: 90, pod: {cpu: 0.5, spread: [{max_skew: 2}], tolerations: [{key: gpu, operator: Exists}]}}
jobs:
  - {name: batch, count: 2, every: 1.5m, duration: 1h30m, random_arrivals: true}
timeline:
  - {at: 5m, do: scale, deployment: web, replicas: 6}
  - {at: 6m, do: crash, after_effect: true}
  - {at: 7m, do: restart, down: 5, keeps_memory: false}
  - {at: 8m, do: unready, for: 15m, nodes: 2}
  - {at: 9m, do: pause, for: 1m}
  - {at: 10m, do: resume}
"""
    )
    scenario = read_scenario(text, "s.yaml")
    assert scenario.deployments[0].at == 90.0
    assert scenario.jobs[0].every == 90.0
    assert scenario.timeline == (
        Scale(at=TimeSpan(300), deployment="web", replicas=6),
        Crash(at=TimeSpan(360), after_effect=True),
        Restart(at=TimeSpan(420), down=TimeSpan(5), keeps_memory=False),
        Outage(at=TimeSpan(480), lasts=TimeSpan(900), nodes=2),
        PauseWrites(at=TimeSpan(540), lasts=TimeSpan(60)),
        ResumeWrites(at=TimeSpan(600)),
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("providers: {fake: {}}\nduration: 1h\n", "name"),
        (MINIMAL + "deploymnets: []\n", "did you mean deployments"),
        (MINIMAL + "deployments: [{name: web, replica: 3}]\n", "did you mean replicas"),
        (MINIMAL + "deployments: [{name: web, replicas: 1, pod: {memry: 1Gi}}]\n", "did you mean memory"),
        (MINIMAL + "deployments: [{name: web, replicas: -1}]\n", "replicas"),
        (MINIMAL + "deployments: [{name: <b>, replicas: 1}]\n", "name"),
        (MINIMAL + "deployments: [{name: web, replicas: 1, pod: {cpu: lots}}]\n", "'lots' is not a quantity"),
        (MINIMAL + "deployments: [{name: a, replicas: 1}, {name: a, replicas: 1}]\n", "two workloads are called a"),
        (MINIMAL + "jobs: [{name: a, duration: fast}]\n", "'fast' is not a duration"),
        (MINIMAL + "jobs: [{name: a, duration: -5s}]\n", "must be a length of time"),
        (MINIMAL + "jobs: [{name: a, duration: true}]\n", "must be a length of time"),
        (MINIMAL + "timeline: [{at: 1m, do: scale, deployment: wbe, replicas: 1}]\n", "no deployment is called wbe"),
        (MINIMAL + "timeline: [{at: 1m, do: explode}]\n", "explode"),
        (MINIMAL + "timeline: [{at: 1m, do: unready}]\n", "for"),
        (MINIMAL + "timeline: [{at: 1m, do: pause, for: ever}]\n", "'ever' is not a duration"),
        (MINIMAL + "timeline: [{at: 1m, do: crash, write: 0}]\n", "timeline[0].write"),
        ("name: x\nduration: 1h\nproviders: {}\n", "at least one"),
        ("- 1\n", "one mapping"),
        ("", "one mapping"),
        ("a: &a [1]\nb: [*a, *a\n", "s.yaml line"),
    ],
)
def test_what_is_refused(text: str, expected: str) -> None:
    assert expected in refuses(text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_scenario(tmp_path / "none.yaml")


def test_settings_are_flags() -> None:
    settings = read_flat_settings(
        {"expander": "price", "max-node-provision-time": "5m", "scan-interval": 20, "balancing-label": "pool"}, "s"
    )
    assert settings.scale_up.expander == "price"
    assert settings.failures.max_node_provision_time == 300.0
    assert settings.loop.scan_interval == 20.0
    assert settings.scale_up.balancing_label == ("pool",)
    assert read_flat_settings({"max-node-provision-time": "auto"}, "s").failures.learns_provision_time


@pytest.mark.parametrize(
    ("flat", "expected"),
    [
        ({"expandre": "price"}, "did you mean expander"),
        ({"scan-interval": "soon"}, "settings.scan-interval: 'soon' is not a duration"),
        ({"max-node-provision-time": "atuo"}, "nor auto"),
        ({"max-nodes-total": -1}, "settings.max-nodes-total"),
        ({"expander": 5}, "settings.expander"),
    ],
)
def test_settings_that_are_refused(flat: dict[str, object], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_flat_settings(flat, "s.yaml")
    assert str(caught.value).startswith("s.yaml: settings")
    assert expected in str(caught.value)
