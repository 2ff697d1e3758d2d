"""Memory in a file, and the audit file."""

import os
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec

from nodewright.actuation import AuditRecord
from nodewright.adapters.store.codec import UnreadableState, decode_memory, encode_memory
from nodewright.clusterstate.memory import Memory
from nodewright.engine.ports import Loaded, Pause
from nodewright.model.errors import NodewrightError

_PRIVATE = 0o600
_PAUSE = msgspec.json.Decoder(Pause)


class FileStore:
    """Implements StateStore: one file that only its owner may read, replaced as a whole or not at all.

    A file with invalid content is renamed to ``<name>.damaged-<n>``. A file that cannot be read stays where it is, and is an
    error: starting without memory that exists would not be safe.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._pause_path = _beside(self._path, "pause")
        self._written: bytes | None = None

    def load(self) -> Loaded:
        """Read the file; raise NodewrightError if it cannot be read or moved aside."""
        raw = _read(self._path)
        if raw is None:
            return Loaded()
        try:
            memory = decode_memory(raw)
        except UnreadableState as error:
            return Loaded(warning=_put_aside(self._path, str(error)))
        self._written = raw
        return Loaded(memory=memory)

    def save_if_changed(self, memory: Memory) -> None:
        encoded = encode_memory(memory)
        if encoded != self._written:
            replace_file(self._path, encoded)
            self._written = encoded

    def peek(self) -> Memory:
        """Return the saved memory and change nothing; raise NodewrightError."""
        raw = _read(self._path)
        try:
            return Memory() if raw is None else decode_memory(raw)
        except UnreadableState as error:
            raise NodewrightError(f"{self._path}: saved state cannot be used: {error}") from error

    def load_pause(self) -> Pause | None:
        """Return the pause; raise NodewrightError if it cannot be read."""
        raw = _read(self._pause_path)
        try:
            return None if raw is None else _PAUSE.decode(raw)
        except (msgspec.DecodeError, ValueError) as error:
            hint = "nodewright resume removes it"
            raise NodewrightError(f"{self._pause_path}: the pause cannot be understood ({error}); {hint}") from error

    def save_pause(self, pause: Pause | None) -> None:
        """Save a pause; None ends it. It has a file of its own, so that a running engine never overwrites it."""
        if pause is not None:
            replace_file(self._pause_path, msgspec.json.encode(pause))
            return
        try:
            self._pause_path.unlink(missing_ok=True)
        except OSError as error:
            raise NodewrightError(f"{self._pause_path}: cannot be removed: {error.strerror or error}") from error


def replace_file(path: Path, content: bytes) -> None:
    """Replace the file's content durably, or leave the file as it was and raise NodewrightError."""
    fresh = _beside(path, "new")  # always the same name: the leftover of a killed writer is overwritten
    try:
        with suppress(FileNotFoundError):
            fresh.unlink()
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise NodewrightError(f"{path}: state cannot be saved: {error.strerror or error}") from error


def _beside(path: Path, ending: str) -> Path:
    return Path(f"{path}.{ending}")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NodewrightError(f"{path}: state cannot be read: {error.strerror or error}") from error


def _put_aside(path: Path, why: str) -> str:
    """Rename the file; return a sentence that says so."""
    asides = (_beside(path, f"damaged-{number}") for number in count(1))
    aside = next(aside for aside in asides if not aside.exists())
    try:
        path.rename(aside)
    except OSError as error:
        raise NodewrightError(f"{path}: state cannot be put aside: {error.strerror or error}") from error
    return f"saved state {path} is not used: {why}; it was put aside as {aside.name}"


def _sync_folder(folder: Path) -> None:
    """Sync the folder so that a file's new name is durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class AuditFile:
    """Implements AuditSink. Only its owner may read the file. It may be moved away at any time; then a new one begins."""

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
