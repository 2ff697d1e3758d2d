"""Registers the fixture ``cluster`` with pytest.

pytest loads this module in every project where the package is installed. So it imports the simulator only when a test needs it.
"""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from nodewright_simulator.testkit import Cluster


@pytest.fixture
def cluster() -> "Cluster":
    """Return a cluster whose clouds are installed providers that can be simulated, such as the fake provider."""
    from nodewright_simulator.testkit import Cluster  # noqa: PLC0415 - a light start for others' tests

    return Cluster()
