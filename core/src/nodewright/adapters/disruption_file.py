"""Read the operator's disruption budgets and schedules (``--disruption-config``), before each loop again if the file has changed."""

import difflib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from nodewright.adapters.reloaded_file import ReloadedFile, read_mapping
from nodewright.model.disruption import NO_DISRUPTION_CONFIG, DisruptionConfig, Window
from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.printable import show
from nodewright.model.settings import SafetySettings
from nodewright.spec.options import decode_options

_CRON_FIELDS = 5


class DisruptionFile:
    """Gives the engine the content of ``--disruption-config``."""

    def __init__(self, settings: Callable[[], SafetySettings]) -> None:
        self._settings = settings
        self._file = ReloadedFile("disruption-config", read_disruption, NO_DISRUPTION_CONFIG)

    @property
    def problem(self) -> str:
        """Return what is wrong with the file; empty: nothing."""
        return self._file.problem

    def check(self) -> None:
        """Raise ConfigError if the file cannot be used."""
        self.read()
        self._file.demand()

    def read(self) -> DisruptionConfig:
        """Return the budgets and schedules as they are now."""
        return self._file.read(self._settings().disruption_config)


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
        raise ConfigError(f"{place}.timezone: {show(window.timezone)} is no time zone{hint}") from None
    fields = window.cron.split()
    if len(fields) != _CRON_FIELDS:
        raise ConfigError(f"{place}.cron: {show(window.cron)} has {len(fields)} fields, not 5 such as 0 8 * * 1-5")
    try:
        found = next(CronSim(window.cron, datetime.fromtimestamp(0, UTC).astimezone(zone)), None)
    except CronSimError as error:
        raise ConfigError(f"{place}.cron: {show(window.cron)} is no cron expression: {error}") from None
    if found is None:
        raise ConfigError(f"{place}.cron: {show(window.cron)} never comes")
    _check_duration(window.length, f"{place}.for", "a duration such as 10h")


def _check_duration(text: str, place: str, kind: str) -> None:
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise ConfigError(f"{place}: {show(text)} is not {kind}")
