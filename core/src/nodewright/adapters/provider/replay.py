"""Replays a recording: the provider gets the recorded responses, and its answers are compared with the recorded ones."""

import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar, get_type_hints
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pluggy

from nodewright.adapters.clocks import VirtualClock
from nodewright.adapters.provider.loader import ProviderEntry, build_plugin, register
from nodewright.adapters.provider.recording import (
    CALL,
    EXCHANGE,
    SCHEMA,
    SESSION,
    Exchange,
    HookCall,
    RecordedSession,
    make_call,
    sanitized_request,
)
from nodewright.adapters.provider.sanitizing import Sanitizer
from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable
from nodewright.model.quantity import Quantity
from nodewright.spec.exchanges import ApiAnswer, ApiRequest
from nodewright.spec.hooks import CAPABILITY_HOOKS, ProviderContext, RequiredHooks

T = TypeVar("T")
# Fields of requests that have a new value each time, and times.
_ONCE = re.compile(r"(request[-_]?id|client[-_]?token)$", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")


class ReplayDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. ``file`` is a file of the recording; empty: the difference concerns the whole recording."""

    file: str
    what: str
    recorded: str = ""
    now: str = ""


class Recording(NamedTuple):
    """A recording read from files: exchanges and calls by file name, in order."""

    folder: Path
    session: RecordedSession
    exchanges: Mapping[str, Exchange]
    calls: Mapping[str, HookCall]


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a replay. ``exchanges`` and ``calls`` are the numbers of those in the recording."""

    recording: str
    provider: str
    recorded_with: str
    exchanges: int
    calls: int
    differences: tuple[ReplayDifference, ...]


def find_recordings(folder: Path) -> tuple[Recording, ...]:
    """Return the recording in a folder, or those in the folders within it; raise ConfigError if there is none."""
    places = [folder] if (folder / SESSION).is_file() else sorted(path.parent for path in folder.glob(f"*/{SESSION}"))
    if not places:
        raise ConfigError(f"{folder} holds no recording: there is no {SESSION} in it nor in a folder of it")
    return tuple(_read(place) for place in places)


def replay(recording: Recording, entries: Iterable[ProviderEntry] | None = None) -> Replay:
    """Build the provider and call its hooks as recorded; raise PluginError or ConfigError if it cannot be built."""
    session = recording.session
    first = min((one.at for one in recording.calls.values()), default=0.0)
    clock, answers = VirtualClock(start=first), _Answers(recording)
    context = ProviderContext(
        clock=clock,
        random=Random(session.seed),
        options=session.options,
        node_group_specs=session.node_group_specs,
        auto_discovery_specs=session.auto_discovery_specs,
        dry_run=session.dry_run,
        exchanges=answers,
    )
    manager = register(session.provider, build_plugin(session.provider, context, entries))
    differences: list[ReplayDifference] = []
    for file, recorded in recording.calls.items():
        clock.advance_to(recorded.at)
        answers.file = file
        differences += _compare(file, recorded, _call_again(manager, recorded, answers.sanitizer))
    differences += answers.differences()
    return Replay(
        recording=str(recording.folder),
        provider=session.provider,
        recorded_with=f"{session.distribution} {session.version}",
        exchanges=len(recording.exchanges),
        calls=len(recording.calls),
        differences=tuple(differences),
    )


class _Answers:
    """Serves the recorded responses: to equal requests in their order, then the last one again."""

    replays = True

    def __init__(self, recording: Recording) -> None:
        self.sanitizer = Sanitizer()
        self.file = ""
        self._lock = threading.Lock()
        self._facts = recording.session.facts
        self._left: dict[str, list[ApiAnswer]] = defaultdict(list)
        self._alike: dict[str, list[str]] = defaultdict(list)
        self._last: dict[str, ApiAnswer] = {}
        self._others: list[ReplayDifference] = []
        for exchange in recording.exchanges.values():
            key = _key(exchange.request)
            self._left[key].append(exchange.answer)
            self._alike[exchange.request.operation].append(key)

    def find(self, request: ApiRequest) -> ApiAnswer:
        asked = sanitized_request(request, self.sanitizer)
        key = _key(asked)
        with self._lock:
            if key not in self._left:
                # The request differs: give the next unused response to the same operation.
                unused = [other for other in self._alike[asked.operation] if self._left[other]]
                self._others.append(
                    ReplayDifference(
                        file=self.file,
                        what=f"{asked.operation}: the request differs"
                        if unused
                        else f"{asked.operation}: not recorded",
                        recorded=unused[0] if unused else "",
                        now=key,
                    )
                )
                if not unused:
                    return ApiAnswer(failure="the recording has no answer to this request")
                key = unused[0]
            if self._left[key]:
                self._last[key] = self._left[key].pop(0)
            return self._last[key]

    def note(self, request: ApiRequest, answer: ApiAnswer) -> None:
        """Do nothing: a replay is not recorded."""

    def fact(self, name: str, find: Callable[[], T]) -> T:
        """Return the recorded fact; find it if it was not recorded."""
        recorded: T = self._facts[name] if name in self._facts else find()
        return recorded

    def differences(self) -> list[ReplayDifference]:
        """Return requests that differ, and recorded requests that were not made in the replay."""
        unasked = Counter(
            operation for operation, keys in self._alike.items() for key in set(keys) for _ in self._left[key]
        )
        gone = [
            ReplayDifference(file="", what=f"{operation}: recorded, but not requested now", recorded=f"{number} times")
            for operation, number in sorted(unasked.items())
        ]
        return [*self._others, *gone]


def _call_again(manager: pluggy.PluginManager, recorded: HookCall, sanitizer: Sanitizer) -> HookCall:
    method = getattr(_PROTOCOL_OF[recorded.hook], recorded.hook)
    hints = get_type_hints(method)
    arguments = {
        name: msgspec.convert(recorded.arguments[name], hints[name], dec_hook=_decode)
        for name in signature(method).parameters
        if name in recorded.arguments
    }
    outcome: Any = pluggy.Result.from_call(lambda: getattr(manager.hook, recorded.hook)(**arguments))
    return make_call(recorded.hook, arguments, outcome, recorded.at, sanitizer)


def _compare(file: str, recorded: HookCall, now: HookCall) -> list[ReplayDifference]:
    """Return the difference of a hook's answer, as the first path at which it differs."""
    place = f"{recorded.hook}({', '.join(str(value) for value in recorded.arguments.values())})"
    before, after = (_without_words(one.outcome) for one in (recorded, now))
    found = _first_difference(before, after, "")
    if found is None:
        return []
    path, was, became = found
    return [ReplayDifference(file=file, what=f"{place}{path}", recorded=_short(was), now=_short(became))]


def _without_words(outcome: Any) -> Any:
    """Return an outcome; if the cloud did not respond, without the message, which depends on the library."""
    is_error = isinstance(outcome, dict) and outcome.get("type") == "ProviderUnavailable"
    return {name: value for name, value in outcome.items() if name != "message"} if is_error else outcome


def _first_difference(before: Any, after: Any, path: str) -> tuple[str, Any, Any] | None:
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        pairs = [(f"{path}.{key}", before[key], after[key]) for key in before]
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = [(f"{path}[{number}]", *pair) for number, pair in enumerate(zip(before, after, strict=True))]
    else:
        return None if before == after else (path, before, after)
    return next((found for one in pairs if (found := _first_difference(one[1], one[2], one[0])) is not None), None)


def _key(request: ApiRequest) -> str:
    """Return the parts that identify a request: without the host, times, and ids that are new for each request."""
    parts = urlsplit(request.url)
    body = request.body
    fields = parse_qsl(parts.query, keep_blank_values=True)
    if not body.startswith(("{", "[", "<")):
        fields, body = fields + parse_qsl(body, keep_blank_values=True), ""
    told = "&".join(f"{name}={value}" for name, value in sorted(fields) if not _ONCE.search(name))
    return _TIME.sub("TIME", f"{request.operation} {request.method} {parts.path}?{told} {_without_ids(body)}").rstrip(
        " ?"
    )


def _without_ids(body: str) -> str:
    try:
        content = json.loads(body)
    except ValueError:
        return body
    if isinstance(content, dict):
        content = {name: value for name, value in content.items() if not _ONCE.search(name)}
    return json.dumps(content, sort_keys=True)


def _read(folder: Path) -> Recording:
    session = _decode_file(folder / SESSION, RecordedSession)
    if session.schema != SCHEMA:
        raise ConfigError(f"{folder / SESSION}: schema {session.schema} is unknown, this nodewright reads {SCHEMA}")
    exchanges = {path.name: _decode_file(path, Exchange) for path in sorted(folder.glob(f"*{EXCHANGE}"))}
    calls = {path.name: _decode_file(path, HookCall) for path in sorted(folder.glob(f"*{CALL}"))}
    unknown = next((name for name, call in calls.items() if call.hook not in _PROTOCOL_OF), None)
    if unknown is not None:
        raise ConfigError(f"{folder / unknown}: there is no hook {printable(calls[unknown].hook)}")
    return Recording(folder, session, exchanges, calls)


def _decode_file(path: Path, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a file of a recording: {error}") from error


def _decode(kind: type, raw: Any) -> Any:
    if kind is Quantity:
        return Quantity.of(raw)
    raise NotImplementedError(f"{kind.__name__} is no part of the contract")


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 300 else f"{text[:300]}…"


_PROTOCOL_OF: Mapping[str, type] = {
    hook: protocol
    for protocol in (RequiredHooks, *CAPABILITY_HOOKS.values())
    for hook in vars(protocol)
    if not hook.startswith("_")
}
