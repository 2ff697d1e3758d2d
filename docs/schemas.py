"""JSON Schemas, made from the sources: of a settings file, of scenario and sweep files, of files of prices and of disruption, and the chart's part for settings."""

from datetime import date
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from nodewright.cli.settings.known_flags import KNOWN, PROVIDER_FIELDS, SECTIONS, SETTINGS
from nodewright.cli.settings.values import Setting, SettingKind, write_value
from nodewright.model.disruption import DisruptionConfig
from nodewright.model.price_book import PriceFile
from nodewright.model.settings import Settings
from nodewright.model.settings_base import Help
from nodewright_simulator.scenario import Scenario, TimeSpan
from nodewright_simulator.sweep.sweep_file import Sweep

_DURATION = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def settings_schema() -> dict[str, Any]:
    """Return the schema of a settings file."""
    found = _settings_object("#/definitions/")
    return {
        "$schema": _DRAFT_7,
        "title": "nodewright settings",
        "description": "The file of --config; docs/settings.md describes every key.",
        **found,
        "definitions": _definitions(),
    }


def _settings_object(home: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for key, field in SECTIONS.items():
        own = [flag for flag, setting in SETTINGS.items() if setting.section == field.name]
        properties[key] = _mapping(
            " ".join((field.type.__doc__ or "").split()), {flag: {"$ref": home + flag} for flag in own}
        )
    properties |= {flag: {"$ref": home + flag} for flag in KNOWN}
    properties["providers"] = {
        "type": ["object", "null"],
        "description": next(
            note.text for note in get_args(_field(Settings, "providers").type) if isinstance(note, Help)
        ),
        "propertyNames": {"pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"},
        "additionalProperties": {"$ref": f"{home}provider"},
    }
    return {"type": ["object", "null"], "additionalProperties": False, "properties": properties}


def _definitions() -> dict[str, Any]:
    found = {flag: _value_schema(setting) for flag, setting in KNOWN.items()}
    fields = {flag: _value_schema(setting) for flag, setting in PROVIDER_FIELDS.items()}
    return found | {"provider": _mapping("One provider (cloud): its own options, and its node groups.", fields)}


def _mapping(description: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": ["object", "null"],
        "description": description,
        "additionalProperties": False,
        "properties": properties,
    }


def _value_schema(setting: Setting, *, seconds: bool = False) -> dict[str, Any]:
    """Return the schema of one setting's value as it stands in YAML. ``seconds``: a time may be a number of them."""
    told, default = setting.help, setting.default
    text = f"{told.text} Raised: {told.raised[0].lower()}{told.raised[1:]}" if told.raised else told.text
    default = write_value(setting, default) if setting.kind is SettingKind.DURATION else default
    return {
        "description": text,
        "default": list(default) if isinstance(default, tuple) else default,
        **_kind(setting, seconds=seconds),
    }


def _kind(setting: Setting, *, seconds: bool) -> dict[str, Any]:
    if (
        get_origin(setting.type) is not None
        and setting.kind is SettingKind.TEXT
        and get_args(setting.type)[0] is not str
    ):
        return {"enum": list(get_args(setting.type))}
    if setting.kind is SettingKind.DURATION:
        words = "".join(f"|{word}" for word in setting.words)
        number = {"type": "number", "minimum": 0} if seconds else {"const": 0}
        return {"anyOf": [{"type": "string", "pattern": _DURATION[:-1] + words + "$"}, number]}
    if setting.kind is SettingKind.LIST:
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    kinds = {
        SettingKind.BOOLEAN: "boolean",
        SettingKind.INTEGER: "integer",
        SettingKind.NUMBER: "number",
        SettingKind.MAPPING: "object",
    }
    return {"type": kinds.get(setting.kind, "string"), **_bounds(setting.type)}


def _bounds(kind: Any) -> dict[str, Any]:
    notes = [note for note in get_args(kind) if isinstance(note, msgspec.Meta)]
    names = {
        "ge": "minimum",
        "gt": "exclusiveMinimum",
        "le": "maximum",
        "pattern": "pattern",
        "min_length": "minLength",
    }
    return {name: getattr(note, own) for note in notes for own, name in names.items() if getattr(note, own) is not None}


def prices_schema() -> dict[str, Any]:
    """Return the schema of a file of ``--prices``."""
    definitions: dict[str, Any] = {}
    found = _struct_schema(PriceFile, definitions)
    return {"$schema": _DRAFT_7, "title": "nodewright prices", **found, "definitions": definitions}


def disruption_schema() -> dict[str, Any]:
    """Return the schema of a file of ``--disruption-config``."""
    definitions: dict[str, Any] = {}
    found = _struct_schema(DisruptionConfig, definitions)
    return {"$schema": _DRAFT_7, "title": "nodewright disruption", **found, "definitions": definitions}


def scenario_schema() -> dict[str, Any]:
    """Return the schema of a scenario file of ``nodewright simulate``."""
    definitions: dict[str, Any] = {}
    found = _struct_schema(Scenario, definitions)
    flags = {flag: _value_schema(setting, seconds=True) for flag, setting in SETTINGS.items()}
    found["properties"]["settings"] |= {"additionalProperties": False, "properties": flags}
    return {"$schema": _DRAFT_7, "title": "nodewright scenario", **found, "definitions": definitions}


def sweep_schema() -> dict[str, Any]:
    """Return the schema of a sweep file of ``nodewright sweep``."""
    definitions: dict[str, Any] = {}
    found = _struct_schema(Sweep, definitions)
    flags = {flag: _value_schema(setting, seconds=True) for flag, setting in SETTINGS.items()}
    definitions |= {f"setting-{flag}": schema for flag, schema in flags.items()}
    set_to = {flag: {"$ref": f"#/definitions/setting-{flag}"} for flag in flags}
    properties, settings = found["properties"], {"additionalProperties": False, "properties": set_to}
    properties["settings"] |= settings
    properties["variants"]["additionalProperties"] = {"type": "object", **settings}
    lists = {flag: {"type": "array", "items": value, "minItems": 1} for flag, value in set_to.items()}
    properties["grid"] |= {"additionalProperties": False, "properties": lists}
    return {"$schema": _DRAFT_7, "title": "nodewright sweep", **found, "definitions": definitions}


def _struct_schema(kind: type[msgspec.Struct], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a struct; those of the structs in it are added to ``definitions``."""
    config, fields = kind.__struct_config__, msgspec.structs.fields(kind)
    properties = {field.encode_name: _field_schema(field, definitions) for field in fields}
    required = [field.encode_name for field in fields if field.required]
    if config.tag is not None:
        properties[str(config.tag_field)] = {"const": config.tag}
        required.append(str(config.tag_field))
    return {
        "type": "object",
        "description": " ".join((kind.__doc__ or "").split()),
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


def _field_schema(field: msgspec.structs.FieldInfo, definitions: dict[str, Any]) -> dict[str, Any]:
    notes = get_args(field.type) if get_origin(field.type) is Annotated else ()
    told = next(note.text for note in notes if isinstance(note, Help))
    return {"description": told, **_type_schema(field.type, definitions)}


_PLAIN_TYPES: dict[Any, dict[str, Any]] = {
    Any: {},
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    date: {"type": "string", "format": "date"},
    TimeSpan: {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": _DURATION}]},
}


def _type_schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind in _PLAIN_TYPES:
        return dict(_PLAIN_TYPES[kind])
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return {**_type_schema(parts[0], definitions), **_bounds(kind)}
    if origin in (Union, UnionType):
        return {"anyOf": [_type_schema(part, definitions) for part in parts]}
    if origin is not None:
        return _container_schema(origin, parts, definitions)
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        definitions[kind.__name__] = _struct_schema(kind, definitions)
    return {"allOf": [{"$ref": f"#/definitions/{kind.__name__}"}]}


def _container_schema(origin: Any, parts: tuple[Any, ...], definitions: dict[str, Any]) -> dict[str, Any]:
    if origin is tuple:
        return {"type": "array", "items": _type_schema(parts[0], definitions)}
    names, values = (_type_schema(part, definitions) for part in parts)
    return {"type": "object", "propertyNames": names, "additionalProperties": values}


def chart_schema(held: dict[str, Any]) -> dict[str, Any]:
    """Return the chart's schema with its part for settings made again."""
    home = "#/definitions/setting-"
    made = {f"setting-{name}": schema for name, schema in _definitions().items()}
    own: dict[str, Any] = {}
    prices = _struct_schema(PriceFile, own)
    kept = {name: schema for name, schema in held["definitions"].items() if not name.startswith("setting-")}
    definitions = {name: schema for name, schema in kept.items() if name not in own} | own | made
    found = _settings_object(home)
    providers = found["properties"]["providers"] | {"type": "object"}
    told = {
        "description": "The file of --config: any setting, by section or by flag. Most take effect without a restart."
    }
    # The template refuses it, in better words.
    found["properties"]["providers"] = {"description": "Not here: providers is a value of its own, beside settings."}
    return held | {
        "definitions": definitions,
        "properties": held["properties"]
        | {"settings": told | found | {"type": "object"}, "providers": providers, "prices": prices},
    }


def _field(kind: type[msgspec.Struct], name: str) -> msgspec.structs.FieldInfo:
    return next(field for field in msgspec.structs.fields(kind) if field.name == name)
