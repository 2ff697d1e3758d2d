"""Registers nodewright's test helpers with pytest.

pytest loads this module in every project where nodewright is installed. So it imports nodewright only when a test
needs it.
"""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nodewright.adapters.clocks import VirtualClock

_PREFIX = "contract: "


@pytest.fixture
def fake_clock() -> "VirtualClock":
    """Return a virtual clock. Its time moves only when code sleeps on it or the test moves it."""
    from nodewright.adapters.clocks import VirtualClock  # noqa: PLC0415 - a light start for others' tests

    return VirtualClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of a ProviderContract class from each check of the contract suite."""
    if "contract_check" in metafunc.fixturenames:
        from nodewright.testkit.contract import CHECKS  # noqa: PLC0415 - a light start for others' tests

        metafunc.parametrize("contract_check", CHECKS, ids=str)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many contract checks passed, failed and were skipped, and the reasons for skipping."""
    counts: dict[str, dict[str, int]] = {}
    skipped: dict[str, set[str]] = {}
    for outcome in ("passed", "failed", "skipped"):
        for report in terminalreporter.stats.get(outcome, []):
            suite, found, _ = report.nodeid.partition("::test_contract[")
            if found:
                counts.setdefault(suite, dict.fromkeys(("passed", "failed", "skipped"), 0))[outcome] += 1
                if outcome == "skipped":
                    skipped.setdefault(suite, set()).add(_reason(report))
    if counts:
        terminalreporter.section("provider contract")
    for suite, count in sorted(counts.items()):
        terminalreporter.line(f"{suite}: " + ", ".join(f"{number} {outcome}" for outcome, number in count.items()))
        for reason in sorted(skipped.get(suite, ())):
            terminalreporter.line(f"  skipped: {reason}")


def _reason(report: Any) -> str:
    """Return the skip reason of a report, without the text that pytest adds."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).rpartition(_PREFIX)[2]
