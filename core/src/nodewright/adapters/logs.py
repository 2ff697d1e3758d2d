"""The daemon's log, on the standard library's logging: each line is a JSON object, or text for people."""

import logging
import re
import threading
import traceback
from collections import deque
from contextlib import suppress
from typing import Any, BinaryIO

import msgspec

from nodewright.actuation import AuditRecord, Event, EventSink
from nodewright.model.clock import Clock
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef
from nodewright.model.printable import printable

# A separate number, duration or time, such as 7, 2.5s, 3m10s or 2026-11-27T15:03:12Z, but not a part of a name such as pool-2.
_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"
_VARYING = re.compile(rf"(?<![\w.-])({_TIME}|(\d+(\.\d+)?(ms|[dhms]))+|\d+(\.\d+)?)(?!\.?[\w-])")

DEBUG, INFO, WARNING, ERROR = "debug", "info", "warning", "error"
_NUMBERS = {DEBUG: logging.DEBUG, INFO: logging.INFO, WARNING: logging.WARNING, ERROR: logging.ERROR}
_MOST_TEXT = 4000
# How many of the last lines are kept in memory.
_KEPT_LINES = 2000


class DaemonLog:
    """Implements AuditSink: every cloud write is a line, with the id of the loop that asked for it. For any thread.

    ``loop`` is the id of the loop that runs; events and writes of one decision have the same. Lines below ``level`` are left
    out. ``is_text``: lines are for people, else JSON. Write errors are ignored: there is no other place to report them.
    """

    def __init__(self, stream: BinaryIO, clock: Clock, level: str = INFO, *, is_text: bool = False) -> None:
        self.loop = ""
        self._clock = clock
        self._handler = _Handler(stream, self, is_text=is_text)
        self._logger = logging.Logger("nodewright")  # noqa: LOG001 - each daemon has its own
        self._logger.addHandler(self._handler)
        self.use(level)

    def use(self, level: str) -> None:
        """Leave out lines below ``level`` from now on."""
        self._handler.setLevel(_NUMBERS[level])

    def say(self, message: str, *, level: str = INFO, **fields: Any) -> None:
        if _NUMBERS[level] >= self._handler.level:
            self._logger.log(_NUMBERS[level], "%s", message[:_MOST_TEXT], extra={"fields": fields})

    def take_libraries(self) -> None:
        """Also write the warnings of libraries and plugins, which use the standard library's logging."""
        root = logging.getLogger()
        root.addHandler(self._handler)
        root.setLevel(logging.WARNING)

    def tail(self) -> bytes:
        """Return the last lines, as they were written."""
        return b"".join(tuple(self._handler.kept))

    def moment(self) -> str:
        """Return the time of day, as lines show it."""
        return format_moment(self._clock.now())

    def record(self, record: AuditRecord) -> None:
        self.say("cloud write", write=record)

    def thread_ended(self, ended: threading.ExceptHookArgs) -> None:
        """Log that a thread ended with an exception, as ``threading.excepthook``."""
        name = ended.thread.name if ended.thread is not None else "without a name"
        where = "".join(traceback.format_tb(ended.exc_traceback))
        self.say(f"thread {name} ended: {ended.exc_type.__name__}: {ended.exc_value}", level=ERROR, where=where)


class _Handler(logging.Handler):
    def __init__(self, stream: BinaryIO, log: DaemonLog, *, is_text: bool) -> None:
        super().__init__()
        self.kept: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._stream = stream
        self._log = log
        self._write = _as_text if is_text else _as_json

    def emit(self, record: logging.LogRecord) -> None:
        """Keep and write one line. Never raise: a library may log with wrong arguments."""
        try:
            written = self._encode(record)
        except Exception as error:  # noqa: BLE001 - a field or its text may raise anything
            written = self._write(
                {
                    "time": self._log.moment(),
                    "level": record.levelname.lower(),
                    "message": _whole_text(
                        f"{_raw_message(record)[:_MOST_TEXT]} (this line cannot be logged as it is: {type(error).__name__})"
                    ),
                    "logger": record.name,
                }
            )
        self.kept.append(written + b"\n")
        try:
            self._stream.write(written + b"\n")
            self._stream.flush()
        except (OSError, ValueError, RuntimeError):  # RuntimeError: a signal handler logs amid a write
            return

    def _encode(self, record: logging.LogRecord) -> bytes:
        fields: dict[str, Any] = getattr(record, "fields", {"logger": record.name})
        if record.exc_info and record.exc_info[0] is not None:
            fields = {**fields, "where": "".join(traceback.format_exception(*record.exc_info))}
        line: dict[str, Any] = {
            "time": self._log.moment(),
            "level": record.levelname.lower(),
            "message": _whole_text(record.getMessage()[:_MOST_TEXT]),
        }
        if self._log.loop:
            line["loop"] = self._log.loop
        return self._write(line | {name: _name_groups(value) for name, value in fields.items()})


def _raw_message(record: logging.LogRecord) -> str:
    """Return the message; without its arguments if they do not fit it."""
    with suppress(Exception):
        return record.getMessage()
    return record.msg if isinstance(record.msg, str) else type(record.msg).__name__


def _whole_text(text: str) -> str:
    """Return the text with ``?`` in place of lone surrogates, which JSON cannot hold."""
    return text.encode(errors="replace").decode()


def _as_json(line: dict[str, Any]) -> bytes:
    return msgspec.json.encode(line)


def _as_text(line: dict[str, Any]) -> bytes:
    """Return a line for people: fields without a value are left out, line breaks and control characters escaped."""
    fields = {name: value for name, value in line.items() if value not in (None, "", [], {})}
    time, level, message = (str(fields.pop(name, "")) for name in ("time", "level", "message"))
    shown = [
        f"{name}={value if isinstance(value, str) and ' ' not in value else msgspec.json.encode(value).decode()}"
        for name, value in fields.items()
    ]
    return printable("  ".join([f"{time} {level.upper():<7} {message}", *shown]), 4 * _MOST_TEXT).encode(
        errors="replace"
    )


def _name_groups(value: Any) -> Any:
    """Return a field's value with every node group in it as ``provider/id``, as people see it elsewhere."""
    match value:
        case GroupRef():
            return _whole_text(str(value))
        case str():
            return _whole_text(value)
        case msgspec.Struct():
            config, names = (
                value.__struct_config__,
                zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True),
            )
            tag = {} if config.tag is None else {str(config.tag_field): config.tag}
            return tag | {name: _name_groups(getattr(value, field)) for name, field in names}
        case tuple() | list() | set() | frozenset():
            return [_name_groups(part) for part in value]
        case dict():
            return {_name_groups(key): _name_groups(part) for key, part in value.items()}
    return value


class ConditionLog:
    """Logs a problem when it begins, and not again while it lasts. Any thread may call it, but only one for each ``what``."""

    def __init__(self, log: DaemonLog) -> None:
        self._log = log
        self._wrong: set[str] = set()

    def see(self, what: str, problem: str) -> None:
        """Log a new problem of ``what`` once; ``problem`` is empty while there is none."""
        if not problem:
            self._wrong.discard(what)
        elif what not in self._wrong:
            self._wrong.add(what)
            self._log.say(f"{what}: {problem}", level=WARNING)


class LoggedEvents:
    """Implements EventSink: logs each event, then passes it on to ``beyond``, if there is one."""

    def __init__(self, log: DaemonLog, beyond: EventSink | None) -> None:
        self._log = log
        self._beyond = beyond

    def record(self, event: Event) -> None:
        level = WARNING if event.type == "Warning" else INFO
        self._log.say(event.message, level=level, event=event.reason, kind=event.kind, object=event.name)
        if self._beyond is not None:
            self._beyond.record(event)


def without_numbers(problem: str) -> str:
    """Return a problem without what differs each time: counts, durations and times."""
    return _VARYING.sub("", problem)
