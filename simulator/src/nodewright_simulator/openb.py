"""The ``openb`` trace of a production GPU cluster: its node shapes become node groups, its pods arrive again.

Two CSV tables, plain or gzipped. ``nodes.csv``: sn, cpu_milli, memory_mib, gpu, model. ``pods.csv``: name,
cpu_milli, memory_mib, num_gpu, gpu_milli, …, creation_time, deletion_time, scheduled_time, in seconds from the
start of the trace; scheduled_time is empty for a pod that never ran. A pod that asks a share of a GPU
(num_gpu 1, gpu_milli below 1000) takes a whole one.
"""

import csv
import gzip
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable
from nodewright_simulator.scenario import Scenario, TimeSpan, TraceSpec

RECORDED_SUFFIX = ".parquet"
GPU_RESOURCE = "nvidia.com/gpu"

_MAX_BYTES = 512 * 2**20
_MIB_PER_GIB = 1024

# USD an hour. The trace has no prices. These are invented, in the proportions of the price lists of public clouds.
_PRICE_PER_CORE = 0.03
_PRICE_PER_GIB = 0.004
_PRICE_PER_GPU = 0.9


class NodeShape(NamedTuple):
    """One kind of node in the trace."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str

    @property
    def name(self) -> str:
        """A node group's name: ``g2-96c-384g-8gpu``."""
        gpus = f"-{self.gpus}gpu" if self.gpus else ""
        kind = self.model.lower() or "cpu"
        return f"{kind}-{self.cpu_milli // 1000}c-{self.memory_mib // _MIB_PER_GIB}g{gpus}"

    @property
    def price_per_hour(self) -> float:
        cores, gib = self.cpu_milli / 1000, self.memory_mib / _MIB_PER_GIB
        return round(_PRICE_PER_CORE * cores + _PRICE_PER_GIB * gib + _PRICE_PER_GPU * self.gpus, 3)


class TracePod(NamedTuple):
    """One pod of the trace; ``created`` and ``lifetime`` in seconds, ``lifetime`` from when it starts."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    created: float
    lifetime: float


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Node shapes with how many nodes there are of each, and pods in order of creation."""

    shapes: Mapping[NodeShape, int]
    pods: tuple[TracePod, ...]

    def compressed(self, *, arrivals: float, lifetimes: float) -> "Trace":
        """Return the same pods with arrivals and lifetimes divided by these factors."""
        pods = (pod._replace(created=pod.created / arrivals, lifetime=pod.lifetime / lifetimes) for pod in self.pods)
        return Trace(shapes=self.shapes, pods=tuple(pods))

    def all_at_once(self) -> "Trace":
        """Return the same pods, all created at the start."""
        return Trace(shapes=self.shapes, pods=tuple(pod._replace(created=0.0) for pod in self.pods))


def is_trace(place: Path) -> bool:
    """Return whether it is a folder that holds the two tables, or a Parquet file as of nodewright record."""
    return place.suffix == RECORDED_SUFFIX or all(
        _find(place, table) is not None for table in ("nodes.csv", "pods.csv")
    )


def load_openb(folder: Path) -> Trace:
    """Load the trace in ``folder``: ``nodes.csv`` and ``pods.csv``, or both with ``.gz``. Raise ConfigError."""
    return _load(folder)


def load_packaged_cut() -> Trace:
    """Load a few hundred pods of the trace, which come with this package."""
    return _load(files("nodewright_simulator") / "data")


def group_options(shapes: Mapping[NodeShape, int]) -> list[dict[str, Any]]:
    """Return a node group per shape, as options of a simulated provider; its maximum is the trace's count."""
    return [
        {
            "name": shape.name,
            "max_size": count,
            "cpu": f"{shape.cpu_milli}m",
            "memory": f"{shape.memory_mib}Mi",
            "resources": {GPU_RESOURCE: shape.gpus} if shape.gpus else {},
            "instance_type": shape.name,
            "price_per_hour": shape.price_per_hour,
            "price_source": "assumed list prices",
        }
        for shape, count in shapes.items()
    ]


def _load(folder: Path | Traversable) -> Trace:
    shapes = Counter(
        NodeShape(_whole(row, "cpu_milli"), _whole(row, "memory_mib"), _whole(row, "gpu"), row["model"][:40])
        for row in _rows(folder, "nodes.csv", ("cpu_milli", "memory_mib", "gpu", "model"))
    )
    columns = ("name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time", "scheduled_time")
    pods = [_pod(row) for row in _rows(folder, "pods.csv", columns)]
    return Trace(shapes=dict(shapes), pods=tuple(sorted(pods, key=lambda pod: (pod.created, pod.name))))


class _TraceRow:
    """A line of a table and where it stands."""

    def __init__(self, place: str, values: Mapping[str, str]) -> None:
        self.place = place
        self._values = values

    def __getitem__(self, column: str) -> str:
        return self._values[column]


def _pod(row: _TraceRow) -> TracePod:
    created, deleted = _number(row, "creation_time"), _number(row, "deletion_time")
    began = _number(row, "scheduled_time") if row["scheduled_time"] else created
    return TracePod(
        name=row["name"],
        cpu_milli=_whole(row, "cpu_milli"),
        memory_mib=_whole(row, "memory_mib"),
        gpus=_whole(row, "num_gpu"),
        created=created,
        lifetime=max(0.0, deleted - began),
    )


def _rows(folder: Path | Traversable, table: str, columns: Sequence[str]) -> Iterator[_TraceRow]:
    found = _find(folder, table)
    if found is None:
        raise ConfigError(f"{folder}: holds neither {table} nor {table}.gz")
    lines = csv.reader(io.StringIO(_text(found), newline=""))
    try:
        header = next(lines, [])
        missing = [column for column in columns if column not in header]
        if missing:
            raise ConfigError(f"{found}: lacks the column {missing[0]}")
        for values in lines:
            place = f"{found} line {lines.line_num}"
            if len(values) != len(header):
                raise ConfigError(f"{place}: has {len(values)} values for {len(header)} columns")
            yield _TraceRow(place, dict(zip(header, values, strict=True)))
    except csv.Error as error:
        raise ConfigError(f"{found} line {lines.line_num}: {error}") from error


def _find(folder: Path | Traversable, table: str) -> Path | Traversable | None:
    return next((folder / name for name in (table, f"{table}.gz") if (folder / name).is_file()), None)


def _text(found: Path | Traversable) -> str:
    try:
        with found.open("rb") as raw:
            source = gzip.GzipFile(fileobj=raw) if found.name.endswith(".gz") else raw
            content = source.read(_MAX_BYTES + 1)
    except (OSError, EOFError) as error:
        raise ConfigError(f"{found}: cannot be read: {error}") from error
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{found}: more than {_MAX_BYTES >> 20} MiB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{found}: not UTF-8 text") from None


def _whole(row: _TraceRow, column: str) -> int:
    text = row[column]
    if not (text.isascii() and text.isdecimal() and len(text) <= 15):
        raise ConfigError(f"{row.place}: {column} is '{printable(text, 40)}', not a whole number")
    return int(text)


def _number(row: _TraceRow, column: str) -> float:
    text = row[column]
    if not (text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) <= 20):
        raise ConfigError(f"{row.place}: {column} is '{printable(text, 40)}', not a time in seconds")
    return float(text)


_DAY = 86_400.0


def demo_scenario() -> Scenario:
    """Return half a day of a production GPU cluster in one hour: 400 pods and 27 kinds of nodes.

    After two minutes the kind that is in most demand is sold out, for 43 minutes.
    """
    stock_out = {"instance_type": "p100-16c-120g-2gpu", "start": "2m", "end": "45m"}
    return Scenario(
        name="Rush hour on a GPU cluster, with a stock-out",
        description="400 pods of a production trace (openb) within an hour; one kind of node is sold out in between.",
        duration=TimeSpan(100 * 60),
        settings={"expander": "least-waste"},
        providers={"fake": {"stock_outs": [stock_out]}},
        trace=TraceSpec(rush=12),
    )


def trace_scenario(place: str, *, compression: float = 1.0, all_at_once: bool = False) -> Scenario:
    """Return a scenario that replays a whole trace (see ``is_trace``) until nothing is left to happen."""
    folder, file = (None, place) if place.endswith(RECORDED_SUFFIX) else (place, None)
    return Scenario(
        name=f"trace {place}",
        duration=TimeSpan(3650 * _DAY),
        stops_idle=True,
        settings={"expander": "least-waste"},
        providers={"fake": {}},
        trace=TraceSpec(folder=folder, file=file, compression=compression, all_at_once=all_at_once),
    )
