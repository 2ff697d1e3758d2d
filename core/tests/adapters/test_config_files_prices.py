"""The file of --prices: what it says, what is refused and in which words, and that a bad one stops no loop."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from nodewright.adapters.config_files import PricesFile, read_prices
from nodewright.model.errors import ConfigError
from nodewright.model.group import GroupRef, Price
from nodewright.model.settings import ScaleUpSettings

GOOD = b"""
currencies: {EUR: 1.25}
prices:
  - {type: m5.large, per_hour: 0.1}
  - {type: m5.large, zone: z1, per_hour: 0.08, currency: EUR, as_of: 2026-11-01}
  - {type: m5.large, spot: true, per_hour: 0.03}
  - {group: aws/special, per_hour: 3}
discounts: [{family: c5, share: 0.2}]
reserved: [{type: m5.large, count: 4}]
"""
REF = GroupRef("aws", "g")


def test_a_good_file_is_in_dollars() -> None:
    book = read_prices(GOOD, "p.yaml")
    assert book.stated(REF, "m5.large", "z1", spot=False) == Price(per_hour=0.1, source="p.yaml", as_of=1793491200.0)
    assert book.stated(REF, "m5.large", "z2", spot=True) == Price(per_hour=0.03, source="p.yaml", spot=True)
    assert book.stated(GroupRef("aws", "special"), "", "", spot=False) == Price(per_hour=3.0, source="p.yaml")
    assert book.rate("EUR") == 1.25
    assert book.rate("GBP") is None
    assert [one.share for one in book.discounts] == [0.2]
    assert [one.count for one in book.reserved] == [4]


def test_an_empty_file_says_nothing() -> None:
    assert read_prices(b"", "p.yaml").by_type == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "prices: [{type: m5.large, per_hour: -1}]",
            "p.yaml: the price of type m5.large is -1, not a finite number of at least 0",
        ),
        (
            "prices: [{type: m5.large, zone: z, per_hour: .inf}]",
            "p.yaml: the price of type m5.large, zone z is inf, not a finite",
        ),
        (
            "prices: [{type: m5.large, per_hour: .nan}]",
            "p.yaml: the price of type m5.large is nan, not a finite number",
        ),
        ("prices: [{group: aws/g, per_hour: -1}]", "p.yaml: the price of group aws/g is -1, not a finite number"),
        ("prices: [{type: m5.large}]", "p.yaml: type m5.large has no price: per_hour is missing"),
        ("prices: [{type: m5.large, per_hour: null}]", "p.yaml: type m5.large has no price: per_hour is missing"),
        ("prices: [{type: m5.large, per_hour: cheap}]", "p.yaml: the price of type m5.large is 'cheap', not a number"),
        (
            "prices: [{type: m5.large, per_hour: true}]",
            "p.yaml: the price of type m5.large is the boolean true, not a number",
        ),
        (
            "prices: [{type: m, per_hour: 1}, {type: m, zone: z, per_hour: 1}, {type: m, per_hour: 1}]",
            "p.yaml: type m has two prices",
        ),
        ("prices: [{group: g, per_hour: 1}, {group: g, per_hour: 2, spot: true}]", "p.yaml: group g has two prices"),
        (
            "prices: [{type: m, per_hour: 1, currency: GBP}]",
            "p.yaml: the price of type m is in GBP, which has no rate in currencies",
        ),
        ("prices: [{type: m, per_hour: 1, currency: pounds}]", "p.yaml: prices[0].currency"),
        ("prices: [{per_hour: 1}]", "p.yaml: a price of 1 is for no type and no group"),
        (
            "prices: [{type: m, group: g, per_hour: 1}]",
            "p.yaml: the price of group g, type m is for a group and for a type",
        ),
        ("prices: [{type: m, per_hour: 1, typ: x}]", "p.yaml: unknown key prices[0].typ, did you mean type?"),
        ("prices: [{type: m, per_hour: 1, as_of: yesterday}]", "p.yaml: prices[0].as_of"),
        ("prices: [[]]", "p.yaml: prices[0]: must be a mapping, not a list"),
        ("prices: {m5.large: 0.1}", "p.yaml: prices: must be a list, not a mapping"),
        ("currencies: {USD: 1.1}", "p.yaml: currencies: USD is 1 by definition, not 1.1"),
        ("currencies: {EUR: 0}", "p.yaml: currencies"),
        ("discounts: [{family: m5, share: 30}]", "p.yaml: discounts[0].share: must be at most 1.0, not the number 30"),
        ("reserved: [{type: m5.large, count: 0}]", "p.yaml: reserved[0].count: must be at least 1, not the number 0"),
        ("[]", "p.yaml: must hold one mapping"),
        ("prices: [", "p.yaml line 2: did not find expected node content"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_prices(text.encode(), "p.yaml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


class Given:
    def __init__(self, path: Path) -> None:
        self.settings = ScaleUpSettings(prices=str(path))
        self.file = PricesFile(lambda: self.settings)


@pytest.fixture
def given(tmp_path: Path) -> Given:
    (tmp_path / "p.yaml").write_bytes(GOOD)
    return Given(tmp_path / "p.yaml")


def test_a_changed_file_is_read_again_and_a_bad_one_changes_nothing(given: Given) -> None:
    path = Path(given.settings.prices)
    before = given.file.read()
    assert given.file.read() is before
    path.write_text("prices: [{type: m5.large, per_hour: -1}]")
    assert given.file.read() is before
    assert given.file.problem == f"{path}: the price of type m5.large is -1, not a finite number of at least 0"
    path.unlink()
    assert given.file.read() is before
    assert given.file.problem == f"--prices: {path} cannot be read: No such file or directory"
    path.write_text("prices: [{type: m5.large, per_hour: 7}]")
    found = given.file.read().stated(REF, "m5.large", "", spot=False)
    assert found is not None
    assert (found.per_hour, given.file.problem) == (7.0, "")


def test_at_the_start_a_bad_file_is_refused(given: Given) -> None:
    given.file.check()
    Path(given.settings.prices).write_text("prices: 1")
    with pytest.raises(ConfigError, match="prices: must be a list"):
        given.file.check()


def test_the_settings_may_change_while_running(given: Given) -> None:
    assert not given.file.read().assumes
    given.settings = replace(given.settings, assume_prices=True)
    assert given.file.read().assumes
    given.settings = ScaleUpSettings()
    assert given.file.read().by_type == {}
    assert not given.file.read().assumes
