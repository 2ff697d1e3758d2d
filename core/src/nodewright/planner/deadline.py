"""Budgets of time: planning reads no clock, and asks how much has passed."""

from collections.abc import Callable

from nodewright.estimator.limits import IsOver


def deadline(elapsed: Callable[[], float], seconds: float) -> IsOver:
    """Tells whether more than so many seconds have passed since it was made; with 0 they never have."""
    began = elapsed()
    return lambda: 0 < seconds < elapsed() - began
