"""Find where and why a value does not fit its type, in words for one sentence.

msgspec writes ``[...]`` for the key of a mapping; this module finds the real key. All text from outside passes through
``printable`` before it enters a message.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

MAX_SHOWN = 253
_SHORT = 40

_PLACED = re.compile(r"(?P<what>.*) - at (?P<key>`key` in )?`\$(?P<path>[^`]*)`", re.DOTALL)
_STEP = re.compile(r"\.(?P<field>[^.\[\]]+)|\[(?P<index>\d+|\.\.\.)\]")
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]+)`(?:, got `(?P<got>[^`]+)`)?")
_BOUND = re.compile(r"Expected `[^`]+` (?P<sign>[<>]=?) (?P<bound>\S+)")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_SIGNS = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_NAMES = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "datetime": "a time",
    "null": "null",
}
_PLAINER = {
    "Expected `datetime` with a timezone component": "must be a time with a zone, like 2026-01-31T12:00:00Z",
    "Invalid RFC3339 encoded datetime": "must be a time, like 2026-01-31T12:00:00Z",
    "Integer value out of range": "the number is too large",
    "Number out of range": "the number is too large",
}

Hook = Callable[[type, Any], Any]
_ANY_KEY = None
_UNSEEN = object()
_Step = str | int | None
_Mismatch = tuple[str, tuple[_Step, ...]]


class Misfit(NamedTuple):
    """A place where a value does not fit its type (``spec.containers[0].name``), and what is wrong there."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem


def printable(text: str, limit: int = MAX_SHOWN) -> str:
    """Return ``text`` for one line of a terminal: control characters escaped, cut to ``limit`` characters."""
    shown = text if len(text) <= limit else text[: limit - 3] + "..."
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)


def show(value: object) -> str:
    """Return words for a value in a message."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, int | float):
        return f"the number {printable(str(value), _SHORT)}" if abs(value) < 10**40 else "a huge number"
    if isinstance(value, str):
        return f"'{printable(value, _SHORT)}'"
    kinds = {dict: "a mapping", list: "a list", tuple: "a list", type(None): "null"}
    return kinds.get(type(value), f"a {type(value).__name__}")


def suggest(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean …?`` if a known name is similar, or else an empty text."""
    close = difflib.get_close_matches(name[:MAX_SHOWN], list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else ""


def find_misfit(value: object, wanted: Any, hook: Hook | None = None) -> Misfit | None:
    """Return the first place where ``value``, made of builtins, does not fit ``wanted``; None if it fits."""
    mismatch = _mismatch(value, wanted, hook)
    if mismatch is None:
        return None
    what, steps = mismatch
    where, found = _resolve(value, steps, lambda candidate: _mismatch(candidate, wanted, hook))
    return Misfit(_render(where), _say(what, found))


def explain(message: str) -> Misfit:
    """Return the misfit that msgspec's message describes. Without the value, keys of mappings stay ``[...]``."""
    what, steps = _split_message(message)
    return Misfit(_render(["..." if step is _ANY_KEY else step for step in steps]), _say(what))


def _split_message(text: str) -> _Mismatch:
    """Split msgspec's message into what is wrong and the path to it."""
    placed = _PLACED.fullmatch(text)
    if placed is None:
        return text, ()
    what = placed["what"] + (" as a key" if placed["key"] else "")
    return what, tuple(_read_step(step) for step in _STEP.finditer(placed["path"]))


def _read_step(step: re.Match[str]) -> _Step:
    if step["field"] is not None:
        return step["field"]
    return _ANY_KEY if step["index"] == "..." else int(step["index"])


def _mismatch(value: object, wanted: Any, hook: Hook | None) -> _Mismatch | None:
    try:
        msgspec.convert(value, wanted, dec_hook=hook)
    except msgspec.ValidationError as error:
        return _split_message(str(error))
    return None


def _resolve(
    root: Any, steps: Sequence[_Step], find_mismatch: Callable[[Any], _Mismatch | None]
) -> tuple[list[str | int], object]:
    """Return the path to the misfit with real keys, and the value found there."""
    where: list[str | int] = []
    found = root
    for position, step in enumerate(steps):
        key = step
        if key is _ANY_KEY:
            prefix = tuple(steps[: position + 1])

            def fails(keys: Sequence[str], here: Any = found, prefix: tuple[_Step, ...] = prefix) -> bool:
                mismatch = find_mismatch(_replace(root, where, {key: here[key] for key in keys}))
                return mismatch is not None and mismatch[1][: len(prefix)] == prefix

            key = _find_key(list(found), fails)
        where.append(key)
        found = found[key]
    return where, found


def _find_key(keys: list[str], fails: Callable[[Sequence[str]], bool]) -> str:
    """Return the key whose value does not fit, found by bisection."""
    while len(keys) > 1:
        half = keys[: len(keys) // 2]
        keys = half if fails(half) else keys[len(half) :]
    return keys[0]


def _replace(root: Any, path: Sequence[str | int], new: object) -> Any:
    """Return a copy of ``root`` with ``new`` at ``path``; it shares all other parts."""
    if not path:
        return new
    copied = root.copy()
    copied[path[0]] = _replace(root[path[0]], path[1:], new)
    return copied


def _render(where: Sequence[str | int]) -> str:
    text = ""
    for step in where:
        if isinstance(step, str) and _PLAIN_KEY.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{printable(str(step))}]"
    return text


def _say(what: str, found: object = _UNSEEN) -> str:
    """Return msgspec's message in plain words."""
    bound = _BOUND.fullmatch(what)
    if bound:
        return f"must be {_SIGNS[bound['sign']]} {bound['bound']}" + _contrast(found)
    expected = _EXPECTED.fullmatch(what)
    if expected:
        wanted = [name for name in expected["wanted"].split(" | ") if name != "null"]
        named = " or ".join(_NAMES.get(name, name) for name in wanted)
        got = expected["got"]
        contrast = f", not {_NAMES.get(got, got)}" if found is _UNSEEN and got else _contrast(found)
        return f"must be {named}{contrast}{_hint(wanted, found)}"
    if what in _PLAINER:
        return _PLAINER[what]
    return what.replace("Object missing required field", "lacks").replace("`", "")


def _contrast(found: object) -> str:
    return "" if found is _UNSEEN else f", not {show(found)}"


def _hint(wanted: Sequence[str], found: object) -> str:
    if wanted != ["str"] or not isinstance(found, bool | int | float):
        return ""
    return " (quote it: unquoted yes, on and true are booleans)" if isinstance(found, bool) else " (quote it)"
