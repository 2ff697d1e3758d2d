"""Decode Kubernetes JSON and YAML into the values of this package.

JSON is decoded from bytes to Structs, without dictionaries between. Only the fields that nodewright uses are built. Bad
input raises ConfigError with one sentence that names the file, the object and the field.
"""

import math
import re
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from nodewright.model.config_entries import BROKEN, Entry, read_entries, refuse_json
from nodewright.model.errors import ConfigError
from nodewright.model.objects import KINDS, ClusterObjects, Kind
from nodewright.model.printable import find_misfit, printable, show
from nodewright.model.quantity import Quantity

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
        kind = KINDS.get(entry.kind)
        if kind is None or (entry.api_version and _group(entry.api_version) != kind.api_group):
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
