"""The file of --disruption-config: what is refused, and when it is read again."""

from pathlib import Path

import pytest

from nodewright.adapters.config_files import DisruptionFile, read_disruption
from nodewright.model.disruption import DisruptionReason
from nodewright.model.errors import ConfigError
from nodewright.model.settings import SafetySettings

GOOD = b"""
disruption:
- nodes: 10%
- match: {groups: [web-*], labels: {tier: front}}
  reasons: [underused, replaced]
  nodes: 0
  when: {cron: 0 8 * * 1-5, for: 10h, timezone: Europe/Berlin}
schedules:
- match: {groups: [batch]}
  when: {cron: 0 7 * * *, for: 1h30m}
  set: {min: 5, scale_down_utilization_threshold: 0.3}
  lead: auto
"""


def test_a_file_is_read() -> None:
    config = read_disruption(GOOD, "d.yaml")
    first, second = config.disruption
    assert (first.nodes, first.when, first.reasons) == ("10%", None, ())
    assert second.reasons == (DisruptionReason.UNDERUSED, DisruptionReason.REPLACED)
    schedule = config.schedules[0]
    assert schedule.when.seconds == 5400.0
    assert schedule.set.given() == {"min": 5, "scale_down_utilization_threshold": 0.3}


WHEN = "when: {cron: 0 8 * * *, for: 1h}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "d.yaml: must hold one mapping"),
        ("disruptions: []", "d.yaml: unknown key disruptions, did you mean disruption?"),
        ("disruption: [{nodes: 10}, {node: 1}]", "disruption[1]"),
        ("disruption: [{nodes: 101%}]", "nodes"),
        ("disruption: [{nodes: -1}]", "nodes"),
        ("disruption: [{nodes: 1, reasons: [empy]}]", "reasons"),
        (
            "disruption: [{nodes: 1, when: {cron: 0 8 * *, for: 1h}}]",
            "d.yaml: disruption[0].when.cron: '0 8 * *' has 4",
        ),
        ("disruption: [{nodes: 1, when: {cron: 0 25 * * *, for: 1h}}]", "disruption[0].when.cron: '0 25 * * *' is no"),
        ("disruption: [{nodes: 1, when: {cron: 0 0 31 2 *, for: 1h}}]", "disruption[0].when.cron"),
        ("disruption: [{nodes: 1, when: {cron: 0 8 * * *, for: 1 hour}}]", "disruption[0].when.for: '1 hour' is not"),
        ("disruption: [{nodes: 1, when: {cron: 0 8 * * *, for: 0s}}]", "disruption[0].when.for: '0s' is not"),
        (
            "disruption: [{nodes: 1, when: {cron: 0 8 * * *, for: 1h, timezone: Europe/Berln}}]",
            "disruption[0].when.timezone: 'Europe/Berln' is not a time zone, did you mean Europe/Berlin?",
        ),
        (f"schedules: [{{{WHEN}, set: {{}}}}]", "schedules[0].set: sets nothing"),
        (f"schedules: [{{{WHEN}, set: {{min: 4, max: 3}}}}]", "schedules[0].set: min 4 is more than max 3"),
        (f"schedules: [{{{WHEN}, set: {{min: 4}}, lead: soon}}]", "schedules[0].lead: 'soon' is not a duration"),
        (f"schedules: [{{{WHEN}, set: {{max: 4}}, lead: auto}}]", "schedules[0].lead: only a schedule that sets min"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_that_names_file_and_key(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_disruption(text.encode(), "d.yaml")
    assert str(caught.value).startswith("d.yaml: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_last_good_text_stays_in_force(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_bytes(GOOD)
    settings = SafetySettings(disruption_config=str(path))
    file = DisruptionFile(lambda: settings)
    good = file.read()
    assert (file.problem, len(good.disruption)) == ("", 2)
    path.write_text("disruption: [{nodes: many}]")
    assert file.read() is good
    assert file.problem.startswith(f"{path}: disruption")
    with pytest.raises(ConfigError):
        file.check()
    path.unlink()
    assert file.read() is good
    assert file.problem == f"--disruption-config: {path} cannot be read: No such file or directory"
    path.write_text("disruption: [{nodes: 3}]")
    assert [budget.nodes for budget in file.read().disruption] == [3]
    assert file.problem == ""
    settings = SafetySettings()
    assert file.read().disruption == ()


def test_a_config_map_holds_beside_the_file(tmp_path: Path) -> None:
    """While it has no good text no node goes: it may hold a budget. If it does not exist, it holds none."""
    path = tmp_path / "d.yaml"
    path.write_text("disruption: [{nodes: 1}]")
    data: dict[str, str] | None = None
    settings = SafetySettings(disruption_config=str(path))
    file = DisruptionFile(lambda: settings)
    file.check()
    file.follow("budgets", lambda: data)
    absence = "--disruption-config-map-name: there is no ConfigMap budgets, so no budgets or schedules of it hold"
    assert [budget.nodes for budget in file.read().disruption] == [1]
    assert (file.problem, file.absence) == ("", absence)
    data = {"disruption.yml": "disruption: [{nodes: 2}]"}
    assert [budget.nodes for budget in file.read().disruption] == [1, 0]
    assert file.absence == ""
    assert file.problem == "--disruption-config-map-name: ConfigMap budgets has no key disruption.yaml"
    data = {"disruption.yaml": "disruption: [{nodes: 2}]"}
    good = file.read()
    assert ([budget.nodes for budget in good.disruption], file.problem) == ([1, 2], "")
    assert file.read() is good
    data = {"disruption.yaml": "disruption: [{nodes: -2}]"}
    assert file.read() is good
    assert file.problem.startswith("ConfigMap budgets: disruption[0]")
    data = None
    assert [budget.nodes for budget in file.read().disruption] == [1]
    assert (file.problem, file.absence) == ("", absence)
    data = {"disruption.yaml": "disruption: [{nodes: -2}]"}
    assert [budget.nodes for budget in file.read().disruption] == [1, 0]
    data = {"disruption.yaml": ""}
    assert [budget.nodes for budget in file.read().disruption] == [1]
