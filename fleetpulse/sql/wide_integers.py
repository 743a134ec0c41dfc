"""Integers of more than 64 bits in Parquet, as decimals. Pure.

Parquet has no such integers: ClickHouse writes them as 16 or 32 raw bytes, which pandas, DuckDB and Spark take for
text. Every sum of nano-dollars is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

_DIGITS = {"Int128": 38, "UInt128": 38, "Int256": 76, "UInt256": 76}
_NULLABLE = "Nullable("


def described(sql: str) -> str:
    """The query for the columns of this one: name and type stand first in each row. Rejected for what is no SELECT."""
    return f"DESCRIBE TABLE (\n{_bare(sql)}\n)"


def as_decimals(sql: str, columns: Iterable[Sequence[Any]]) -> str:
    """The query with its wide integers as decimals; as it is where it has none. ``columns``: rows of ``described``.
    They become text on the way: ClickHouse converts them in no other."""
    decimals = {str(name): kind for name, of, *_ in columns if (kind := _decimal(str(of)))}
    if not decimals:
        return sql
    casts = ", ".join(f"{_as_decimal(_quoted(name), kind)} AS {_quoted(name)}" for name, kind in decimals.items())
    return f"SELECT * REPLACE ({casts}) FROM (\n{_bare(sql)}\n)"


def _as_decimal(column: str, kind: str) -> str:
    return f"CAST(toString({column}), '{kind}')"


def _decimal(kind: str) -> str:
    """The decimal for a type; empty for what is no wide integer."""
    digits = _DIGITS.get(kind.removeprefix(_NULLABLE).removesuffix(")"))
    if digits is None:
        return ""
    return f"Nullable(Decimal({digits}, 0))" if kind.startswith(_NULLABLE) else f"Decimal({digits}, 0)"


def _bare(sql: str) -> str:
    return sql.strip().rstrip(";").rstrip()


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"
