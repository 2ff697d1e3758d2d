"""Read YAML from outside safely, with messages that name the line.

The result is plain data: mappings, lists, text, numbers, booleans and null. Times and ``12:30`` stay text, as Kubernetes
reads them. Aliases count with their full size against a limit, and a mapping may have a key only once.
"""

import math
import re
from typing import Any

import yaml

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable, show

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 100
MAX_ALIASED = 100_000
_MAX_DIGITS = 40

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"))
_FALSE = frozenset(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"))
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_BASED = re.compile(r"[-+]?(?:0x(?P<hex>[0-9a-fA-F]+)|0o?(?P<octal>[0-7]+))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def load_yaml(source: bytes | str, name: str, *, string_keys: bool = False) -> list[Any]:
    """Return the documents of ``source``; ``name`` is the file's name, for messages. Raise ConfigError for bad input.

    With ``string_keys``, refuse a key that YAML reads as a number or boolean, because Kubernetes requires strings.
    """
    text = _read_text(source, name)
    builder = _Builder(name, string_keys=string_keys)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise ConfigError(f"{name}{line}: {printable(error.problem or 'not valid YAML')}") from None
    except UnicodeEncodeError:
        raise ConfigError(f"{name}: not UTF-8 text") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{name}: not valid YAML: {printable(str(error).splitlines()[0])}") from None
    return builder.documents


def _read_text(source: bytes | str, name: str) -> str:
    if len(source) > MAX_BYTES:
        raise ConfigError(f"{name}: more than {MAX_BYTES >> 20} MiB of YAML; JSON may be larger")
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: not UTF-8 text") from None


class _Open:
    """A mapping or list whose end was not read yet."""

    __slots__ = ("anchor", "built", "first", "has_key", "key", "merges")

    def __init__(self, built: dict[Any, Any] | list[Any], anchor: str | None, first: int) -> None:
        self.built = built
        self.anchor = anchor
        self.first = first
        self.has_key = False
        self.key: Any = None
        self.merges: list[dict[Any, Any]] = []


class _MergeKey:
    """The marker for a plain ``<<`` key."""


class _Builder:
    """Makes plain data from the parser's events. It has its own stack, so deep nesting causes no RecursionError."""

    def __init__(self, name: str, *, string_keys: bool) -> None:
        self.documents: list[Any] = []
        self._name = name
        self._string_keys = string_keys
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._count = 0
        self._aliased = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(event)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self._anchors = {}

    def _take_scalar(self, event: yaml.ScalarEvent) -> None:
        self._count += 1
        is_key = self._expects_key()
        if is_key and event.value == "<<" and event.implicit[0]:
            value: Any = _MergeKey
        else:
            value = self._read_scalar(event)
        if is_key and self._string_keys and value is not _MergeKey and not isinstance(value, str):
            raise self._refuse(event, f"the key {printable(event.value)} must be a string here: quote it")
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._put(value, event)

    def _read_scalar(self, event: yaml.ScalarEvent) -> Any:
        if event.tag == "!":
            return event.value
        if event.tag is None:
            return _resolve(event.value) if event.implicit[0] else event.value
        short = event.tag.removeprefix(_TAG)
        value = event.value if short == "str" else _resolve(event.value)
        kinds = {"str": str, "int": int, "float": int | float, "bool": bool, "null": type(None)}
        if short not in kinds or not isinstance(value, kinds[short]):
            raise self._refuse(event, f"the tag {printable(event.tag)} is not understood here")
        return value

    def _open(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise self._refuse(event, f"nested more than {MAX_DEPTH} deep")
        if self._expects_key():
            raise self._refuse(event, "a key must be a plain value")
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _TAG + kind):
            raise self._refuse(event, f"the tag {printable(event.tag)} is not understood here")
        built: dict[Any, Any] | list[Any] = {} if kind == "map" else []
        self._stack.append(_Open(built, event.anchor, self._count))
        self._count += 1
        if event.anchor:
            self._anchors.pop(event.anchor, None)  # an alias inside would contain itself

    def _close(self, event: yaml.CollectionEndEvent) -> None:
        done = self._stack.pop()
        if isinstance(done.built, dict):
            for merged in done.merges:
                done.built = merged | done.built
        if done.anchor:
            self._anchors[done.anchor] = (done.built, self._count - done.first)
        self._put(done.built, event)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        found = self._anchors.get(event.anchor or "")
        if found is None:
            raise self._refuse(
                event, f"the alias *{printable(event.anchor or '')} stands for nothing, or contains itself"
            )
        value, size = found
        self._count += size
        self._aliased += size
        if self._aliased > MAX_ALIASED:
            raise self._refuse(event, f"the aliases stand for more than {MAX_ALIASED} values")
        if self._expects_key() and isinstance(value, dict | list):
            raise self._refuse(event, "a key must be a plain value")
        self._put(value, event)

    def _expects_key(self) -> bool:
        return bool(self._stack) and isinstance(self._stack[-1].built, dict) and not self._stack[-1].has_key

    def _put(self, value: Any, event: yaml.Event) -> None:
        """Add a complete value to the mapping, list or document that contains it."""
        if not self._stack:
            self.documents.append(value)
            return
        top = self._stack[-1]
        if isinstance(top.built, list):
            top.built.append(value)
        elif not top.has_key:
            self._check_key(top.built, value, event)
            top.has_key, top.key = True, value
        else:
            top.has_key = False
            if top.key is _MergeKey:
                top.merges.extend(self._read_merge(value, event))
            else:
                top.built[top.key] = value

    def _check_key(self, mapping: dict[Any, Any], key: Any, event: yaml.Event) -> None:
        if key in mapping:
            raise self._refuse(event, f"the key {printable(str(key))} is given twice")

    def _read_merge(self, value: Any, event: yaml.Event) -> list[dict[Any, Any]]:
        merged = value if isinstance(value, list) else [value]
        for part in merged:
            if not isinstance(part, dict):
                raise self._refuse(event, f"<< takes a mapping or a list of them, not {show(part)}")
        return merged

    def _refuse(self, event: yaml.Event, what: str) -> ConfigError:
        line = f" line {event.start_mark.line + 1}" if event.start_mark else ""
        return ConfigError(f"{self._name}{line}: {what}")


def _resolve(text: str) -> Any:
    """Return the value of a plain scalar."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= _MAX_DIGITS and text[0] in "+-.0123456789":
        return _resolve_number(text)
    return text


def _resolve_number(text: str) -> Any:
    if _INT.fullmatch(text):
        return int(text)
    based = _BASED.fullmatch(text)
    if based:
        number = int(based["hex"], 16) if based["hex"] else int(based["octal"], 8)
        return -number if text[0] == "-" else number
    if _FLOAT.fullmatch(text):
        measured = float(text)
        return text if math.isinf(measured) else measured
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text
