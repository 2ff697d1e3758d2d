"""Records a provider's requests to its cloud, the responses, and its answers to the core, in files without secrets.

A recording is a folder: ``session.json`` says how the provider was built, and a numbered file follows for each exchange
with the cloud's API and for each call of a hook. A hook that answers as before is not written again.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pluggy

from nodewright.adapters.provider.sanitizing import Sanitizer, secrets_of
from nodewright.model.clock import Clock
from nodewright.model.errors import ConfigError, ProviderError
from nodewright.model.quantity import Quantity
from nodewright.spec.exchanges import ApiAnswer, ApiRequest

T = TypeVar("T")
# Names the folder in which recordings are made.
RECORD_VARIABLE = "NODEWRIGHT_RECORD"
SESSION = "session.json"
EXCHANGE, CALL = ".exchange.json", ".call.json"
SCHEMA = 1
# A recording ends after so many files: a forgotten variable must not fill a disk.
MOST_FILES = 20_000
# Hooks that are not recorded: they say nothing about the cloud, or differ each time.
_NOT_WRITTEN = frozenset({"api_calls", "await_interruption", "provider_info"})
_log = logging.getLogger(__name__)


class RecordedSession(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments with which the provider was built.

    ``seed`` is that of its random numbers. ``facts`` are what it learned from other places than the cloud's API.
    """

    schema: int
    provider: str
    distribution: str
    version: str
    seed: str
    options: dict[str, Any]
    node_group_specs: tuple[str, ...]
    auto_discovery_specs: tuple[str, ...]
    dry_run: bool
    facts: dict[str, Any] = {}


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the cloud's API and its answer; ``at`` is in seconds since the epoch."""

    at: float
    request: ApiRequest
    answer: ApiAnswer


class HookCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a hook that began at ``at``, and its answer or error in plain values."""

    at: float
    hook: str
    arguments: dict[str, Any]
    answer: Any = None
    error: dict[str, Any] | None = None

    @property
    def outcome(self) -> Any:
        """Return the answer or the error."""
        return self.answer if self.error is None else self.error


class Recorder:
    """Writes a recording into a new folder under ``parent``. Thread-safe. An error ends the recording, not the call."""

    replays = False

    def __init__(self, parent: Path, session: RecordedSession, clock: Clock, environ: Mapping[str, str]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._sanitizer = Sanitizer(secrets_of(environ))
        self._session = _sanitized_session(session, self._sanitizer)
        self._files = 0
        self._is_over = False
        self._last: dict[str, Any] = {}
        self._began = threading.local()
        self.folder = _new_folder(parent, session.provider)
        self._write(SESSION, self._session)

    def find(self, request: ApiRequest) -> ApiAnswer | None:
        """Return None, so that the request is sent."""
        del request
        return None

    def note(self, request: ApiRequest, answer: ApiAnswer) -> None:
        """Write an exchange."""
        if self._is_over:
            return
        with self._lock, self._careful():
            exchange = Exchange(
                at=self._clock.now(),
                request=sanitized_request(request, self._sanitizer),
                answer=ApiAnswer(
                    status=answer.status,
                    headers=self._sanitizer.headers(answer.headers),
                    body=self._sanitizer.body(answer.body),
                    failure=self._sanitizer.text(answer.failure),
                ),
            )
            self._write_next(EXCHANGE, exchange)

    def fact(self, name: str, find: Callable[[], T]) -> T:
        """Return the result of ``find``, and record it."""
        found = find()
        if self._is_over:
            return found
        with self._lock, self._careful():
            told = self._sanitizer.value(found, name)
            if self._session.facts.get(name) != told:
                facts = {**self._session.facts, name: told}
                self._session = msgspec.structs.replace(self._session, facts=facts)
                self._write(SESSION, self._session)
        return found

    def watch(self, manager: pluggy.PluginManager) -> None:
        """Write the calls of the hooks of a provider from now on."""
        manager.add_hookcall_monitoring(self._before, self._after)

    def _before(self, hook_name: str, hook_impls: object, kwargs: Mapping[str, Any]) -> None:
        del hook_name, hook_impls, kwargs
        self._began.at = self._clock.now()

    def _after(self, outcome: Any, hook_name: str, hook_impls: object, kwargs: Mapping[str, Any]) -> None:
        del hook_impls
        if hook_name in _NOT_WRITTEN or self._is_over:
            return
        with self._lock, self._careful():
            call = make_call(hook_name, kwargs, outcome, self._began.at, self._sanitizer)
            key = f"{hook_name} {call.arguments}"
            if hook_name == "refresh" or self._last.get(key, self) != call.outcome:
                self._last[key] = call.outcome
                self._write_next(CALL, call)

    @contextmanager
    def _careful(self) -> Iterator[None]:
        """End the recording instead of raising: recording must not disturb the provider."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - the content comes from a plugin or a cloud
            _log.warning("the recording %s ends: %s: %s", self.folder, type(error).__name__, error)
            self._is_over = True

    def _write_next(self, ending: str, value: object) -> None:
        if self._files >= MOST_FILES and not self._is_over:
            _log.warning("the recording %s has %d files and ends", self.folder, MOST_FILES)
            self._is_over = True
        self._files += 1
        self._write(f"{self._files:06}{ending}", value)

    def _write(self, name: str, value: object) -> None:
        if not self._is_over:
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_bytes(msgspec.json.format(msgspec.json.encode(value)) + b"\n")


def make_call(hook: str, arguments: Mapping[str, Any], outcome: Any, at: float, sanitizer: Sanitizer) -> HookCall:
    """Return a call in plain values without secrets. ``outcome`` is pluggy's result."""
    plain = {name: sanitizer.value(to_plain(value), name) for name, value in arguments.items()}
    error = outcome.exception
    if error is None:
        return HookCall(at=at, hook=hook, arguments=plain, answer=sanitizer.value(to_plain(outcome.get_result())))
    told = {"type": type(error).__name__, "message": sanitizer.text(str(error))}
    if isinstance(error, ProviderError):
        told["code"] = sanitizer.text(str(error.code))
    return HookCall(at=at, hook=hook, arguments=plain, error=told)


def to_plain(value: object) -> Any:
    """Return a value of the contract as lists, maps and scalars."""
    return msgspec.to_builtins(value, enc_hook=_encode, order="deterministic")


def sanitized_request(request: ApiRequest, sanitizer: Sanitizer) -> ApiRequest:
    """Return a request without secrets."""
    headers = sanitizer.headers(request.headers)  # first: the sanitizer learns the credentials from them
    return ApiRequest(
        operation=sanitizer.text(request.operation),
        method=request.method,
        url=sanitizer.url(request.url),
        headers=headers,
        body=sanitizer.body(request.body),
    )


def _sanitized_session(session: RecordedSession, sanitizer: Sanitizer) -> RecordedSession:
    options = sanitizer.value(session.options)
    return msgspec.structs.replace(
        session,
        options=options,
        node_group_specs=tuple(map(sanitizer.text, session.node_group_specs)),
        auto_discovery_specs=tuple(map(sanitizer.text, session.auto_discovery_specs)),
    )


def _new_folder(parent: Path, provider: str) -> Path:
    for number in range(1, 10_000):
        folder = parent / f"{provider}-{number:04}"
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ConfigError(f"{RECORD_VARIABLE}: {parent} cannot be written: {error.strerror or error}") from error
        return folder
    raise ConfigError(f"{RECORD_VARIABLE}: {parent} has too many recordings")


def _encode(value: object) -> Any:
    if isinstance(value, Quantity):
        text = str(value)
        return int(text) if text.isdigit() else text
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise NotImplementedError(f"{type(value).__name__} is no value of the contract")
