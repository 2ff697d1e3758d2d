"""The values of expressions, as Prometheus would have them."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge
from tests.deploy.promql import Wrong
from tests.deploy.promql_value import Scrapes


class Process:
    """Scraped every ten seconds."""

    def __init__(self) -> None:
        self.registry, self.scrapes, self._at = CollectorRegistry(), Scrapes(), 0.0
        self.waiting = Gauge("waiting", "", registry=self.registry)
        self.paused = Gauge("paused", "", registry=self.registry)
        self.failed = Counter("failed", "", ["reason"], registry=self.registry)

    def scrape(self) -> None:
        self._at += 10.0
        self.scrapes.take(self.registry, self._at)

    def holds(self, text: str) -> bool:
        return bool(self.scrapes.value(text))


def test_comparisons_and_sets() -> None:
    process = Process()
    process.waiting.set(3)
    process.scrape()
    for text, holds in (
        ("waiting > 2", True),
        ("waiting > 3", False),
        ("waiting == 3", True),
        ("absent_metric > 0", False),
        ("(waiting > 2) and on (job, instance) (paused == 0)", True),
        ("(waiting > 2) and on (job, instance) (paused == 1)", False),
        ("waiting unless paused", False),
        ("(waiting > 9) or (paused == 0)", True),
        ("time() - max(waiting) > 6.9", True),
        ("time() - max(waiting) > 7.1", False),
    ):
        assert process.holds(text) is holds, text


def test_time_windows() -> None:
    process = Process()
    process.scrape()
    process.failed.labels("stock-out").inc(4)
    process.waiting.set(1)
    process.scrape()
    process.waiting.set(0)
    for _ in range(6):
        assert process.holds("sum by (reason) (increase(failed_total[60s])) > 3")
        assert process.holds("max_over_time(waiting[60s]) > 0")
        process.scrape()
    process.scrape()
    assert not process.holds("sum by (reason) (increase(failed_total[60s])) > 3")
    assert not process.holds("max_over_time(waiting[60s]) > 0")
    assert process.holds('failed_total{reason="stock-out"} > 3')
    assert not process.holds('failed_total{reason=~"stock"} > 3')


@pytest.mark.parametrize("text", ["rate(failed_total[60s]) > 0", "waiting + paused > 0", "waiting % 2 > 0"])
def test_what_is_not_known_is_wrong(text: str) -> None:
    process = Process()
    process.scrape()
    with pytest.raises(Wrong):
        process.scrapes.value(text)
