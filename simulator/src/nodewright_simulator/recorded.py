"""Traces in one Parquet file: what ``nodewright record`` writes, and how they run again (docs/traces.md)."""

import fcntl
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from nodewright.model.cluster import DaemonSet
from nodewright.model.errors import ConfigError
from nodewright.model.pod import Pod
from nodewright.model.printable import printable
from nodewright.spec.options import decode_options
from nodewright_simulator.controllers import named, owned
from nodewright_simulator.scenario import PodShape, ScenarioDaemonSet
from nodewright_simulator.scenario_file import decode_span
from nodewright_simulator.workloads import daemon_set, pod_of

VERSION = 1
_KEY = b"nodewright.trace"
_NO_PYARROW = 'Parquet needs pyarrow: pip install "nodewright[sweep]"'


class RecordedPod(NamedTuple):
    """A row of the table; times in seconds from the start of the recording, None: did not happen in it.

    ``kind`` is the place of its constraints in the header's ``classes``. ``resources`` are those besides cpu and memory.
    A pod without ``owner`` has no controller.
    """

    name: str
    owner: str
    owner_kind: str
    kind: int
    cpu_milli: int
    memory_bytes: int
    resources: Mapping[str, int]
    created: float
    started: float | None
    ended: float | None


class TraceHeader(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What stands beside the table, as JSON in the metadata of the file.

    ``groups`` are node groups as options of a simulated provider, ``classes`` what pods ask for besides their size,
    ``left_out`` the numbers of pods by what a trace cannot hold of them.
    """

    version: int = VERSION
    seconds: float
    anonymous: bool
    groups: tuple[dict[str, Any], ...] = ()
    classes: tuple[PodShape, ...] = (PodShape(),)
    daemon_sets: tuple[ScenarioDaemonSet, ...] = ()
    left_out: dict[str, int] = {}


class Arrival(NamedTuple):
    """A pod that comes at ``created`` and ends ``lifetime`` seconds after it starts; infinite: it does not end."""

    pod: Pod
    created: float
    lifetime: float


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A trace as the simulation takes it; ``groups`` are options of a simulated provider."""

    groups: list[dict[str, Any]]
    arrivals: tuple[Arrival, ...]
    daemon_sets: tuple[DaemonSet, ...] = ()


class RecordedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """A trace with its pods in order of creation."""

    header: TraceHeader
    pods: tuple[RecordedPod, ...]

    def replay(self, *, arrivals: float = 1.0, lifetimes: float = 1.0, all_at_once: bool = False) -> Replay:
        """Return what runs again, with times of arrival and lifetimes divided by these factors."""
        return Replay(
            groups=[dict(group) for group in self.header.groups],
            arrivals=tuple(
                Arrival(made, 0.0 if all_at_once else pod.created / arrivals, _lifetime(pod) / lifetimes)
                for pod, made in self._made()
            ),
            daemon_sets=tuple(daemon_set(spec) for spec in self.header.daemon_sets),
        )

    def _made(self) -> Iterator[tuple[RecordedPod, Pod]]:
        """Yield each pod with its object. A name that comes again gets a number: pods of a StatefulSet have one name."""
        templates: dict[tuple[Any, ...], Pod] = {}
        seen = Counter[tuple[str, str]]()
        for pod in self.pods:
            key = (pod.kind, pod.owner, pod.cpu_milli, pod.memory_bytes, *sorted(pod.resources.items()))
            if key not in templates:
                templates[key] = self._template(pod)
            template = templates[key]
            place = (template.metadata.namespace, pod.name)
            seen[place] += 1
            name = pod.name if seen[place] == 1 else f"{pod.name}-again-{seen[place] - 1}"
            yield pod, named(template, name, pod.created)

    def _template(self, pod: RecordedPod) -> Pod:
        shape = replace(
            self.header.classes[pod.kind],
            cpu=f"{pod.cpu_milli}m",
            memory=pod.memory_bytes,
            resources=dict(pod.resources),
        )
        made = pod_of(pod.owner or pod.name, shape)
        return owned(made, "Job", pod.owner) if pod.owner else made


def _lifetime(pod: RecordedPod) -> float:
    if pod.ended is None:
        return math.inf
    return max(0.0, pod.ended - max(pod.created, pod.created if pod.started is None else pod.started))


def save_trace(trace: RecordedTrace, path: Path) -> None:
    """Write the trace, as a whole or not at all; raise ConfigError."""
    _save([_table(trace.pods)], trace.header, path)


def _save(tables: Iterable[Any], header: TraceHeader, path: Path, **more: str) -> None:
    """Write tables of pods one after another into one file. ``more`` are further metadata."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    pa, parquet = _import_pyarrow()
    metadata = {_KEY: msgspec.json.encode(msgspec.to_builtins(header, enc_hook=float))}
    schema = pa.schema(_COLUMNS.items(), metadata | {key.encode(): text.encode() for key, text in more.items()})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with parquet.ParquetWriter(unfinished, schema) as target:
            for table in tables:
                target.write_table(table.cast(schema))
        unfinished.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def load_trace(path: Path) -> RecordedTrace:
    """Load a trace; raise ConfigError that names the file and the key."""
    table = read_table(path)
    raw = (table.schema.metadata or {}).get(_KEY)
    if raw is None:
        raise ConfigError(f"{path}: is no trace of nodewright record; other tables need trace.mapping (docs/traces.md)")
    header = _read_header(raw, str(path))
    missing = [column for column in _COLUMNS if column not in table.column_names]
    if missing:
        raise ConfigError(f"{path}: lacks the column {missing[0]}")
    rows = zip(*(table.column(column).to_pylist() for column in _COLUMNS), strict=True)
    try:
        pods = tuple(_pod(row, len(header.classes)) for row in rows)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: a pod: {error}") from None
    return RecordedTrace(header=header, pods=tuple(sorted(pods, key=lambda pod: pod.created)))


def read_table(path: Path) -> Any:
    """Return a Parquet file as a table of pyarrow; raise ConfigError."""
    _, parquet = _import_pyarrow()
    try:
        return parquet.read_table(path)
    except (OSError, ValueError) as error:  # pyarrow's own errors are both
        raise ConfigError(f"{path}: cannot be read as Parquet: {printable(str(error), 200)}") from None


_COLUMNS = {
    "name": "string",
    "owner": "string",
    "owner_kind": "string",
    "class": "int32",
    "cpu_milli": "int64",
    "memory_bytes": "int64",
    "resources": "string",
    "created": "float64",
    "started": "float64",
    "ended": "float64",
}


def _pod(row: tuple[Any, ...], classes: int) -> RecordedPod:
    name, owner, owner_kind, kind, cpu_milli, memory_bytes, resources, created, started, ended = row
    pod = RecordedPod(
        name, owner, owner_kind, kind, cpu_milli, memory_bytes, json.loads(resources), created, started, ended
    )
    if not 0 <= pod.kind < classes:
        raise ValueError(f"{pod.name} has class {pod.kind}, and there are {classes}")
    if pod.created < 0 or pod.cpu_milli < 0 or pod.memory_bytes < 0:
        raise ValueError(f"{pod.name} has a time or a size below 0")
    return pod


def _read_header(raw: bytes, source: str) -> TraceHeader:
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{source}: {_KEY.decode()}: {error}") from None
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ConfigError(f"{source}: is of another version of nodewright; this one reads version {VERSION}")
    return decode_options(document, TraceHeader, f"{source}: {_KEY.decode()}", decode_span)


def _table(pods: Sequence[RecordedPod]) -> Any:
    pa, _ = _import_pyarrow()
    rows = [pod._replace(resources=json.dumps(pod.resources, sort_keys=True)) for pod in pods]  # type: ignore[arg-type] # a column of text
    columns: list[Any] = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in _COLUMNS]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _COLUMNS.values(), strict=True)]
    return pa.table(arrays, names=list(_COLUMNS))


# Pods in one part of an unfinished trace; so many rows are in memory, besides the pods that are there.
_PART_ROWS = 10_000
_PARTS = "nodewright.parts"


class UnfinishedTrace:
    """A trace while it is recorded: a folder beside its file, ``FILE.parts``, that survives a crash.

    ``rest.parquet`` is the trace as of the last save but for the pods in the parts, whose number it holds: a part that was
    written after it does not count. While this is entered, no other process records into the folder or makes its trace.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = _parts_of(path)
        self._gone: list[RecordedPod] = []
        self._parts = 0
        self._held = ExitStack()

    def __enter__(self) -> Self:
        """Make the folder and lock it. Raise ConfigError if that fails, or if it holds a recording already."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{self._folder}: cannot be made: {error.strerror or error}") from None
        with ExitStack() as held:
            held.enter_context(_lock(self._folder))
            if (self._folder / _REST).exists():
                raise ConfigError(
                    f"{self._folder}: holds a recording that was cut off: nodewright record --finish --to {self._path} "
                    "makes its trace; or remove the folder"
                )
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Release the folder; remove it if nothing was saved."""
        if not (self._folder / _REST).exists():
            shutil.rmtree(self._folder, ignore_errors=True)
        self._held.close()

    def save(self, gone: Iterable[RecordedPod], rest: RecordedTrace) -> None:
        """Add pods that are gone, and replace all others by ``rest``; raise ConfigError if that cannot be written."""
        self._gone += gone
        if len(self._gone) >= _PART_ROWS:
            _save([_table(self._gone)], rest.header, self._folder / _part(self._parts + 1))
            self._parts, self._gone = self._parts + 1, []
        table = _table([*self._gone, *rest.pods])
        _save([table], rest.header, self._folder / _REST, **{_PARTS: str(self._parts)})


_REST = "rest.parquet"
_LOCK = "lock"


def _part(number: int) -> str:
    return f"part-{number:06}.parquet"


def _parts_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.parts")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Lock a folder of parts, for as long as this process lives at most; raise ConfigError if another one has it."""
    with ExitStack() as opened:
        try:
            held = opened.enter_context((folder / _LOCK).open("a"))
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{folder}: another nodewright record is at work on it: end that one first") from None
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be locked: {error.strerror or error}") from None
        yield


def finish_trace(path: Path) -> tuple[TraceHeader, int]:
    """Make the trace at ``path`` of its parts, one after another, and remove them; return its header and number of pods.

    Raise ConfigError.
    """
    folder = _parts_of(path)
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder: no recording for {path} was cut off")
    with _lock(folder):
        found = _join_parts(folder, path)
        shutil.rmtree(folder, ignore_errors=True)
    return found


def _join_parts(folder: Path, path: Path) -> tuple[TraceHeader, int]:
    rest = read_table(folder / _REST)
    metadata: dict[bytes, bytes] = rest.schema.metadata or {}
    header = _read_header(metadata.get(_KEY, b""), str(folder / _REST))
    parts = [folder / _part(number) for number in range(1, int(metadata.get(_PARTS.encode(), b"0")) + 1)]
    pods = 0

    def tables() -> Iterator[Any]:
        nonlocal pods
        for table in (*map(read_table, parts), rest):
            pods += table.num_rows
            yield table

    _save(tables(), header, path)
    return header, pods


def _import_pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to import
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        raise ConfigError(_NO_PYARROW) from None
    return pa, parquet


def check_pyarrow() -> None:
    """Raise ConfigError, before a long recording, if nothing can be written."""
    _import_pyarrow()
