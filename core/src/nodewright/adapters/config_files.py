"""The configuration files of prices (``--prices``) and of disruption budgets and schedules (``--disruption-config``).

They are read before each loop, and parsed again if they have changed.
"""

import difflib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from nodewright.model.disruption import NO_DISRUPTION_CONFIG, Budget, DisruptionConfig, Window
from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.group import Price
from nodewright.model.price_book import CURRENCY, Key, PriceBook, PriceFile, PriceRow
from nodewright.model.printable import printable, show
from nodewright.model.settings import SafetySettings, ScaleUpSettings
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options

T = TypeVar("T")


class ReloadedFile(Generic[T]):
    """Reads the file that ``flag`` names. While the file is invalid, the last valid content stays in use.

    ``parse`` gets the text and the path, and raises ConfigError. Without a file the content is ``nothing``. ``problem`` says
    what is wrong with the file; empty: the file is valid.
    """

    def __init__(self, flag: str, parse: Callable[[bytes, str], T], nothing: T) -> None:
        self._flag, self._parse, self._nothing = flag, parse, nothing
        self._path = ""
        self._text: bytes | None = None
        self._content = nothing
        self.problem = ""

    def read(self, path: str) -> T:
        """Return the present content; an empty path means that there is no file."""
        if not path:
            self._path, self._text, self.problem, self._content = "", None, "", self._nothing
            return self._content
        try:
            text = Path(path).read_bytes()
        except OSError as error:
            self._path, self._text = path, None
            self.problem = f"--{self._flag}: {printable(path)} cannot be read: {error.strerror}"
            return self._content
        return self.take(path, text)

    def take(self, name: str, text: bytes) -> T:
        """Return the content of ``text``, which is parsed only if it has changed."""
        if (name, text) != (self._path, self._text):
            self._path, self._text = name, text
            try:
                self._content, self.problem = self._parse(text, name), ""
            except ConfigError as error:
                self.problem = str(error)
        return self._content

    def miss(self, problem: str) -> T:
        """Return the last valid content, since there is no text now."""
        self._text, self.problem = None, problem
        return self._content

    def forget(self) -> None:
        """Forget the last valid content: there is nothing to read now, and that is no problem."""
        self._text, self._content, self.problem = None, self._nothing, ""

    def demand(self) -> None:
        """Raise ConfigError if the file cannot be used."""
        if self.problem:
            raise ConfigError(self.problem)


class ConfigFile(ABC, Generic[T]):
    """Gives the engine the content of a file that a setting names."""

    def __init__(self, file: ReloadedFile[T]) -> None:
        self._file = file

    @abstractmethod
    def read(self) -> T:
        """Return the present content."""

    @property
    def problem(self) -> str:
        """Return what is wrong with the file; empty: the file is valid."""
        return self._file.problem

    def check(self) -> None:
        """Raise ConfigError if the file cannot be used."""
        self.read()
        self._file.demand()


def read_mapping(text: bytes, name: str, holding: str) -> dict[str, Any]:
    """Return the one mapping of a YAML text, empty if it has none. Raise ConfigError; ``holding`` says what it should hold."""
    documents = [part for part in load_yaml(text, name, string_keys=True) if part is not None]
    if len(documents) > 1 or not all(isinstance(part, dict) for part in documents):
        raise ConfigError(f"{name}: must hold one mapping, with {holding}")
    found: dict[str, Any] = documents[0] if documents else {}
    return found


class PricesFile(ConfigFile[PriceBook]):
    """Gives the engine the prices of ``--prices``."""

    def __init__(self, settings: Callable[[], ScaleUpSettings]) -> None:
        super().__init__(ReloadedFile("prices", read_prices, PriceBook()))
        self._settings = settings
        self._content = self._book = PriceBook()

    def read(self) -> PriceBook:
        """Return the present prices; the same object as long as nothing has changed."""
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
            raise ConfigError(f"{name}: the price of {what} is in {row.currency}, which has no rate in currencies")


def _index(rows: Iterable[PriceRow], rates: Mapping[str, float], name: str) -> dict[Key, Price]:
    """Return the prices in USD, by group or by type, zone and spot; raise ConfigError if two rows have one key."""
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


_CRON_FIELDS = 5


# The key of a ConfigMap that holds the text of a file of --disruption-config.
DISRUPTION_KEY = "disruption.yaml"
# In force while a ConfigMap exists of which no valid text has been read: it may hold a budget.
_NONE_GOES = DisruptionConfig(disruption=(Budget(nodes=0),))


class DisruptionFile(ConfigFile[DisruptionConfig]):
    """Gives the engine the content of ``--disruption-config``, and of the ConfigMap that it follows in addition.

    ``absence`` says that there is no such ConfigMap; empty: there is one, or none is named.
    """

    def __init__(self, settings: Callable[[], SafetySettings]) -> None:
        super().__init__(ReloadedFile("disruption-config", read_disruption, NO_DISRUPTION_CONFIG))
        self._settings = settings
        self._map = ReloadedFile("disruption-config-map-name", read_disruption, _NONE_GOES)
        self._map_name = self.absence = ""
        self._read_map: Callable[[], Mapping[str, str] | None] = dict
        self._joined = (NO_DISRUPTION_CONFIG, _NONE_GOES, _NONE_GOES)

    def follow(self, name: str, read: Callable[[], Mapping[str, str] | None]) -> None:
        """Also read the ConfigMap ``name`` (empty: none). ``read`` returns its data; None: the API server says that there is none."""
        self._map_name, self._read_map = name, read

    @property
    def problem(self) -> str:
        """Return what is wrong with the file or the ConfigMap; empty: both are valid."""
        return "; ".join(filter(None, (self._file.problem, self._map.problem)))

    def read(self) -> DisruptionConfig:
        """Return the budgets and schedules as they are now; the same object as long as nothing has changed."""
        file = self._file.read(self._settings().disruption_config)
        if not self._map_name:
            return file
        held = self._read_config_map()
        if file is not self._joined[0] or held is not self._joined[1]:
            budgets, schedules = (*file.disruption, *held.disruption), (*file.schedules, *held.schedules)
            self._joined = (file, held, DisruptionConfig(disruption=budgets, schedules=schedules))
        return self._joined[2]

    def _read_config_map(self) -> DisruptionConfig:
        name, data = f"ConfigMap {printable(self._map_name)}", self._read_map()
        self.absence = ""
        if data is None:
            self._map.forget()
            self.absence = f"--disruption-config-map-name: there is no {name}, so no budgets or schedules of it hold"
            return NO_DISRUPTION_CONFIG
        text = data.get(DISRUPTION_KEY)
        if text is None:
            return self._map.miss(f"--disruption-config-map-name: {name} has no key {DISRUPTION_KEY}")
        return self._map.take(name, text.encode())


def read_disruption(text: bytes, name: str) -> DisruptionConfig:
    """Return the budgets and schedules of a file; raise ConfigError with a sentence that names the file and the key."""
    raw = read_mapping(text, name, "disruption: […] and schedules: […]")
    config = decode_options(raw, DisruptionConfig, name)
    for place, window in _windows(config):
        _check_window(window, f"{name}: {place}")
    for index, schedule in enumerate(config.schedules):
        place, wanted = f"{name}: schedules[{index}]", schedule.set
        if not wanted.given():
            raise ConfigError(f"{place}.set: sets nothing")
        if wanted.min is not None and wanted.max is not None and wanted.min > wanted.max:
            raise ConfigError(f"{place}.set: min {wanted.min} is more than max {wanted.max}")
        if schedule.lead not in ("", "auto"):
            _check_duration(schedule.lead, f"{place}.lead", "a duration such as 5m, or auto")
        if schedule.lead and wanted.min is None:
            raise ConfigError(f"{place}.lead: only a schedule that sets min has a lead")
    return config


def _windows(config: DisruptionConfig) -> Iterator[tuple[str, Window]]:
    """Yield each window with its place in the file."""
    for index, budget in enumerate(config.disruption):
        if budget.when is not None:
            yield f"disruption[{index}].when", budget.when
    for index, schedule in enumerate(config.schedules):
        yield f"schedules[{index}].when", schedule.when


def _check_window(window: Window, place: str) -> None:
    try:
        zone = ZoneInfo(window.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        near = difflib.get_close_matches(window.timezone, available_timezones(), n=1)
        hint = f", did you mean {near[0]}?" if near else ""
        raise ConfigError(f"{place}.timezone: {show(window.timezone)} is not a time zone{hint}") from None
    fields = window.cron.split()
    if len(fields) != _CRON_FIELDS:
        raise ConfigError(f"{place}.cron: {show(window.cron)} has {len(fields)} fields, not 5 such as 0 8 * * 1-5")
    try:
        found = next(CronSim(window.cron, datetime.fromtimestamp(0, UTC).astimezone(zone)), None)
    except CronSimError as error:
        raise ConfigError(f"{place}.cron: {show(window.cron)} is not a cron expression: {error}") from None
    if found is None:
        raise ConfigError(f"{place}.cron: {show(window.cron)} never occurs")
    _check_duration(window.length, f"{place}.for", "a duration such as 10h")


def _check_duration(text: str, place: str, kind: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"{place}: {show(text)} is not {kind}")
