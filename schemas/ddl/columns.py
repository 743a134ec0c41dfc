"""A column as ClickHouse DDL: type, codec and comment, from the field table.

Codecs were chosen by ``bench/landing.py --codecs`` on a million simulated requests: ``ZSTD(1)`` everywhere costs the
server little more than LZ4 and halves what is kept; numbers that rise in sort order (times, offsets, sequence numbers)
gain from ``Delta`` before it. ``schemas.ddl.packing`` has those of raw requests and their partial rows.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from schemas.fields import Field, Kind

_RISING = frozenset({"at_ms", "appended_ms", "window_ms", "minute_ms", "committed_ms", "last_at_ms"})
_RISING |= {"offset", "log_offset", "offset_from", "offset_to", "seq", "row", "log_row"}
_WIDTH = {"UInt32": 4, "Nullable(UInt32)": 4}
SETTINGS = "allow_nullable_key = 1, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 0"
"""Of every table whose sort key has labels that may be null."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table or view. A view's column has no codec."""

    name: str
    type: str
    comment: str
    codec: str = ""

    def sql(self) -> str:
        """The column's line in a CREATE statement."""
        codec = f" CODEC({self.codec})" if self.codec else ""
        return f"    {self.name} {self.type}{codec} COMMENT {quoted(self.comment)}"


def quoted(text: str) -> str:
    """The text as a SQL string."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def described(meaning: str, unit: str) -> str:
    """A comment: the meaning, with the unit in brackets."""
    return f"{meaning} [{unit}]" if unit else meaning


def column_of(field: Field, never_null: Collection[str]) -> Column:
    """The stored column of a field; labels in ``never_null`` are kept without null."""
    kind = field.kind.value
    if field.kind is Kind.LABEL and field.name in never_null:
        kind = "LowCardinality(String)"
    return Column(field.name, kind, described(field.meaning, field.unit), codec_of(field.name, kind))


def codec_of(name: str, kind: str) -> str:
    """The codec of a stored column."""
    return f"Delta({_WIDTH.get(kind, 8)}), ZSTD(1)" if name in _RISING else "ZSTD(1)"


def create(kind: str, name: str, columns: Collection[Column], behind: str, comment: str) -> str:
    """A CREATE statement for a view, or for a table without indexes."""
    lines = ",\n".join(column.sql() for column in columns)
    return f"{kind} {name}\n(\n{lines}\n)\n{behind}\nCOMMENT {quoted(comment)}"


def table(
    name: str,
    columns: Collection[Column],
    engine: str,
    order: str,
    comment: str,
    *,
    partition: str = "",
    settings: str = SETTINGS,
    indexes: Collection[str] = (),
) -> str:
    """The CREATE statement of a table. It has no TTL: how long rows are kept is a setting, which ``fleetpulse migrate``
    compares with the server. ``${engine_prefix}`` is filled in when the statement is executed."""
    lines = ",\n".join([*(column.sql() for column in columns), *(f"    INDEX {index}" for index in indexes)])
    parts = f"PARTITION BY {partition}\n" if partition else ""
    key = f"({order})" if "," in order else order
    behind = f"ENGINE = ${{engine_prefix}}{engine}\n{parts}ORDER BY {key}\nSETTINGS {settings}"
    return f"CREATE TABLE IF NOT EXISTS {name}\n(\n{lines}\n)\n{behind}\nCOMMENT {quoted(comment)}"


def day(column: str) -> str:
    """The day of a column in milliseconds, as a partition key."""
    return f"toYYYYMMDD(toDateTime(intDiv({column}, 1000), 'UTC'))"


def month(column: str) -> str:
    """The month of a column in milliseconds, as a partition key."""
    return f"toYYYYMM(toDateTime(intDiv({column}, 1000), 'UTC'))"
