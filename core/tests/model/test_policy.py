"""The table of differences from cluster-autoscaler decides alone."""

import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import msgspec
import pytest

from nodewright.model.policy import PolicyInputs, Profile, SizeCorrection, When, differences, make_policy
from nodewright.model.settings import (
    FailureSettings,
    LoopSettings,
    ProvisioningSettings,
    ScaleDownSettings,
    ScaleUpSettings,
    Settings,
)

ROOT = Path(__file__).parents[3]
# Ways of asking for the profile or the rule past the policy.
_NAMED = r"(?:profile|size_correction|policy\.rule)\b|[\"'](?:profile|size-correction)[\"'](?:,[^)]*)?[)\]]"
_PAST = re.compile(
    rf"\bis_(?:profile_)?ca\b|(?:{_NAMED})\s*[!=]=|[!=]=\s*(?:[\w.]*\.)?(?:{_NAMED})|[!=]=\s*[\"']ca[\"']|\[[\w.]*\.size_correction\]"
)


@pytest.mark.parametrize(
    "line",
    [
        'is_profile_ca = values.get("profile") == "ca"',
        'if flag in NOT_OF_CA and values["profile"] != other:',
        'if values.get("size-correction", SETTINGS["size-correction"].default) == rule:',
        'if "prompt" == settings.failures.size_correction:',
        "if state.policy.rule == rule:",
    ],
)
def test_a_question_past_the_policy_is_found(line: str) -> None:
    assert _PAST.search(line)


def test_nothing_but_the_policy_asks_for_the_profile_or_the_rule() -> None:
    sources = [*(ROOT / "core" / "src").rglob("*.py"), *(ROOT / "simulator" / "src").rglob("*.py")]
    sources += (ROOT / "plugins").glob("*/src/**/*.py")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sources
        if path.name != "policy.py" or path.parent.name != "model"
        for line in path.read_text().splitlines()
        if _PAST.search(line)
    ]
    assert len(sources) > 200
    assert not found


def test_the_rule_picks_an_implementation_in_two_tables_only() -> None:
    sources = ROOT / "core" / "src" / "nodewright"
    found = [str(path.relative_to(sources)) for path in sources.rglob("*.py") if "policy.rule]" in path.read_text()]
    assert sorted(found) == ["clusterstate/fold.py", "planner/make_plan.py"]


def test_every_switch_is_read_somewhere() -> None:
    text = "".join(path.read_text() for path in (ROOT / "core" / "src").rglob("*.py"))
    assert [row.switch for row in differences() if f"policy.{row.switch}" not in text] == []


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("prompt", {When.PROFILE_NODEWRIGHT: True, When.RULE_PROMPT: True, When.RULE_NOT_CA: True}),
        ("seed", {When.PROFILE_NODEWRIGHT: True, When.RULE_PROMPT: False, When.RULE_NOT_CA: True}),
        ("ca", {When.PROFILE_NODEWRIGHT: True, When.RULE_PROMPT: False, When.RULE_NOT_CA: False}),
    ],
)
def test_switches_follow_the_rule(rule: SizeCorrection, expected: dict[When, bool]) -> None:
    flags = frozenset(row.flag for row in differences() if row.flag)
    policy = make_policy(PolicyInputs("nodewright", rule, flags))
    assert policy.rule == rule
    for row in differences():
        assert getattr(policy, row.switch) is expected.get(row.when, False), row.switch


@pytest.mark.parametrize("rule", ["prompt", "seed", "ca"])
def test_the_profile_is_stronger_than_the_rule(rule: SizeCorrection) -> None:
    flags = frozenset(row.flag for row in differences() if row.flag)
    switches = asdict(make_policy(PolicyInputs("ca", rule, flags)))
    assert switches.pop("rule") == "ca"
    assert {name for name, on in switches.items() if on} == {
        row.switch for row in differences() if row.when == When.PROFILE_CA
    }


def test_a_flag_that_is_not_set_switches_off() -> None:
    policy = make_policy(PolicyInputs("nodewright", "prompt"))
    assert not policy.probes_after_backoff
    assert policy.prefers_other_failure_domains


def test_settings_give_their_flags() -> None:
    assert Settings().policy.probes_after_backoff
    assert not Settings(failures=FailureSettings(probe_after_backoff=False)).policy.probes_after_backoff
    ca = LoopSettings(profile="ca")
    assert Settings(loop=ca).policy.stops_at_refusal
    assert not Settings(loop=ca, scale_up=ScaleUpSettings(parallel_scale_up=True)).policy.stops_at_refusal


_ALL_FLAGS = Settings(
    failures=FailureSettings(hedging="on"),
    scale_down=ScaleDownSettings(balance_scale_down=True),
    provisioning=ProvisioningSettings(enable_provisioning_requests=True, enable_provisioning_classes=True),
)
_NO_FLAG = Settings(
    failures=FailureSettings(probe_after_backoff=False), scale_up=ScaleUpSettings(parallel_scale_up=True)
)
_DEFAULTS = {"--probe-after-backoff", "--parallel-scale-up=false"}
_ADDED = {"--hedging", "--balance-scale-down", "--enable-provisioning-classes"}


@pytest.mark.parametrize("profile", ["nodewright", "ca"])
@pytest.mark.parametrize("rule", ["prompt", "seed", "ca"])
@pytest.mark.parametrize(
    ("settings", "flags"),
    [(Settings(), _DEFAULTS), (_ALL_FLAGS, _DEFAULTS | _ADDED), (_NO_FLAG, set[str]())],
    ids=["defaults", "all flags", "no flag"],
)
def test_the_page_says_when_a_switch_is_on(
    settings: Settings, flags: set[str], rule: SizeCorrection, profile: Profile
) -> None:
    failures = msgspec.structs.replace(settings.failures, size_correction=rule)
    loop = msgspec.structs.replace(settings.loop, profile=profile)
    policy = msgspec.structs.replace(settings, failures=failures, loop=loop).policy
    given = {f"--profile={profile}", f"--size-correction={rule}", *flags}
    said = {switch: _holds(condition, given) for switch, condition in _page().items()}
    switches = asdict(policy)
    del switches["rule"]
    assert said == switches


def test_the_page_names_the_flags_that_are_off_by_default() -> None:
    told = [re.findall(r"`([^`]+)` \(off by default\)", condition) for condition in _page().values()]
    assert {flag for flags in told for flag in flags} == _ADDED


def _page() -> Mapping[str, str]:
    """Return the last cell of each row of docs/differences.md, by its switch."""
    text = (ROOT / "docs/differences.md").read_text()
    return dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", text, re.MULTILINE))


def _holds(condition: str, given: set[str]) -> bool:
    """Return whether a condition of the page, such as "with `--a` and `--b`, unless `--c`", holds."""
    needs, _, bars = condition.partition("unless ")
    return given >= set(re.findall("`([^`]+)`", needs)) and not given & set(re.findall("`([^`]+)`", bars))
