"""Split a dump of Kubernetes objects (JSON or YAML) into its objects, before they are decoded."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from nodewright.model.errors import ConfigError
from nodewright.model.printable import explain, show
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
