"""How long things take: a fixed duration, or a draw from a distribution with the provider's own random source."""

import math
import re
from random import Random
from typing import TYPE_CHECKING, Any, final

_DURATION = re.compile(r"(?:(?:\d{1,9}(?:\.\d{1,9})?)(?:ms|h|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


if TYPE_CHECKING:
    Seconds = float  # in Python code every number of seconds is accepted
else:

    class Seconds(float):
        """A duration in options: a number of seconds, or Go-style text such as ``90s``, ``1h30m`` or ``500ms``."""

        __slots__ = ()


@final
class Delay:
    """A distribution of durations in seconds. A draw below zero counts as zero.

    In options: a duration (fixed), or a mapping with one key: ``uniform: [30s, 90s]``, ``normal: [60s, 10s]`` (mean,
    deviation), ``lognormal: [60s, 0.5]`` (median, sigma) or ``choice: [30s, 30s, 5m]`` (each value equally likely).
    """

    # A plain class, so that msgspec hands it to decode_hook.
    __slots__ = ("kind", "values")

    def __init__(self, kind: str = "fixed", values: tuple[float, ...] = (0.0,)) -> None:
        self.kind = kind
        self.values = values

    def __repr__(self) -> str:
        return f"Delay({self.kind!r}, {self.values!r})"

    def draw(self, random: Random) -> float:
        """Draw one duration, in seconds."""
        match self.kind:
            case "uniform":
                return random.uniform(*self.values[:2])
            case "normal":
                return max(0.0, random.gauss(*self.values[:2]))
            case "lognormal":
                return random.lognormvariate(math.log(self.values[0]), self.values[1])
            case "choice":
                return random.choice(self.values)
            case _:
                return self.values[0]


def fixed(seconds: float) -> Delay:
    """Return the delay that always is ``seconds``."""
    return Delay("fixed", (seconds,))


def decode_hook(kind: type, raw: Any) -> Any:
    """Decode the types of this module for msgspec; raise ValueError if the input is not valid."""
    if kind is Seconds:
        return Seconds(parse_seconds(raw))
    if kind is Delay:
        return _parse_delay(raw)
    raise TypeError(f"no options of type {kind.__name__}")


def parse_seconds(raw: Any) -> float:
    """Return a duration (text or number) in seconds; raise ValueError if it is none."""
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        seconds = float(raw)
    elif isinstance(raw, str) and _DURATION.fullmatch(raw):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(raw))
    else:
        raise ValueError(f"{str(raw)[:40]!r} is not a duration (like 90s, 1h30m or a number of seconds)")
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"{raw!r} is not a duration of at least 0")
    return seconds


def _parse_delay(raw: Any) -> Delay:
    if not isinstance(raw, dict):
        return fixed(parse_seconds(raw))
    kind, values = next(iter(raw.items()), ("", ()))
    if len(raw) != 1 or kind not in ("uniform", "normal", "lognormal", "choice") or not isinstance(values, list):
        raise ValueError("a delay is a duration or one of uniform, normal, lognormal, choice with a list of values")
    if (kind != "choice" and len(values) != 2) or not values:
        raise ValueError(f"{kind} takes {'at least one value' if kind == 'choice' else 'two values'}")
    return _checked(kind, tuple(parse_seconds(value) for value in values))


def _checked(kind: str, values: tuple[float, ...]) -> Delay:
    if kind == "uniform" and values[0] > values[1]:
        raise ValueError("uniform takes the shorter duration first")
    if kind == "lognormal" and (values[0] <= 0 or values[1] > 10):
        raise ValueError("lognormal takes a median above 0 and a sigma of at most 10")
    return Delay(kind, values)
