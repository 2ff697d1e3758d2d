"""A hook of many calls to a cloud that does not answer ends by itself."""

import pytest

from nodewright.spec import ProviderUnavailable
from nodewright.spec.cache import attempt_each
from nodewright.spec.meter import Meter
from nodewright.testkit import FakeClock


def test_no_call_begins_when_the_time_is_over() -> None:
    clock = FakeClock(1000)
    meter = Meter(clock, 600)

    def wait() -> None:
        clock.sleep(20)
        raise ProviderUnavailable("no answer")

    with meter.within(25):
        for asked in ("a", "b"):
            with pytest.raises(ProviderUnavailable, match="no answer"):
                meter.call(asked, wait)
        with pytest.raises(ProviderUnavailable, match="c: not asked, the calls before it took too long"):
            meter.call("c", wait)
    assert clock.now() == 1040
    assert meter.call("d", lambda: 1) == 1


def test_no_call_of_attempt_each_begins_when_the_time_is_over() -> None:
    clock = FakeClock(1000)
    meter = Meter(clock, 600)
    with meter.within(25):
        clock.sleep(24)
        assert attempt_each(lambda key: meter.call(key, lambda: key), ["a", "b"], 2) == ["a", "b"]
        clock.sleep(1)
        late = attempt_each(lambda key: meter.call(key, lambda: key), ["c", "d"], 2)
    assert [str(error) for error in late] == [
        f"{key}: not asked, the calls before it took too long" for key in ("c", "d")
    ]
    assert attempt_each(lambda key: meter.call(key, lambda: key), ["e"], 2) == ["e"]
