"""Quantities, by the rules measured with Go's library (docs/behaviour/scheduling.md#quantities)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodewright.model.quantity import MAX_UNITS, NANO, Quantity

DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
SCALES = {suffix: Fraction(10) ** power for suffix, power in DECIMAL.items()} | {
    suffix: Fraction(2**power) for suffix, power in BINARY.items()
}


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("0", 0, 0),
        ("0.1", 1, 100),
        ("1n", 1, 1),
        ("1.5Gi", 1610612736, 1610612736000),
        ("0.1Ki", 103, 102400),
        ("1.1Mi", 1153434, 1153433600),
        ("4000.5m", 5, 4001),
        ("1001m", 2, 1001),
        ("-1.5", -2, -1500),
        (".5", 1, 500),
        ("1.", 1, 1000),
        ("1.G", 10**9, 10**12),
        ("+1", 1, 1000),
        ("e3", 0, 0),
        (".", 0, 0),
        ("k", 0, 0),
        ("+", 0, 0),
        ("2e3", 2000, 2000000),
        ("2E3", 2000, 2000000),
        ("2E", 2 * 10**18, 2 * 10**21),
        ("1e-3", 1, 1),
        ("15e-4", 1, 2),
        ("1e-12", 1, 1),
        ("-1e-12", -1, -1),
    ],
)
def test_values_are_those_of_kubernetes(text: str, value: int, milli: int) -> None:
    quantity = Quantity.of(text)
    assert (quantity.value, quantity.milli) == (value, milli)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1K",
        " 1",
        "1 ",
        "1mi",
        "1_000",
        "0x10",
        "abc",
        "1e",
        "1e+",
        "1e1.5",
        "--1",
        "1..2",
        "1GiB",
        "NaN",
        "inf",
        "1\u0661",
    ],
)
def test_what_kubernetes_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="is not a quantity"):
        Quantity.of(text)


@pytest.mark.parametrize(
    "text", ["1e3000000", "9223372036854775807Ei", "1e" + "9" * 100, "9" * 10**6, "1e" + "9" * 10**4]
)
def test_what_cannot_be_counted_saturates(text: str) -> None:
    """Of any length: the API server takes a pod that says so, and keeps its text."""
    assert Quantity.of(text).value == MAX_UNITS
    assert Quantity.of("-" + text).value == -MAX_UNITS


def test_digits_that_count_for_nothing_are_passed_over() -> None:
    zeros = "0" * 10**5
    assert Quantity.of(f"{zeros}1.5{zeros}Ki").value == 1536
    assert Quantity.of(f"1{zeros}e-{len(zeros)}").value == 1
    assert Quantity.of(f"1e{zeros}3").value == 1000
    assert Quantity.of(f"0.{zeros}1").nano == 1
    assert Quantity.of(f"{zeros}.{zeros}").nano == 0
    assert Quantity.of(f"2.{zeros}1").nano == 2 * NANO + 1
    assert Quantity.of(f"1{'3' * 90}e-91").nano == 133_333_334


def test_a_tiny_amount_costs_nothing_and_counts_as_one_nano_unit() -> None:
    assert Quantity.of("1e-3000000").nano == 1


def test_a_long_text_is_cut_in_the_message() -> None:
    with pytest.raises(ValueError, match=r"x{37}\.\.\.") as caught:
        Quantity.of("x" * 10**6)
    assert len(str(caught.value)) < 120


@given(
    st.sampled_from(["", "+", "-"]),
    st.text("0123456789", min_size=1, max_size=90),
    st.one_of(st.none(), st.text("0123456789", max_size=90)),
    st.one_of(st.sampled_from(sorted(SCALES)), st.integers(-40, 40)),
)
def test_parsing_equals_exact_arithmetic(sign: str, whole: str, decimals: str | None, scale: str | int) -> None:
    point = "" if decimals is None else f".{decimals}"
    suffix = scale if isinstance(scale, str) else f"e{scale}"
    factor = SCALES[scale] if isinstance(scale, str) else Fraction(10) ** scale
    exact = Fraction(f"{whole}.{decimals or 0}") * factor * NANO
    nano = min(-(-exact.numerator // exact.denominator), MAX_UNITS * NANO)
    assert Quantity.of(f"{sign}{whole}{point}{suffix}").nano == (-nano if sign == "-" else nano)


quantities = st.integers(-MAX_UNITS * NANO, MAX_UNITS * NANO).map(Quantity)


@given(quantities)
def test_text_reads_back_as_the_same_quantity(quantity: Quantity) -> None:
    assert Quantity.of(str(quantity)) == quantity


@given(quantities, quantities)
def test_sums_and_order_are_exact_until_they_saturate(one: Quantity, other: Quantity) -> None:
    bound = MAX_UNITS * NANO
    assert (one + other).nano == max(-bound, min(bound, one.nano + other.nano))
    assert (one - other).nano == max(-bound, min(bound, one.nano - other.nano))
    assert (one < other) == (one.nano < other.nano)
    assert (one == other) == (one.nano == other.nano)


@given(quantities)
def test_whole_units_round_away_from_zero(quantity: Quantity) -> None:
    exact = Fraction(quantity.nano, NANO)
    away = -(-abs(exact.numerator) // exact.denominator)
    assert quantity.value == (away if exact >= 0 else -away)
