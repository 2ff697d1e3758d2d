"""Settings that change while the daemon runs: the file is read again before each loop."""

from typing import NamedTuple

from nodewright.cli.settings.checks import check_daemon
from nodewright.cli.settings.flags import SettingsSource
from nodewright.cli.settings.known_flags import SETTINGS
from nodewright.cli.settings.values import Setting
from nodewright.model.errors import ConfigError
from nodewright.model.settings import Settings, take_over

# Sections that are used once to build the process; settings that decide how the saved state is read; settings that
# decide which kinds are watched; the format of the log, which is chosen at the start.
_FIXED_SECTIONS = frozenset(("cluster", "leader", "serving"))
_FIXED = frozenset(("profile", "size-correction", "parallel-scale-up", "logging-format"))
_FIXED |= {"enable-provisioning-requests", "enable-provisioning-classes", "capacity-quotas-enabled"}
_FIXED |= {"capacity-buffer-controller-enabled", "capacity-buffer-pod-injection-enabled"}


class Change(NamedTuple):
    """The effect of a changed settings file.

    ``applied`` and ``waiting`` (for a restart) name settings; ``problem`` says why the file is not used.
    """

    settings: Settings
    applied: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    problem: str = ""


class Reloader:
    """Watches the settings file of ``source``. ``text`` is what the file held when ``settings`` were read from it."""

    def __init__(self, source: SettingsSource, settings: Settings, text: bytes | str | None) -> None:
        self._source = source
        self._settings = settings
        self._text = text

    @property
    def settings(self) -> Settings:
        """Return the settings that the process runs with."""
        return self._settings

    def look(self) -> Change | None:
        """Return what changed in the file; None if it did not change."""
        text = _read(self._source)
        if text == self._text:
            return None
        self._text = text
        if isinstance(text, str):
            return Change(self._settings, problem=text)
        try:
            wanted = self._source.load().settings
            self._check(wanted)
        except ConfigError as error:
            return Change(self._settings, problem=str(error))
        changed = [setting for setting in SETTINGS.values() if _get(wanted, setting) != _get(self._settings, setting)]
        safe = [setting for setting in changed if is_safe(setting)]
        fixed = [setting.flag for setting in changed if not is_safe(setting)]
        providers = [] if wanted.providers == self._settings.providers else ["providers"]
        self._settings = take_over(self._settings, wanted, ((setting.section, setting.field) for setting in safe))
        return Change(self._settings, applied=tuple(setting.flag for setting in safe), waiting=(*fixed, *providers))

    def _check(self, wanted: Settings) -> None:
        """Raise ConfigError for settings that the daemon would not start with.

        A file that is being written is empty for a moment, and would lift every limit.
        """
        check_daemon(wanted)
        if self._settings.providers and not wanted.providers:
            raise ConfigError(f"{self._source.config}: it names no providers any more")


def watch_settings(source: SettingsSource, settings: Settings) -> Reloader:
    """Read the settings file and return a Reloader that watches it from now on."""
    return Reloader(source, settings, _read(source))


def is_safe(setting: Setting) -> bool:
    """Return whether the setting may change while the process runs."""
    return setting.section not in _FIXED_SECTIONS and setting.flag not in _FIXED


def _get(settings: Settings, setting: Setting) -> object:
    return getattr(getattr(settings, setting.section), setting.field)


def _read(source: SettingsSource) -> bytes | str | None:
    """Return the file's bytes, an error text, or None without a file."""
    try:
        return source.read_file()
    except ConfigError as error:
        return str(error)
