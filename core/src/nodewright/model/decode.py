"""Decode Kubernetes JSON and YAML into the values of this package.

JSON is decoded from bytes to Structs, without dictionaries between. Only the fields that nodewright uses are built. Bad
input raises ConfigError with one sentence that names the file, the object and the field.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw

from nodewright.model.errors import ConfigError
from nodewright.model.objects import KINDS, ClusterObjects, Kind, find_kind
from nodewright.model.printable import explain, find_misfit, printable, show
from nodewright.model.quantity import Quantity
from nodewright.model.yaml_text import load_yaml

BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_TRAILING = "JSON is malformed: trailing characters (byte "
_BLANK = b" \t\r\n"


class Entry(NamedTuple):
    """One object of a dump, not decoded yet. ``place`` (``items[3]: ``) identifies an object without a name."""

    kind: str
    api_version: str
    place: str
    payload: Raw | dict[str, Any]


class _Header(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    items: list[Raw] | None = None


class _ItemHeader(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


_read_header = msgspec.json.Decoder(_Header).decode
_read_item_header = msgspec.json.Decoder(_ItemHeader).decode


def read_entries(source: bytes, name: str) -> Iterator[Entry]:
    if source[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what PowerShell's redirection writes
        source = source.decode("utf-16", "replace").encode()
    source = source.removeprefix(b"\xef\xbb\xbf")
    start = source[:4096].lstrip(_BLANK)[:1]
    is_yaml = name.endswith((".yaml", ".yml")) or start not in (b"{", b"[")
    if not is_yaml:
        yield from _read_json(source, name)
        return
    documents = [document for document in load_yaml(source, name, string_keys=True) if document is not None]
    if not documents:
        raise ConfigError(f"{name}: the file holds nothing")
    for document in documents:
        yield from _read_document(document, name)


def _read_json(source: bytes, name: str) -> Iterator[Entry]:
    """Yield the objects of one JSON text, or of several texts in a row."""
    rest = memoryview(source)
    while rest:
        end = len(rest)
        try:
            header = _read_header(rest)
        except BROKEN as error:
            end = _end_of_first(error)
            if not end:
                raise refuse_json(error, name) from None
            header = _decode_header(rest[:end], name)
        yield from _split_list(header, Raw(rest[:end]), name)
        rest = rest[end:]


def _decode_header(source: memoryview, name: str) -> _Header:
    try:
        return _read_header(source)
    except BROKEN as error:
        raise refuse_json(error, name) from None


def _split_list(header: _Header, whole: Raw, name: str) -> Iterator[Entry]:
    if header.items is None or not _is_list(header.kind):
        yield _entry(header.kind, header.api_version, "", whole, name)
        return
    for index, item in enumerate(header.items):
        place = f"items[{index}]: "
        try:
            own = _read_item_header(item)
        except BROKEN as error:
            raise refuse_json(error, f"{name}: {place.rstrip(': ')}") from None
        kind = own.kind or header.kind.removesuffix("List")
        yield _entry(kind, own.api_version or _item_version(header.kind, header.api_version), place, item, name)


def _read_document(document: object, name: str) -> Iterator[Entry]:
    """Yield the objects of one YAML document."""
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: must be a Kubernetes object or a List of them, not {show(document)}")
    kind, version = _text(document, "kind", name), _text(document, "apiVersion", name)
    items = document.get("items")
    if items is None or not _is_list(kind):
        yield _entry(kind, version, "", document, name)
        return
    if not isinstance(items, list):
        raise ConfigError(f"{name}: items: must be a list, not {show(items)}")
    for index, item in enumerate(items):
        place = f"items[{index}]: "
        if not isinstance(item, dict):
            raise ConfigError(f"{name}: {place}must be a mapping, not {show(item)}")
        own = _text(item, "kind", f"{name}: {place.rstrip(': ')}") or kind.removesuffix("List")
        own_version = _text(item, "apiVersion", name) or _item_version(kind, version)
        yield _entry(own, own_version, place, item, name)


def _entry(kind: str, version: str, place: str, payload: Raw | dict[str, Any], name: str) -> Entry:
    if not kind:
        raise ConfigError(f"{name}: {place}an object without a kind")
    if place and kind == "List":
        raise ConfigError(f"{name}: {place}a List inside a list")
    return Entry(kind, version, place, payload)


def _is_list(kind: str) -> bool:
    return kind.endswith("List") or not kind


def _item_version(list_kind: str, list_version: str) -> str:
    """Return the apiVersion of a list's items: the list's own, but empty (unknown) for a plain ``v1`` List."""
    return list_version if list_kind not in ("List", "") else ""


def _text(document: dict[str, Any], key: str, name: str) -> str:
    value = document.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigError(f"{name}: {key}: must be a string, not {show(value)}")
    return value


def refuse_json(error: Exception, name: str) -> ConfigError:
    text = str(error)
    if isinstance(error, RecursionError):
        return ConfigError(f"{name}: nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return ConfigError(f"{name}: not UTF-8 text")
    if isinstance(error, msgspec.ValidationError):
        return ConfigError(f"{name}: {explain(text)}")
    if text == "Input data was truncated":
        return ConfigError(f"{name}: the JSON ends in the middle; is the file complete?")
    return ConfigError(f"{name}: {text.replace('JSON is malformed:', 'not valid JSON:')}")


def _end_of_first(error: Exception) -> int:
    """Return the index at which a second JSON text begins; 0 if the error has another cause."""
    text = str(error)
    return int(text[len(_TRAILING) : -1]) - 1 if text.startswith(_TRAILING) else 0


T = TypeVar("T")

_YEAR_ZERO = re.compile(r"\A0000(?=-\d\d-\d\dT)")


def decode_quantity(wanted: type, value: Any) -> Any:
    """Decode a resource quantity: text by Kubernetes' rules, or a number. This is a ``dec_hook`` of msgspec."""
    if wanted is not Quantity:
        raise NotImplementedError(wanted)
    if isinstance(value, Quantity):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be a quantity (like 500m, 1.5Gi or 2e3), not {show(value)}")  # noqa: TRY004  # msgspec adds the path to a ValueError only
    return Quantity.of(value)


def decode_amount(wanted: type, value: Any) -> Any:
    """Decode as ``decode_quantity`` does. Raise ValueError for negative quantities, as the API server refuses them."""
    quantity = Quantity.of(value) if type(value) is str and wanted is Quantity else decode_quantity(wanted, value)
    if quantity.nano < 0:
        raise ValueError(f"{show(value)} is negative")
    return quantity


def decode_object(wanted: type[T], source: bytes | Raw, name: str = "input") -> T:
    """Return one object of a known type from JSON. ``name`` stands for the source in messages. Raise ConfigError."""
    try:
        return msgspec.json.decode(source, type=wanted, dec_hook=decode_quantity)
    except BROKEN as error:
        return convert_object(wanted, _decode_loosely(source, name, error), name)


def convert_object(wanted: type[T], value: object, name: str = "input") -> T:
    """Return one object of a known type from dictionaries and lists, as YAML gives them. Raise ConfigError."""
    return _convert(wanted, value, name, decode_quantity)


def decode_objects(source: bytes, name: str) -> ClusterObjects:
    """Return the objects of a dump: JSON or YAML, single objects, lists or several documents.

    Skip kinds that nodewright does not use. A namespaced object without a namespace is in ``default``, as in kubectl.
    ``name`` is the file's name, for messages. Raise ConfigError for bad input.
    """
    collector = _Collector(name)
    try:
        for entry in read_entries(source, name):
            collector.add(entry)
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None
    return collector.finish()


class _Names(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str | None = None


class _Named(msgspec.Struct):
    """The part of a broken object that identifies it."""

    metadata: _Names = _Names()


_DECODERS = {kind.name: msgspec.json.Decoder(kind.type, dec_hook=decode_amount) for kind in KINDS.values()}


class _Collector:
    """Decodes entries and sorts them into their fields."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: dict[str, dict[str, Any]] = {kind.field: {} for kind in KINDS.values()}

    def add(self, entry: Entry) -> None:
        kind = find_kind(entry.kind, _group(entry.api_version) if entry.api_version else None)
        if kind is None:
            return
        decoded = self._decode(kind, entry)
        metadata = decoded.metadata
        if not metadata.name:
            raise ConfigError(f"{self._name}: {entry.place}a {kind.name} without metadata.name")
        if kind.namespaced and not metadata.namespace:
            metadata = msgspec.structs.replace(metadata, namespace="default")
            decoded = msgspec.structs.replace(decoded, metadata=metadata)
        found = self._found[kind.field]
        key = decoded.key
        if key in found:
            raise ConfigError(f"{self._name}: {kind.name} {printable(key)} occurs twice")
        found[key] = decoded

    def finish(self) -> ClusterObjects:
        return ClusterObjects(**{field: tuple(found.values()) for field, found in self._found.items()})

    def _decode(self, kind: Kind, entry: Entry) -> Any:
        if not isinstance(entry.payload, Raw):
            return _convert(kind.type, entry.payload, self._where(entry), decode_amount)
        try:
            return _DECODERS[kind.name].decode(entry.payload)
        except BROKEN as error:
            where = self._where(entry)
            return _convert(kind.type, _decode_loosely(entry.payload, where, error), where, decode_amount)

    def _where(self, entry: Entry) -> str:
        return f"{self._name}: {_title(entry)}"


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def _decode_loosely(source: bytes | Raw, name: str, first: Exception) -> object:
    """Decode to builtins what did not decode to its type because of ``first``."""
    try:
        return msgspec.json.Decoder(float_hook=_read_float).decode(source)
    except BROKEN as error:
        knows_field = str(first).startswith("Integer value out of range")
        raise refuse_json(first if knows_field else error, name) from None


def _read_float(text: str) -> float | Quantity:
    """Return a float. A number that is too large for a float becomes a Quantity, which saturates."""
    number = float(text)
    return Quantity.of(text) if math.isinf(number) else number


def _convert(wanted: type[T], value: object, name: str, hook: Any) -> T:
    try:
        value = _tidy(value)
        return msgspec.convert(value, wanted, dec_hook=hook)
    except msgspec.ValidationError:
        raise ConfigError(f"{name}: {find_misfit(value, wanted, hook)}") from None
    except RecursionError:
        raise ConfigError(f"{name}: nested too deeply") from None


def _tidy(value: object) -> object:
    """Remove nulls, because ``labels: null`` means no labels. Move times of year 0 to year 1.

    The API server accepts times of year 0, but Python has no such year.
    """
    if isinstance(value, dict):
        return {key: _tidy(part) for key, part in value.items() if part is not None}
    if isinstance(value, list):
        return [_tidy(part) for part in value]
    if isinstance(value, str) and value.startswith("0000-"):
        return _YEAR_ZERO.sub("0001", value)
    return value


def _title(entry: Entry) -> str:
    """Return ``Pod shop/web`` if the broken object has a name, or else its place and kind."""
    try:
        if isinstance(entry.payload, Raw):
            metadata = msgspec.json.decode(entry.payload, type=_Named).metadata
        else:
            metadata = msgspec.convert(_tidy(entry.payload), _Named).metadata
    except BROKEN:
        return f"{entry.place}{entry.kind}"
    if not metadata.name:
        return f"{entry.place}{entry.kind}"
    return f"{entry.kind} {printable('/'.join(filter(None, (metadata.namespace, metadata.name))))}"
