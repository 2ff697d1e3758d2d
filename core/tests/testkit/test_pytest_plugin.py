"""The pytest plugin is loaded wherever nodewright is installed: it must be light, and useful."""

import subprocess
import sys

from nodewright.adapters.clocks import VirtualClock


def test_it_loads_nothing_heavy() -> None:
    heavy = ("numpy", "rich", "yaml", "tenacity", "nodewright.adapters.provider")
    program = f"import sys, nodewright.testkit.pytest_plugin; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_offers_a_fake_clock(fake_clock: VirtualClock) -> None:
    fake_clock.sleep(5)
    assert fake_clock.now() == 5
