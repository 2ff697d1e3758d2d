"""Strict decoding of a provider's own options. An unknown key raises ConfigError, which names the nearest known key."""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from nodewright.model.duration import parse_duration
from nodewright.model.errors import ConfigError
from nodewright.model.printable import find_misfit

T = TypeVar("T")

_UNKNOWN_FIELD = re.compile(r"unknown field `(?P<field>.*?)`(?: - at `\$\.?(?P<path>.*?)`)?", re.DOTALL)
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<field>.*?)`(?: - at `\$\.?(?P<path>.*?)`)?", re.DOTALL)
_AT_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*?)`)?$", re.DOTALL)
_KEY = re.compile(r"[^.\[\]]+(?=[.\[]|$)")
_NO_CHOICE = "Invalid enum value"

Decoder = Callable[[type, Any], Any]


class Seconds(float):
    """A duration of at least 0 seconds, written as a number or as in Go (``60s``, ``20m``). Needs ``decode_seconds``."""


def decode_options(raw: Mapping[str, Any], kind: type[T], source: str, dec_hook: Decoder | None = None) -> T:
    """Convert ``raw`` to ``kind``, a msgspec Struct with ``forbid_unknown_fields``.

    Raise ConfigError with one sentence that names ``source``, the key and, for an unknown key, the nearest known key.
    """
    try:
        return msgspec.convert(raw, kind, dec_hook=dec_hook)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{source}: {_explain(str(error), raw, kind, dec_hook)}") from error


def decode_seconds(kind: type, raw: Any) -> Any:
    """Convert ``raw`` to ``Seconds``. This is a ``dec_hook`` for ``decode_options``; it raises ValueError."""
    if kind is not Seconds:
        raise ValueError(f"{kind.__name__} cannot be an option")
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError("must be a duration like 60s or 20m")  # noqa: TRY004 - msgspec turns ValueError into its own
    seconds = Seconds(parse_duration(raw) if isinstance(raw, str) else raw)
    if not 0 <= seconds < float("inf"):
        raise ValueError("must be a duration of at least 0")
    return seconds


def _explain(message: str, raw: object, kind: type, dec_hook: Decoder | None) -> str:
    unknown = _UNKNOWN_FIELD.search(message)
    if unknown is None:
        missing = _MISSING_FIELD.fullmatch(message)
        if missing is not None:
            return (
                f"{missing['path']}.{missing['field']}: is missing"
                if missing["path"]
                else f"{missing['field']}: is missing"
            )
        found = _AT_PATH.match(message)
        what, path = (found["what"], found["path"]) if found else (message, None)
        if path and what.startswith(_NO_CHOICE):
            return f"{path}: {what}{_choices(kind, path)}"
        return str(find_misfit(raw, kind, dec_hook) or message)
    name = f"{unknown['path']}.{unknown['field']}" if unknown["path"] else unknown["field"]
    known = sorted({field.encode_name for field in _fields_at(kind, unknown["path"] or "")})
    near = difflib.get_close_matches(unknown["field"], known, n=1, cutoff=0.5)
    return f"unknown key {name}" + (f", did you mean {near[0]}?" if near else "")


def _choices(kind: type, path: str) -> str:
    """Return the end of a sentence that lists the allowed values of the option; empty if it has no fixed values."""
    parent, _, key = path.rpartition(".")
    for field in _fields_at(kind, parent):
        if field.encode_name == key and isinstance(field.type, msgspec.inspect.EnumType):
            return f"; allowed: {', '.join(str(choice.value) for choice in field.type.cls)}"
    return ""


def _fields_at(kind: type, path: str) -> Iterator[msgspec.inspect.Field]:
    """Yield the fields of the structs that may stand at ``path``, which is msgspec's, such as ``groups[0].machine``."""
    found = _structs(msgspec.inspect.type_info(kind))
    for key in _KEY.findall(path):
        inner = [field.type for struct in found for field in struct.fields if field.encode_name == key]
        found = [struct for info in inner for struct in _structs(info)]
    for struct in found:
        yield from struct.fields


def _structs(info: object) -> list[msgspec.inspect.StructType]:
    """Return the structs in a type: itself, the choices of a union, or the content of lists and mappings."""
    if isinstance(info, msgspec.inspect.StructType):
        return [info]
    held = (getattr(info, part, ()) for part in ("types", "item_types", "item_type", "value_type", "type"))
    return [
        struct
        for inner in held
        for one in (inner if isinstance(inner, tuple) else (inner,))
        for struct in _structs(one)
    ]
