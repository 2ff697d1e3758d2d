"""Resource quantities by Kubernetes' exact rules.

A quantity is kept as an integer count of nano-units, the finest step that Kubernetes stores; anything
finer is rounded away from zero. Magnitudes saturate at 2**63 - 1 units, so that a manifest that says
``1e3000000`` costs neither time nor memory.
"""

import re
from functools import lru_cache

NANO = 10**9
MAX_UNITS = 2**63 - 1
_MAX_NANO = MAX_UNITS * NANO
# Longer texts are not cached. They must be parsed, because the API server accepts texts of any length.
_USUAL_TEXT = 128
# More digits than matter for any quantity and suffix. The digits after them only decide whether to round up.
_DIGITS = 80

_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>|[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Past this power of ten every non-zero mantissa of that many digits saturates or rounds up to 1n.
_EXPONENT_BOUND = 2 * _DIGITS


class Quantity:
    """An exact amount of one resource; compares, adds and hashes by value."""

    __slots__ = ("nano",)

    def __init__(self, nano: int) -> None:
        self.nano = max(-_MAX_NANO, min(_MAX_NANO, nano))

    @staticmethod
    def of(source: str | float) -> "Quantity":
        """Parse a manifest's value. Raise ValueError if it is not a quantity."""
        text = str(source)
        return _remembered(text) if len(text) <= _USUAL_TEXT else _parse(text)

    @property
    def value(self) -> int:
        """Return whole units, rounded away from zero."""
        return _divide_away(self.nano, NANO)

    @property
    def milli(self) -> int:
        """Return thousandths of a unit, rounded away from zero."""
        return _divide_away(self.nano, 10**6)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano + other.nano)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nano - other.nano)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """Return the canonical decimal form, with the largest suffix that leaves a whole mantissa."""
        if self.nano == 0:
            return "0"
        mantissa, suffixes = self.nano, ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
        while mantissa % 1000 == 0 and len(suffixes) > 1:
            mantissa //= 1000
            suffixes.pop(0)
        return f"{mantissa}{suffixes[0]}"


ZERO = Quantity(0)


def _parse(text: str) -> Quantity:
    found = _PATTERN.fullmatch(text)
    if found is None or not text:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(f"{shown!r} is not a quantity (like 500m, 1.5Gi or 2e3)")
    part = found["part"] or ""
    digits, rest = _cut(found["whole"] + part)
    suffix, exponent = found["suffix"], found["exponent"]
    power = _read_exponent(exponent) if exponent is not None else _DECIMAL.get(suffix, 0)
    nano = _scale(digits << _BINARY.get(suffix, 0), power + rest - len(part) + 9)
    return Quantity(-nano if found["sign"] == "-" else nano)


_remembered = lru_cache(maxsize=65536)(_parse)


def _cut(digits: str) -> tuple[int, int]:
    """Return the first _DIGITS digits as a number, rounded up, and the number of digits after them."""
    digits = digits.lstrip("0")
    kept, rest = digits[:_DIGITS], digits[_DIGITS:]
    return int(kept or "0") + bool(rest.strip("0")), len(rest)


def _read_exponent(text: str) -> int:
    """Return the exponent, read from at most _DIGITS digits: Python refuses to parse thousands of digits."""
    size = int(text.lstrip("+-").lstrip("0")[:_DIGITS] or "0")
    return -size if text.startswith("-") else size


def _scale(number: int, power: int) -> int:
    """Return ``number`` × 10^``power``, rounded up."""
    shift = max(-_EXPONENT_BOUND, min(_EXPONENT_BOUND, power))
    return number * 10**shift if shift >= 0 else _divide_away(number, 10**-shift)


def _divide_away(number: int, divisor: int) -> int:
    """Divide and round away from zero, as Kubernetes rounds quantities."""
    rounded = -(-abs(number) // divisor)
    return rounded if number >= 0 else -rounded
