"""One setting's value from text (flags, variables) or from YAML; ValueError says what is wrong."""

import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import msgspec

from nodewright.model.duration import format_duration, parse_duration
from nodewright.model.errors import InvariantError
from nodewright.model.printable import find_misfit, printable, show, suggest
from nodewright.model.settings_base import Help

_TRUE = frozenset(("1", "t", "T", "true", "True", "TRUE"))
_FALSE = frozenset(("0", "f", "F", "false", "False", "FALSE"))
_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?")
_MAX_INT = 2**63 - 1
_SPEC_FIELDS = frozenset(("nodes", "node_group_auto_discovery"))


class SettingKind(Enum):
    """The notation of a setting's value. The member's value is shown by help."""

    BOOLEAN = "BOOLEAN"
    DURATION = "DURATION"
    INTEGER = "INTEGER"
    NUMBER = "NUMBER"
    TEXT = "TEXT"
    LIST = "LIST"
    MAPPING = "MAPPING"


_KINDS: Mapping[object, SettingKind] = {
    bool: SettingKind.BOOLEAN,
    int: SettingKind.INTEGER,
    float: SettingKind.NUMBER,
    str: SettingKind.TEXT,
    Literal: SettingKind.TEXT,
    tuple: SettingKind.LIST,
}


class Setting(NamedTuple):
    """One setting of the tree; ``section`` and ``field`` lead to it, ``flag`` is its name outside."""

    section: str
    field: str
    flag: str
    type: Any
    default: Any
    help: Help

    @property
    def kind(self) -> SettingKind:
        return _find_kind(_split_words(self.type)[0])

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words that are accepted instead of a value, such as ``auto`` for a duration."""
        return _split_words(self.type)[1]

    @property
    def metavar(self) -> str:
        """Return the text that help shows in place of the value."""
        if get_origin(self.type) is Literal:
            return "|".join(get_args(self.type))
        return "|".join((self.kind.value, *self.words))

    @property
    def separator(self) -> str:
        """Return the separator of a list's parts in one text; a node group's spec may itself contain commas."""
        return r"\s+" if self.field in _SPEC_FIELDS else r"[,\s]+"


def list_settings(section: str, owner: type[msgspec.Struct]) -> list[Setting]:
    """Return a setting for each field of a section. Raise InvariantError for a field without a description."""
    return [
        Setting(section, field.name, field.encode_name, *_split_help(owner, field))
        for field in msgspec.structs.fields(owner)
    ]


def _split_help(owner: type, field: msgspec.structs.FieldInfo) -> tuple[Any, Any, Help]:
    """Return a field's type without its description, its default, and the description."""
    base, *notes = get_args(field.type) if get_origin(field.type) is Annotated else (field.type,)
    described = next((note for note in notes if isinstance(note, Help)), None)
    if described is None:
        raise InvariantError(f"{owner.__name__}.{field.name} has no description")
    rest = tuple(note for note in notes if not isinstance(note, Help))
    default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return (Annotated[(base, *rest)] if rest else base), default, described


def _split_words(wanted: Any) -> tuple[Any, tuple[str, ...]]:
    """Return a type and the words that are accepted besides its values."""
    if get_origin(wanted) not in (Union, UnionType):
        return wanted, ()
    (base,) = (part for part in get_args(wanted) if get_origin(part) is not Literal)
    words = (get_args(part) for part in get_args(wanted) if get_origin(part) is Literal)
    return base, tuple(word for some in words for word in some)


def _find_kind(wanted: Any) -> SettingKind:
    notes: Sequence[Any] = ()
    if get_origin(wanted) is Annotated:
        wanted, *notes = get_args(wanted)
    if any((note.extra or {}).get("duration") for note in notes if isinstance(note, msgspec.Meta)):
        return SettingKind.DURATION
    return _KINDS.get(get_origin(wanted) or wanted, SettingKind.MAPPING)


def parse_bool(text: str) -> bool:
    """Parse Go's spellings of a boolean."""
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError(f"must be true or false, not '{printable(text)}'")


def read_text(value: str | Sequence[str], setting: Setting) -> Any:
    """Read a flag's or variable's value; a list comes as several texts, or as one with separators."""
    if setting.kind is SettingKind.LIST:
        texts = [value] if isinstance(value, str) else value
        return _fit([part for text in texts for part in _split(text, setting)], setting)
    if not isinstance(value, str):
        if len(value) != 1:
            raise ValueError("is given more than once")
        value = value[0]
    if value in setting.words:
        return value
    try:
        parsed = _parse(value, setting.kind)
    except ValueError as error:
        raise ValueError(" nor ".join((str(error), *setting.words))) from None
    return _fit(parsed, setting)


def read_yaml(value: object, setting: Setting) -> Any:
    """Read a file's value; YAML distinguishes numbers, booleans and text."""
    if value is None:
        raise ValueError("has no value")
    if setting.kind is SettingKind.LIST and isinstance(value, str):
        value = _split(value, setting)
    if setting.kind is SettingKind.DURATION and value not in setting.words:
        value = _read_duration(value)
    return _fit(value, setting)


def describe_default(setting: Setting) -> str:
    """Return a default as help and pages show it, with its unit."""
    shown = write_value(setting, setting.default)
    unit = f" ({setting.help.unit})" if setting.help.unit and shown else ""
    return f"{shown}{unit}" if shown else "empty"


def summarize(section: type) -> str:
    """Return the first sentence of a section's docstring, without its full stop."""
    return " ".join((section.__doc__ or "").split()).partition(". ")[0].rstrip(".")


def write_value(setting: Setting, value: Any) -> str:
    """Return a value as a flag would give it."""
    if setting.kind is SettingKind.BOOLEAN:
        return str(value).lower()
    if setting.kind is SettingKind.DURATION and value not in setting.words:
        return format_duration(value)
    return ",".join(value) if setting.kind is SettingKind.LIST else str(value)


def _split(text: str, setting: Setting) -> list[str]:
    return [part for part in re.split(setting.separator, text) if part]


def _parse(text: str, kind: SettingKind) -> object:
    if kind is SettingKind.BOOLEAN:
        return parse_bool(text)
    if kind is SettingKind.DURATION:
        return parse_duration(text)
    if kind is SettingKind.INTEGER:
        if not _INTEGER.fullmatch(text):
            raise ValueError(f"must be a whole number, not '{printable(text)}'")
        return int(text)
    if kind is SettingKind.NUMBER:
        return _parse_float(text)
    return text


def _parse_float(text: str) -> float:
    if not _FLOAT.fullmatch(text):
        raise ValueError(f"must be a number, not '{printable(text)}'")
    return float(text)


def _read_duration(value: object) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    if value == 0 and not isinstance(value, bool):
        return 0.0
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        raise ValueError(f"{value} lacks a unit, as in {format_duration(value)}")
    raise ValueError(f"must be a duration like 10m or 1h30m, not {show(value)}")


def _fit(value: object, setting: Setting) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"must be a finite number, not {value}")
    if isinstance(value, int) and abs(value) > _MAX_INT:
        raise ValueError("the number is too large")
    if setting.kind is SettingKind.DURATION and isinstance(value, float) and value < 0:
        raise ValueError("must not be negative")
    if get_origin(setting.type) is Literal and value not in get_args(setting.type):
        known = get_args(setting.type)
        listed = ", ".join(word or "''" for word in known)
        raise ValueError(f"must be one of {listed}, not {show(value)}{suggest(str(value), known)}")
    misfit = find_misfit(value, setting.type)
    if misfit:
        raise ValueError(str(misfit))
    return msgspec.convert(value, setting.type)


# The value of an option is not shown if its name contains one of these words; the short ones count only as whole words.
_HIDDEN = "(not shown)"
_SECRET = ("secret", "password", "passwd", "token", "key", "credential", "connectionstring", "authorization", "bearer")
_SHORT_SECRET = frozenset(("pwd", "sas", "pem"))
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# The user and the password in a URL.
_LOGIN = re.compile(r"(?<=://)[^/\s?#\"']*@")


def without_secrets(value: Any) -> Any:
    """Return the value with secrets hidden, at any depth."""
    if isinstance(value, dict):
        return {key: _HIDDEN if _is_secret(str(key)) else without_secrets(held) for key, held in value.items()}
    return [without_secrets(held) for held in value] if isinstance(value, list) else without_logins(value)


def without_logins(value: Any) -> Any:
    """Return the value without users and passwords in URLs, at any depth."""
    if isinstance(value, dict):
        return {key: without_logins(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [without_logins(held) for held in value]
    return _LOGIN.sub("", value) if isinstance(value, str) else value


def _is_secret(key: str) -> bool:
    words = [word.lower() for word in _WORD.findall(key)]
    joined = re.sub(r"[^a-z0-9]", "", key.lower())
    return any(word in joined for word in _SECRET) or not _SHORT_SECRET.isdisjoint(words)
