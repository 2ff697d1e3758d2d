"""Tables of other sources, CSV or Parquet, with a mapping file that says what their columns mean (docs/traces.md)."""

import csv
import gzip
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, structs

from nodewright.model.errors import ConfigError
from nodewright.model.printable import printable, suggest
from nodewright.model.quantity import Quantity
from nodewright.model.yaml_text import load_yaml
from nodewright.spec.options import decode_options
from nodewright_simulator.openb import GPU_RESOURCE, RECORDED_SUFFIX
from nodewright_simulator.recorded import RecordedPod, RecordedTrace, TraceHeader, read_table
from nodewright_simulator.scenario import Strict

_Factor = Annotated[float, Meta(gt=0, le=1e12)]
_MOST_PODS = 10_000_000


class MappedColumns(Strict, frozen=True, kw_only=True):
    """The column of each field. Without ``ended`` and ``lifetime``, or where both are empty, a pod does not end.

    ``lifetime`` counts from ``started`` or, without that, from ``created``. ``count`` is the number of equal pods of a row.
    """

    created: str
    cpu: str
    memory: str
    name: str | None = None
    owner: str | None = None
    started: str | None = None
    ended: str | None = None
    lifetime: str | None = None
    gpus: str | None = None
    count: str | None = None


class TableMapping(Strict, frozen=True, kw_only=True):
    """What a table means.

    ``header`` names the columns of a CSV file that has no line of names. ``time_unit``, ``cpu_unit`` and ``memory_unit`` are what
    one unit of the table is: in seconds, in cores, and as a quantity of memory. ``only``: rows with other values in these
    columns are left out. ``groups`` are node groups, as options of the provider fake; without them the scenario has some.
    """

    columns: MappedColumns
    header: tuple[str, ...] = ()
    time_unit: _Factor = 1.0
    cpu_unit: _Factor = 1.0
    memory_unit: str | int | float = 1
    only: dict[str, str] = {}
    groups: tuple[dict[str, Any], ...] = ()


def load_mapped(path: Path, mapping: Path) -> RecordedTrace:
    """Load the pods of a table; raise ConfigError that names the file and the key, or the row and the column.

    Rows without a time of creation or a size are left out, and counted.
    """
    meaning = _load_mapping(mapping)
    reader = _Reader(path, meaning, mapping)
    pods = sorted(reader.pods(), key=lambda pod: pod.created)
    seconds = max((pod.ended or pod.created for pod in pods), default=0.0)
    left_out = {"rows without a time or a size": reader.incomplete} if reader.incomplete else {}
    header = TraceHeader(seconds=seconds, anonymous=False, groups=meaning.groups, left_out=left_out)
    return RecordedTrace(header=header, pods=tuple(pods))


def _load_mapping(path: Path) -> TableMapping:
    try:
        documents = load_yaml(path.read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise ConfigError(f"{path}: a mapping file is one mapping of keys to values")
    found = decode_options(documents[0], TableMapping, str(path))
    if found.columns.ended is not None and found.columns.lifetime is not None:
        raise ConfigError(f"{path}: columns: ended and lifetime: give one of them, not both")
    try:
        unit = Quantity.of(found.memory_unit)
    except ValueError as error:
        raise ConfigError(f"{path}: memory_unit: {error}") from None
    if unit.nano <= 0:
        raise ConfigError(f"{path}: memory_unit: must be more than 0")
    return found


class _Reader:
    """Reads one table."""

    def __init__(self, path: Path, meaning: TableMapping, mapping: Path) -> None:
        self.incomplete = 0
        self._path = path
        self._meaning = meaning
        self._mapping = mapping
        self._byte = Quantity.of(meaning.memory_unit).nano / 1e9
        named = structs.asdict(meaning.columns)
        self._columns: dict[str, str] = {field: column for field, column in named.items() if column is not None}

    def pods(self) -> Iterator[RecordedPod]:
        made = 0
        for number, row in enumerate(self._rows(), 1):
            if any(str(row[column]) != value for column, value in self._meaning.only.items()):
                continue
            pod = self._pod(row, number)
            if pod is None:
                self.incomplete += 1
                continue
            count = int(self._number(row, "count", number) or 1)
            made += count
            if made > _MOST_PODS:
                raise ConfigError(f"{self._path}: more than {_MOST_PODS:,} pods")
            yield from (pod._replace(name=f"{pod.name}-{copy}") for copy in range(count)) if count > 1 else (pod,)

    def _pod(self, row: Mapping[str, Any], number: int) -> RecordedPod | None:
        unit = self._meaning.time_unit
        found = {field: self._number(row, field, number) for field in ("created", "cpu", "memory")}
        if None in found.values():
            return None
        created = (found["created"] or 0.0) * unit
        started, ended = self._number(row, "started", number), self._number(row, "ended", number)
        lifetime = self._number(row, "lifetime", number)
        start = started * unit if started is not None else None
        end = ended * unit if ended is not None else None
        if lifetime is not None:
            end = (created if start is None else start) + lifetime * unit
        gpus = math.ceil(self._number(row, "gpus", number) or 0)
        return RecordedPod(
            name=self._text(row, "name") or f"row-{number}",
            owner=self._text(row, "owner") or "table",
            owner_kind="Job",
            kind=0,
            cpu_milli=max(0, math.ceil((found["cpu"] or 0.0) * self._meaning.cpu_unit * 1000 - 1e-6)),
            memory_bytes=max(0, math.ceil((found["memory"] or 0.0) * self._byte - 1e-6)),
            resources={GPU_RESOURCE: gpus} if gpus > 0 else {},
            created=max(0.0, created),
            started=start,
            ended=max(0.0, end) if end is not None else None,
        )

    def _text(self, row: Mapping[str, Any], field: str) -> str:
        held = row[self._columns[field]] if field in self._columns else None
        return "" if held is None else str(held)

    def _number(self, row: Mapping[str, Any], field: str, number: int) -> float | None:
        """Return the number; None: the column is not mapped, or empty in this row."""
        held = self._text(row, field).strip()
        if not held:
            return None
        try:
            found = float(held)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            column = self._columns[field]
            raise ConfigError(
                f"{self._path}: row {number}: {printable(column)} is '{printable(held, 40)}', not a number ({field})"
            )
        return found

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        if self._path.suffix == RECORDED_SUFFIX:
            table = read_table(self._path)
            self._check_columns(table.column_names)
            wanted = [*dict.fromkeys((*self._columns.values(), *self._meaning.only))]
            for batch in table.select(wanted).to_batches():
                yield from batch.to_pylist()
            return
        yield from self._csv_rows()

    def _csv_rows(self) -> Iterator[Mapping[str, Any]]:
        try:
            with self._path.open("rb") as raw:
                source = gzip.GzipFile(fileobj=raw) if self._path.suffix == ".gz" else raw
                lines = csv.reader(io.TextIOWrapper(source, encoding="utf-8", newline=""))
                header: Sequence[str] = self._meaning.header or next(lines, [])
                self._check_columns(header)
                for values in lines:
                    if len(values) != len(header):
                        place = f"{self._path} line {lines.line_num}"
                        raise ConfigError(f"{place}: has {len(values)} values for {len(header)} columns")
                    yield dict(zip(header, values, strict=True))
        except (OSError, EOFError, csv.Error, UnicodeDecodeError) as error:
            raise ConfigError(f"{self._path}: cannot be read: {error}") from None

    def _check_columns(self, header: Sequence[str]) -> None:
        asked = {**{f"columns.{field}": column for field, column in self._columns.items()}}
        asked |= {f"only.{column}": column for column in self._meaning.only}
        for key, column in asked.items():
            if column not in header:
                hint = suggest(column, header)
                raise ConfigError(f"{self._mapping}: {key}: {self._path} has no column {printable(column)}{hint}")
