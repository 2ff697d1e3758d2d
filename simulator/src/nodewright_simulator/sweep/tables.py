"""One row a run: JSON lines, and Parquet for tools that analyse tables."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from nodewright.model.errors import ConfigError
from nodewright_simulator.sweep.compare import Row
from nodewright_simulator.sweep.figures import FIGURES

LINES, PARQUET = "sweep.jsonl", "sweep.parquet"


def write_lines(rows: Sequence[Row]) -> bytes:
    """Return the rows as JSON, one on a line."""
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def read_lines(folder: Path) -> list[Row]:
    """Return the rows of an earlier sweep; raise ConfigError that names the file and the line."""
    path = folder / LINES
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = msgspec.json.decode(line, type=Row)
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} line {number}: {error}") from None
        rows.append(msgspec.structs.replace(row, figures={**dict.fromkeys(FIGURES), **row.figures}))
    return rows


def write_parquet(rows: Sequence[Row]) -> bytes | None:
    """Return the rows as a Parquet file; None if pyarrow is not installed.

    Columns: ``id``, ``sweep``, ``variant``, ``scenario``, ``seed``, ``version``, ``report``, a float for each figure, and
    text for each setting (``set.expander``), which is null where a run leaves the default.
    """
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra, and slow to import
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError:
        return None
    columns: dict[str, Any] = {
        name: pa.array([getattr(row, name) for row in rows], pa.string())
        for name in ("id", "sweep", "variant", "scenario", "version", "report")
    }
    columns["seed"] = pa.array([row.seed for row in rows], pa.int64())
    for name in FIGURES:
        columns[name] = pa.array([row.figures[name] for row in rows], pa.float64())
    for flag in sorted({flag for row in rows for flag in row.settings}):
        columns[f"set.{flag}"] = pa.array([_as_text(row.settings.get(flag)) for row in rows], pa.string())
    target = io.BytesIO()
    parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
