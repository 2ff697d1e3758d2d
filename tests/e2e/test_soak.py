"""The soak of ``make soak``, shortened."""

from pathlib import Path

from tests.e2e.soak import soak

_SECONDS = 60.0


def test_a_minute_of_faults(farm_binary: Path, tmp_path: Path) -> None:
    found = soak(farm_binary, tmp_path, _SECONDS, seed=5)
    assert sum(found.did.values()) >= 8
    assert found.threads[-1] <= max(found.threads[: len(found.threads) // 2])
    half = found.mib[len(found.mib) // 2]
    assert found.mib[-1] < 1.25 * half
    assert not found.daemon.says("Traceback")
