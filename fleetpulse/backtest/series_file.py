"""Series in files: CSV ``timestamp,value`` with a header line or without, or Parquet with columns of these names, and
``series`` where there are many in one. A header that names both says where they stand; by any other there are only two.

Timestamps are ISO 8601 (``2014-04-01 00:00:00``, with ``T`` and a zone or without: then UTC) or numbers: seconds, or
milliseconds above 10^11. An empty value or ``nan`` is unknown. Columns beside these are left out. With pyarrow (extra
``files``) whole columns are read at once; what it cannot read, and every file without it, is read row by row, which
names the line that is wrong.
"""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from schemas.errors import ConfigError
from stream_jobs.insight.frame import Floats, Whole

SECONDS_MAX = 1e11
"""A number above this is in milliseconds: as seconds it would be the year 5138."""
GAPS_LOOKED_AT = 200
NEEDS = "needs pyarrow, of fleetpulse[files]: docs/start/install.md#extras"
SUFFIXES = (".csv", ".parquet")
Spans = tuple[tuple[int, int], ...]
"""Begin and end (both included) in ms of what is labelled."""


@dataclass(frozen=True, slots=True)
class Points:
    """A series in the order of its file, also where time goes back. ``texts`` are the timestamps as they were written;
    ``interval_ms`` is the usual gap."""

    at_ms: Whole
    values: Floats
    texts: Sequence[str]
    interval_ms: int

    def __len__(self) -> int:
        return len(self.at_ms)

    @property
    def steps_back(self) -> int:
        """Points that are older than the one before them."""
        return int((np.diff(self.at_ms) < 0).sum())


def points_of(name: str, at_ms: Whole, values: Floats, texts: Sequence[str]) -> Points:
    """Raises ``ConfigError`` for fewer than two moments."""
    gaps = np.diff(at_ms)
    gaps = gaps[gaps > 0][:GAPS_LOOKED_AT]
    if not len(gaps):
        raise ConfigError(name, "", "must hold at least two moments")
    return Points(at_ms, values, texts, int(np.sort(gaps)[len(gaps) // 2]))


def arrow(part: str) -> Any:
    """A part of pyarrow, None where it is not installed."""
    with contextlib.suppress(ImportError):
        return import_module(f"pyarrow.{part}" if part else "pyarrow")
    return None


def read_files(path: Path) -> dict[str, Points]:
    """The series of a file by name: that of a CSV is "", and so is that of a Parquet file without a column ``series``.
    Raises ``ConfigError`` with the line for a row that is none, and for a file that cannot be read."""
    return read_parquet(path) if path.suffix == ".parquet" else {"": read_series(path)}


def read_series(path: Path) -> Points:
    """The rows of a CSV."""
    at_ms, values, texts = _columns(path) or _rows(path)
    return points_of(str(path), at_ms, values, texts)


Columns = tuple[Whole, Floats, Sequence[str]]


def _columns(path: Path) -> Columns | None:
    """By pyarrow; None where it is not there or finds anything unusual."""
    reader, lib = arrow("csv"), arrow("")
    if reader is None:
        return None
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            if not (first := next(csv.reader(file), [])):
                return None
            header = _is_header(first)
            times, values = (f"f{place}" for place in (_places(str(path), first) if header else _UNNAMED))
        table = reader.read_csv(
            path,
            reader.ReadOptions(autogenerate_column_names=True, skip_rows=int(header), use_threads=False),
            convert_options=reader.ConvertOptions(
                include_columns=[times, values], column_types={times: lib.string(), values: lib.float64()},
                null_values=["", "nan", "NaN", "NAN"],
            ),
        )  # fmt: skip
        texts = table.column(times)
        return _times(texts), np.asarray(table.column(values).to_numpy(), np.float64), texts.to_numpy()
    except (OSError, UnicodeDecodeError, csv.Error, ValueError, KeyError):
        return None


def _times(column: Any) -> Whole:
    """Raises ``ValueError`` for what is not of one form throughout, and for a null."""
    if column.null_count:
        raise ValueError("a timestamp is null")
    compute, lib = arrow("compute"), arrow("")
    kind = column.type
    if lib.types.is_timestamp(kind):
        return np.rint(column.cast(lib.timestamp("us", kind.tz)).cast(lib.int64()).to_numpy() / 1_000).astype(np.int64)
    if len(column) and (lib.types.is_string(kind) or lib.types.is_large_string(kind)):
        first = column[0].as_py()
        if not _is_number(first):
            zone = "UTC" if first.endswith("Z") or "+" in first or first.count("-") > 2 else None
            return _times(compute.cast(column, lib.timestamp("us", zone)))
    numbers = column.cast(lib.float64()).to_numpy()
    if not (np.abs(numbers) < SECONDS_MAX * 1_000).all():
        raise ValueError("out of range")
    return np.rint(np.where(np.abs(numbers) > SECONDS_MAX, numbers, numbers * 1_000)).astype(np.int64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _rows(path: Path) -> Columns:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(_each(path, csv.reader(file)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(str(path), "", f"cannot be read: {error}") from error
    at_ms, values, texts = zip(*rows, strict=True) if rows else ((), (), ())
    return np.array(at_ms, np.int64), np.array(values, np.float64), texts


def _each(path: Path, rows: Iterator[list[str]]) -> Iterator[tuple[int, float, str]]:
    begun, (time_at, value_at) = False, _UNNAMED
    for number, row in enumerate(rows, 1):
        first, begun = bool(row) and not begun, begun or bool(row)
        if first and _is_header(row):
            time_at, value_at = _places(f"{path}:{number}", row)
            continue
        if not row:
            continue
        try:
            yield time_ms(row[time_at]), float(row[value_at] or "nan"), row[time_at]
        except (IndexError, ValueError) as error:
            raise ConfigError(f"{path}:{number}", ",".join(row)[:80], "must be timestamp,value") from error


def _is_header(row: list[str]) -> bool:
    try:
        time_ms(row[0])
    except ValueError:
        return True
    return False


_UNNAMED = (0, 1)


def _places(name: str, header: list[str]) -> tuple[int, int]:
    """Where timestamps and values stand. Raises ``ConfigError`` where that cannot be known."""
    names = [word.strip().lower() for word in header]
    if "timestamp" in names and "value" in names:
        return names.index("timestamp"), names.index("value")
    if len(names) > len(_UNNAMED):
        raise ConfigError(name, ",".join(header)[:80], "must name a column timestamp and a column value")
    return _UNNAMED


def time_ms(text: str) -> int:
    """Milliseconds since the epoch. Raises ``ValueError``."""
    try:
        number = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text.strip())
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000)
    if not abs(number) < SECONDS_MAX * 1_000:
        raise ValueError(text)
    return round(number if abs(number) > SECONDS_MAX else number * 1_000)


def read_parquet(path: Path) -> dict[str, Points]:
    """By ``series``, in the order of the file. Raises ``ConfigError`` without pyarrow, for other columns, and for nulls
    among timestamps or names."""
    parquet, lib = arrow("parquet"), arrow("")
    if parquet is None:
        raise ConfigError(str(path), "", NEEDS)
    try:
        found = parquet.ParquetFile(path)
        names = [name for name in ("series", "timestamp", "value") if name in found.schema_arrow.names]
        table = found.read(columns=names)
        times, values = table.column("timestamp"), table.column("value").cast(lib.float64()).to_numpy()
        columns = {"at_ms": _times(times), "values": np.asarray(values, np.float64)}
        texts = times.cast(lib.string()).to_numpy()
        series = table.column("series").cast(lib.string()) if "series" in names else None
        if series is not None and series.null_count:
            raise ValueError("a series is null")
    except (OSError, ValueError, KeyError, lib.ArrowException) as error:
        raise ConfigError(
            str(path), "", f"must hold the columns timestamp, value and perhaps series: {error}"
        ) from error
    return by_series(str(path), columns, texts, None if series is None else series.to_numpy())


def by_series(name: str, columns: Mapping[str, Any], texts: Sequence[str], series: Any) -> dict[str, Points]:
    """Columns split by the names in ``series``; None: all are one, named ""."""
    if series is None:
        return {"": points_of(name, columns["at_ms"], columns["values"], texts)}
    words, codes = np.unique(series, return_inverse=True)
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(words)))[:-1]
    words_of = np.asarray(texts, object)
    return {
        str(word): points_of(
            f"{name}: {word}", columns["at_ms"][rows], columns["values"][rows], words_of[rows].tolist()
        )
        for word, rows in zip(words, np.split(order, ends), strict=True)
    }
