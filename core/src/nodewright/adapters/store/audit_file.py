"""The audit in a file: one JSON object a line, only ever added to."""

import os
from pathlib import Path

import msgspec

from nodewright.actuation import AuditRecord
from nodewright.model.errors import NodewrightError


class AuditFile:
    """Implements AuditSink. The file is its owner's alone; it may be moved away at any time, and begins anew then."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, record: AuditRecord) -> None:
        line = msgspec.json.encode(record) + b"\n"
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(handle, line)  # one call: lines of several writers never mix
            finally:
                os.close(handle)
        except OSError as error:
            raise NodewrightError(f"{self._path}: the audit cannot be written: {error.strerror or error}") from error
