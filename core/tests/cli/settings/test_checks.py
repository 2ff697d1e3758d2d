"""A setting without effect is reported; one with an effect is not."""

import pytest

from nodewright.cli.settings.checks import NOT_OF_CA
from nodewright.cli.settings.load import load
from nodewright.model.policy import differences, most_switches

REQUESTS = "enable-provisioning-requests"


@pytest.mark.parametrize(
    ("flag", "value", "other", "wanted"),
    [
        ("enable-provisioning-classes", "true", REQUESTS, "true"),
        ("provisioning-request-initial-backoff-time", "2m", REQUESTS, "true"),
        ("provisioning-request-max-backoff-time", "20m", REQUESTS, "true"),
        ("provisioning-request-reservation-time", "20m", REQUESTS, "true"),
        ("check-capacity-batch-processing", "true", REQUESTS, "true"),
        ("check-capacity-provisioning-request-max-batch-size", "5", REQUESTS, "true"),
        ("check-capacity-processor-instance", "a", REQUESTS, "true"),
        ("max-autoprovisioned-node-group-count", "3", "node-autoprovisioning-enabled", "true"),
        ("salvo-scale-up-budget", "5s", "salvo-scale-up", "true"),
        ("min-learned-provision-time", "3m", "max-node-provision-time", "auto"),
        ("max-learned-provision-time", "20m", "max-node-provision-time", "auto"),
    ],
)
def test_what_lacks_its_feature(flag: str, value: str, other: str, wanted: str) -> None:
    needed = f"--{other}" if wanted == "true" else f"--{other}={wanted}"
    assert load({flag: value}, {}).idle == (f"--{flag}: has no effect without {needed}",)
    assert load({flag: value, other: wanted}, {}).idle == ()


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("enable-provisioning-classes", "true"),
        ("balance-scale-down", "true"),
        ("max-pod-moves-per-hour", "2"),
        ("max-deletions-per-window", "2"),
        ("deletion-window", "1h"),
        ("hedging-delay", "1m"),
        ("max-hedged-nodes", "2"),
        ("max-unhealthy-duration", "1h"),
    ],
)
def test_what_ca_does_not_have(flag: str, value: str) -> None:
    given = {flag: value, REQUESTS: "true"}
    assert load(given, {}).idle == ()
    assert load({**given, "profile": "ca"}, {}).idle == (f"--{flag}: has no effect under --profile=ca",)


def test_it_is_told_where_it_stands_and_a_default_asks_for_nothing() -> None:
    text = "provisioning: {enable-provisioning-classes: true, provisioning-request-max-backoff-time: 10m}\n"
    assert load({}, {}, text, "conf.yaml").idle == (
        "conf.yaml: provisioning.enable-provisioning-classes: has no effect without --enable-provisioning-requests",
    )


def test_what_ca_does_not_have_hangs_on_a_switch_that_its_profile_bars() -> None:
    rows = {row.switch: row for row in differences()}
    assert all("--profile=ca" in rows[switch].bars for switch in NOT_OF_CA.values())
    assert not any(getattr(most_switches("ca"), switch) for switch in NOT_OF_CA.values())
