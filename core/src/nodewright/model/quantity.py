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
_MAX_TEXT = 128

_PATTERN = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>|[numkMGTPE]|[KMGTPE]i|[eE](?P<exponent>[+-]?[0-9]+))"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Past this power of ten every non-zero mantissa of _MAX_TEXT characters saturates or rounds up to 1n.
_EXPONENT_BOUND = _MAX_TEXT + 20


class Quantity:
    """An exact amount of one resource; compares, adds and hashes by value."""

    __slots__ = ("nano",)

    def __init__(self, nano: int) -> None:
        self.nano = max(-_MAX_NANO, min(_MAX_NANO, nano))

    @staticmethod
    def of(source: str | float) -> "Quantity":
        """Parse a manifest's value; raises ValueError saying what is wrong with it."""
        return _parse(str(source))

    @property
    def value(self) -> int:
        """Whole units, rounded away from zero."""
        return _divide_away(self.nano, NANO)

    @property
    def milli(self) -> int:
        """Thousandths of a unit, rounded away from zero."""
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
        """Canonical decimal form: the largest suffix that leaves a whole mantissa."""
        if self.nano == 0:
            return "0"
        mantissa, suffixes = self.nano, ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"]
        while mantissa % 1000 == 0 and len(suffixes) > 1:
            mantissa //= 1000
            suffixes.pop(0)
        return f"{mantissa}{suffixes[0]}"


ZERO = Quantity(0)


@lru_cache(maxsize=65536)
def _parse(text: str) -> Quantity:
    found = _PATTERN.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if found is None or not text:
        shown = text if len(text) <= 40 else text[:37] + "..."
        raise ValueError(f"{shown!r} is not a quantity (like 500m, 1.5Gi or 2e3)")
    part = found["part"] or ""
    digits = int((found["whole"] + part) or "0")
    nano = _scale(digits, len(part), found["suffix"], found["exponent"])
    return Quantity(-nano if found["sign"] == "-" else nano)


def _scale(digits: int, decimals: int, suffix: str, exponent: str | None) -> int:
    """Nano-units of ``digits`` × 10^-decimals × suffix, rounded up."""
    if suffix in _BINARY:
        return _divide_away((digits << _BINARY[suffix]) * NANO, 10**decimals)
    power = int(exponent) if exponent is not None else _DECIMAL[suffix]
    shift = max(-_EXPONENT_BOUND, min(_EXPONENT_BOUND, power)) + 9 - decimals
    return digits * 10**shift if shift >= 0 else _divide_away(digits, 10**-shift)


def _divide_away(number: int, divisor: int) -> int:
    """Division that rounds away from zero, as Kubernetes rounds quantities."""
    rounded = -(-abs(number) // divisor)
    return rounded if number >= 0 else -rounded
