"""The daemon's log: one JSON object per line."""

import threading
import traceback
from typing import Any, BinaryIO

import msgspec

from nodewright.actuation import AuditRecord, Event, EventSink
from nodewright.model.clock import Clock
from nodewright.model.duration import format_moment
from nodewright.model.group import GroupRef

INFO, WARNING, ERROR = "info", "warning", "error"
_MOST_TEXT = 4000


class JsonLog:
    """Implements AuditSink: every cloud write is a line, with the id of the loop that asked for it. For any thread.

    Write errors are ignored: there is no other place to report them.
    """

    def __init__(self, stream: BinaryIO, clock: Clock) -> None:
        self.loop = ""
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()

    def say(self, message: str, *, level: str = INFO, **fields: Any) -> None:
        line: dict[str, Any] = {
            "time": format_moment(self._clock.now()),
            "level": level,
            "message": message[:_MOST_TEXT],
        }
        if self.loop:
            line["loop"] = self.loop
        encoded = msgspec.json.encode(line | {name: _name_groups(value) for name, value in fields.items()}) + b"\n"
        try:
            with self._lock:
                self._stream.write(encoded)
                self._stream.flush()
        except (OSError, ValueError):
            return

    def record(self, record: AuditRecord) -> None:
        self.say("cloud write", write=record)

    def thread_ended(self, ended: threading.ExceptHookArgs) -> None:
        """Log that a thread ended with an exception, as ``threading.excepthook``."""
        name = ended.thread.name if ended.thread is not None else "of no name"
        where = "".join(traceback.format_tb(ended.exc_traceback))
        self.say(f"thread {name} ended: {ended.exc_type.__name__}: {ended.exc_value}", level=ERROR, where=where)


def _name_groups(value: Any) -> Any:
    """Return a field's value with every node group in it as ``provider/id``, as people see it elsewhere."""
    match value:
        case GroupRef():
            return str(value)
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
    """Says what is wrong when it begins, not again as long as it lasts. For any thread, one for each ``what``."""

    def __init__(self, log: JsonLog) -> None:
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
    """Implements EventSink: says each event before it goes on to ``beyond``, where there is one."""

    def __init__(self, log: JsonLog, beyond: EventSink | None) -> None:
        self._log = log
        self._beyond = beyond

    def record(self, event: Event) -> None:
        level = WARNING if event.type == "Warning" else INFO
        self._log.say(event.message, level=level, event=event.reason, kind=event.kind, object=event.name)
        if self._beyond is not None:
            self._beyond.record(event)
