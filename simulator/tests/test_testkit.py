"""The public play: what authors and users of the fake provider write in their own tests."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from nodewright import testkit
from nodewright.model.errors import ConfigError
from nodewright.spec import ProviderContext
from nodewright.testkit import FakeClock
from nodewright_fake import FakeCloud, FakeProvider
from nodewright_simulator.testkit import Cluster, play

README = Path(__file__).parents[2] / "plugins/fake/README.md"
SCENARIO = {"duration": "30m", "providers": {"fake": {"groups": [{"name": "a"}]}}}


class EmptyCloud:
    """A cloud on which nothing ever runs."""

    def running_machines(self) -> Mapping[str, str]:
        return {}

    def next_change(self) -> float:
        return math.inf


def test_the_example_of_the_readme_passes(cluster: Cluster) -> None:
    [shown] = re.findall(r"^## In a test\n.*?^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(shown, made)  # noqa: S102 - the README's own lines
    made["test_a_sold_out_group_costs_one_loop"](cluster)


def test_play_is_offered_by_the_public_testkit() -> None:
    assert testkit.play is play


def test_without_the_simulator_play_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testkit, "entry_points", lambda **_: ())
    with pytest.raises(ImportError, match=r"pip install 'nodewright\[simulator\]'"):
        _ = testkit.play


def test_machines_that_never_run_leave_the_pods_waiting() -> None:
    scenario = {**SCENARIO, "deployments": [{"name": "web", "replicas": 1, "pod": {"cpu": 1}}]}
    happened: list[float] = []
    clock = FakeClock()
    result = play(FakeProvider, EmptyCloud(), scenario, clock=clock, at=[(60, lambda: happened.append(clock.now()))])
    assert result.final.pending == 1
    assert happened == [60]


def test_from_a_plugin_that_ignores_nodes_nothing_is_bought() -> None:
    class Ignoring(FakeProvider):
        def __init__(self, context: ProviderContext, *cloud: FakeCloud) -> None:
            super().__init__(replace(context, node_group_specs=()), *cloud)

    scenario = {**SCENARIO, "deployments": [{"name": "web", "replicas": 1, "pod": {"cpu": 1}}]}
    result = play(Ignoring, EmptyCloud(), scenario, clock=FakeClock(), node_groups=["0:7:a"])
    assert (result.decisions, result.final.pending) == ((), 1)


def test_the_values_of_nodes_reach_the_plugin() -> None:
    scenario = {**SCENARIO, "deployments": [{"name": "web", "replicas": 5, "pod": {"cpu": 1}}]}
    result = play(FakeProvider, EmptyCloud(), scenario, clock=FakeClock(), node_groups=["0:2:a"])
    assert max(made.after for made in result.decisions) == 2


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("- a list", "scenario: a scenario is one mapping of keys to values"),
        ({"duration": "30m"}, "providers"),
        ({**SCENARIO, "deploymens": []}, "deployments"),
        ({**SCENARIO, "providers": {"a": {}, "b": {}}}, "play: providers: a play has one provider, but there are 2"),
        ({**SCENARIO, "settings": {"expnder": "price"}}, "expander"),
        (
            {**SCENARIO, "duration": timedelta(minutes=30)},
            "scenario: Object of type timedelta is not JSON serializable",
        ),
    ],
)
def test_a_wrong_scenario_is_told(scenario: str | dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        play(FakeProvider, EmptyCloud(), scenario, clock=FakeClock())


def test_a_clock_that_has_moved_is_refused() -> None:
    with pytest.raises(ConfigError, match="the clock must stand at 0, but it stands at 5"):
        play(FakeProvider, EmptyCloud(), SCENARIO, clock=FakeClock(5))
