"""Read the operator's own prices (``--prices``), before each loop again if the file has changed."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from nodewright.adapters.reloaded_file import ReloadedFile, read_mapping
from nodewright.model.errors import ConfigError
from nodewright.model.group import Price
from nodewright.model.price_book import CURRENCY, Key, PriceBook, PriceFile, PriceRow
from nodewright.model.printable import printable, show
from nodewright.model.settings import ScaleUpSettings
from nodewright.spec.options import decode_options


class PricesFile:
    """Gives the engine the prices of ``--prices``."""

    def __init__(self, settings: Callable[[], ScaleUpSettings]) -> None:
        self._settings = settings
        self._file = ReloadedFile("prices", read_prices, PriceBook())
        self._content = self._book = PriceBook()

    @property
    def problem(self) -> str:
        """Return what is wrong with the file; empty: nothing."""
        return self._file.problem

    def check(self) -> None:
        """Raise ConfigError if the file cannot be used."""
        self.read()
        self._file.demand()

    def read(self) -> PriceBook:
        """Return the prices as they are now; the same object as long as nothing has changed."""
        wanted = self._settings()
        content = self._file.read(wanted.prices)
        if content is not self._content or self._book.assumes != wanted.assume_prices:
            self._content, self._book = content, replace(content, assumes=wanted.assume_prices)
        return self._book


def read_prices(text: bytes, name: str) -> PriceBook:
    """Return the prices of a file; raise ConfigError with a sentence that names the file, the group and the type."""
    raw = read_mapping(text, name, "prices: […]")
    _check_amounts(raw, name)
    file = decode_options(raw, PriceFile, name)
    if file.currencies.get(CURRENCY, 1.0) != 1.0:
        raise ConfigError(f"{name}: currencies: {CURRENCY} is 1 by definition, not {file.currencies[CURRENCY]:g}")
    _check_rows(file, name)
    rates = dict(file.currencies)
    return PriceBook(
        name=name,
        rates=rates,
        by_group=_index((row for row in file.prices if row.group), rates, name),
        by_type=_index((row for row in file.prices if not row.group), rates, name),
        discounts=file.discounts,
        reserved=file.reserved,
    )


def _check_amounts(raw: Mapping[str, Any], name: str) -> None:
    """Check the amounts before the rest, to name the group and the type of a bad one."""
    rows = raw.get("prices")
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        amount, what = row.get("per_hour"), _what(row.get("group"), row.get("type"), row.get("zone"))
        if amount is None:
            raise ConfigError(f"{name}: {what} has no price: per_hour is missing")
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise ConfigError(f"{name}: the price of {what} is {show(amount)}, not a number")
        if not (math.isfinite(amount) and amount >= 0):
            raise ConfigError(f"{name}: the price of {what} is {amount}, not a finite number of at least 0")


def _check_rows(file: PriceFile, name: str) -> None:
    for row in file.prices:
        what = _what(row.group, row.type, row.zone)
        if not (row.type or row.group):
            raise ConfigError(f"{name}: a price of {row.per_hour:g} is for no type and no group")
        if row.group and (row.type or row.zone):
            raise ConfigError(f"{name}: the price of {what} is for a group and for a type or zone; give two rows")
        if row.currency != CURRENCY and row.currency not in file.currencies:
            raise ConfigError(f"{name}: the price of {what} is in {row.currency}, for which currencies has no rate")


def _index(rows: Iterable[PriceRow], rates: Mapping[str, float], name: str) -> dict[Key, Price]:
    """Return the rows by what they are for, in USD."""
    found: dict[Key, Price] = {}
    for row in rows:
        key = (row.group, "", False) if row.group else (row.type, row.zone, row.spot)
        if key in found:
            raise ConfigError(f"{name}: {_what(row.group, row.type, row.zone)} has two prices")
        per_hour = row.per_hour * (1.0 if row.currency == CURRENCY else rates[row.currency])
        found[key] = Price(per_hour=per_hour, source=name, as_of=_moment(row.as_of), spot=row.spot)
    return found


def _moment(day: date | None) -> float | None:
    """Return the beginning of a day in UTC."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() if day is not None else None


def _what(group: object, kind: object, zone: object) -> str:
    parts = ((group, "group"), (kind, "type"), (zone, "zone"))
    return ", ".join(f"{word} {printable(str(value))}" for value, word in parts if value) or "a row without a type"
