"""Compare variants: means, paired differences to a baseline with bootstrap intervals, the Pareto front, and gates."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec
import numpy as np

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable, suggest
from nodewright_simulator.sweep.figures import FIGURES, OBJECTIVES, Number, in_words

_RESAMPLES = 4000
_MOST_DRAWN = 1_000_000  # at once: 8 MB of indices
_LEVEL = (2.5, 97.5)


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run with its figures, as in the JSON lines; ``settings`` are all that are set, ``report`` is a path or empty."""

    id: str
    sweep: str
    variant: str
    scenario: str
    seed: int
    version: str
    settings: dict[str, object]
    figures: dict[str, Number]
    report: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A figure of a variant beside that of the baseline, over ``pairs`` pairs of runs with the same scenario and seed.

    ``change`` is of the mean, in units of the figure; ``relative`` is its share of the baseline (None: that is 0).
    ``low`` and ``high`` are the 95 % interval of ``change``, and None if each scenario has one seed.
    """

    variant: str
    scenario: str
    figure: str
    pairs: int
    before: float
    after: float
    low: float | None
    high: float | None

    @property
    def change(self) -> float:
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        return self.change / self.before if self.before else None

    @property
    def is_clear(self) -> bool:
        """Return whether the interval leaves no doubt about the sign."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


Pair = tuple[float, float]


def mean(rows: Sequence[Row], figure: str) -> Number:
    """Return the mean over the runs that know the figure; None if none does."""
    known = [value for row in rows if (value := row.figures[figure]) is not None]
    return fmean(known) if known else None


def compare(rows: Sequence[Row], partners: Mapping[str, Row], figure: str) -> Difference | None:
    """Compare rows of one variant with their partners by id; None if no pair knows the figure.

    A pair is two runs of the same scenario with the same seed. The bootstrap draws seeds within each scenario: the
    scenarios are chosen, the seeds are a sample.
    """
    strata: dict[str, list[Pair]] = {}
    for row in rows:
        partner = partners.get(row.id)
        before, after = partner.figures[figure] if partner is not None else None, row.figures[figure]
        if before is not None and after is not None:
            strata.setdefault(row.scenario, []).append((before, after))
    pairs = [pair for stratum in strata.values() for pair in stratum]
    if not pairs:
        return None
    low, high = _interval(list(strata.values()))
    return Difference(
        variant=rows[0].variant,
        scenario=rows[0].scenario if len(strata) == 1 else "",
        figure=figure,
        pairs=len(pairs),
        before=fmean(before for before, _ in pairs),
        after=fmean(after for _, after in pairs),
        low=low,
        high=high,
    )


def _interval(strata: Sequence[Sequence[Pair]]) -> tuple[float | None, float | None]:
    """Return the 95 % percentile interval of the mean change."""
    if all(len(stratum) < 2 for stratum in strata):
        return None, None
    random, total = np.random.default_rng(0), np.zeros(_RESAMPLES)
    for stratum in strata:
        changes = np.array([after - before for before, after in stratum])
        step = max(1, _MOST_DRAWN // len(changes))
        for first in range(0, _RESAMPLES, step):
            part = total[first : first + step]
            part += changes[random.integers(0, len(changes), (len(part), len(changes)))].sum(axis=1)
    low, high = np.percentile(total / sum(map(len, strata)), _LEVEL)
    return float(low), float(high)


def find_front(points: Mapping[str, Sequence[float]]) -> frozenset[str]:
    """Return the names that no other beats: none is as good in everything and better in something. Less is better."""

    def beats(one: Sequence[float], other: Sequence[float]) -> bool:
        return all(a <= b for a, b in zip(one, other, strict=True)) and tuple(one) != tuple(other)

    return frozenset(
        name for name, point in points.items() if not any(beats(other, point) for other in points.values())
    )


def objectives(rows: Sequence[Row]) -> tuple[float, ...]:
    """Return the means that the front weighs; an unknown cost counts as 0 for all."""
    return tuple(mean(rows, figure) or 0.0 for figure in OBJECTIVES)


_GATE = re.compile(r"\s*(\w+)\s*([<>])\s*([+-]?)(\d+(?:\.\d+)?)\s*(%?)\s*")


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A condition that must not hold: ``cost > +2%``. Without a sign and ``%`` it is about the figure itself, not its change."""

    text: str
    figure: str
    is_above: bool
    bound: float
    is_change: bool
    is_relative: bool

    @staticmethod
    def read(text: str) -> "Gate":
        """Return the gate that ``--fail-if`` describes; raise ConfigError."""
        found = _GATE.fullmatch(text)
        if found is None:
            raise ConfigError(
                f"--fail-if {printable(text)}: is not of the form 'cost > +2%', 'p99_wait > +30' or 'cost > 100'"
            )
        figure, sign, plus, number, percent = found.groups()
        if figure not in FIGURES:
            known = suggest(figure, FIGURES) or f"; there are {', '.join(FIGURES)}"
            raise ConfigError(f"--fail-if {text}: there is no figure {printable(figure)}{known}")
        bound = float(number) * (-1 if plus == "-" else 1)
        return Gate(
            text=" ".join(text.split()),
            figure=figure,
            is_above=sign == ">",
            bound=bound / 100 if percent else bound,
            is_change=bool(plus or percent),
            is_relative=bool(percent),
        )

    def judge(self, rows: Sequence[Row], partners: Mapping[str, Row]) -> str | None:
        """Return how rows of one variant break the gate; None if they do not. Raise ConfigError if a figure is not known."""
        where = f"--fail-if {self.text}: {rows[0].variant}"
        if not self.is_change:
            value = mean(rows, self.figure)
            if value is None:
                raise ConfigError(f"{where}: {self.figure} is not known")
            return (
                f"{rows[0].variant}: {self.text}: it is {in_words(self.figure, value)}" if self._breaks(value) else None
            )
        found = compare(rows, partners, self.figure)
        if found is None:
            raise ConfigError(f"{where}: {self.figure} is not known, or the baseline has no runs with the same seeds")
        value = found.relative if self.is_relative else found.change
        if value is None:
            value = float("inf") if found.change else 0.0
        return f"{rows[0].variant}: {self.text}: {say_change(found)}" if self._breaks(value) else None

    def _breaks(self, value: float) -> bool:
        return value > self.bound if self.is_above else value < self.bound


def say_change(found: Difference) -> str:
    """Return ``$12.00 → $13.00 (+8.3%, 95% interval +$0.50 to +$1.50)``."""
    said = f"{in_words(found.figure, found.before)} → {in_words(found.figure, found.after)}"
    more = [f"{found.relative:+.1%}"] if found.relative is not None else []
    more += [f"95% interval {say_interval(found)}"] if found.low is not None else []
    return f"{said} ({', '.join(more)})" if more else said


def say_interval(found: Difference) -> str:
    """Return ``+$0.50 to +$1.50``; nothing if there is no interval."""
    if found.low is None or found.high is None:
        return ""
    return " to ".join(
        f"{'-' if edge < 0 else '+'}{in_words(found.figure, abs(edge))}" for edge in (found.low, found.high)
    )
