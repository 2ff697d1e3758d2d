"""Settings in a scenario: flags without their dashes, in one flat mapping."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from nodewright.model.complaint import printable, suggest
from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.section import Section
from nodewright.model.settings import Settings

_AT = re.compile(r" - at `\$.*`$")


def read_flat_settings(flat: Mapping[str, Any], source: str) -> Settings:
    """The whole tree with these flags set; raises ConfigError naming the flag."""
    sections: dict[str, Section] = {}
    flags = {flag.encode_name: (section.name, flag) for section in _sections() for flag in _flags(section)}
    given: dict[str, dict[str, Any]] = {}
    for name, value in flat.items():
        if name not in flags:
            hint = suggest(str(name), flags)
            raise ConfigError(f"{source}: settings: there is no setting {printable(str(name))}{hint}")
        section, flag = flags[name]
        given.setdefault(section, {})[name] = _read(flag.type, value, f"{source}: settings.{name}")
    for field in _sections():
        if field.name in given:
            sections[field.name] = _convert(given[field.name], field.type, source)
    return msgspec.structs.replace(Settings(), **sections)


def _sections() -> list[msgspec.structs.FieldInfo]:
    fields = msgspec.structs.fields(Settings)
    return [field for field in fields if isinstance(field.type, type) and issubclass(field.type, Section)]


def _flags(section: msgspec.structs.FieldInfo) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(section.type)


def _read(kind: Any, value: Any, where: str) -> Any:
    """Durations may be Go-style text; what is repeated on a command line may stand alone."""
    info = msgspec.inspect.type_info(kind)
    choices = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
    words = [word for choice in choices if isinstance(choice, msgspec.inspect.LiteralType) for word in choice.values]
    if isinstance(value, str) and value not in words and any(_is_duration(choice) for choice in choices):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise ConfigError(f"{where}: {' nor '.join((str(error), *map(str, words)))}") from error
    is_list = isinstance(info, msgspec.inspect.VarTupleType)
    return [value] if is_list and not isinstance(value, list) else value


def _is_duration(info: msgspec.inspect.Type) -> bool:
    return isinstance(info, msgspec.inspect.Metadata) and bool((info.extra or {}).get("duration"))


def _convert(given: Mapping[str, Any], kind: Any, source: str) -> Section:
    try:
        converted: Section = msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        flag = next((name for name in given if f"$.{name}" in str(error)), "")
        raise ConfigError(f"{source}: settings.{flag}: {_AT.sub('', str(error))}") from error
    return converted
