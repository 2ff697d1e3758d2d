"""The soak of ``make soak``, shortened."""

from pathlib import Path

from tests.e2e.soak import soak

_SECONDS = 60.0


def test_a_minute_of_faults(farm_binary: Path, tmp_path: Path) -> None:
    found = soak(farm_binary, tmp_path, _SECONDS, seed=5)
    assert sum(found.did.values()) >= 8
    assert not found.complaints()
