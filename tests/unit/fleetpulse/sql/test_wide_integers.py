"""Parquet files: sums of money are numbers in them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from fleetpulse.sql import query as asking
from fleetpulse.sql.query import Query, stream
from fleetpulse.sql.wide_integers import as_decimals, described
from runtime.config import ClickHouseConfig

SQL = "SELECT tenant, sum(toInt128(n)) AS nusd FROM t -- all"
COLUMNS = [("tenant", "String", "", ""), ("nusd", "Nullable(Int128)", "", "")]
DECIMAL = f"SELECT * REPLACE (CAST(toString(`nusd`), 'Nullable(Decimal(38, 0))') AS `nusd`) FROM (\n{SQL}\n)"


def test_wide_integers_are_decimals() -> None:
    """Null stays null; a comment at the end hides nothing, and the semicolon goes."""
    assert as_decimals(f"{SQL};\n", COLUMNS) == DECIMAL
    assert described(f"{SQL} ;") == f"DESCRIBE TABLE (\n{SQL}\n)"
    assert as_decimals("SELECT 1", [("a`b\\", "UInt256"), ("c", "Int128")]) == (
        "SELECT * REPLACE (CAST(toString(`a\\`b\\\\`), 'Decimal(76, 0)') AS `a\\`b\\\\`,"
        " CAST(toString(`c`), 'Decimal(38, 0)') AS `c`)"
        " FROM (\nSELECT 1\n)"
    )


@pytest.mark.parametrize("kind", ["Int64", "Nullable(UInt64)", "Decimal(38, 0)", "Array(Int128)", "String"])
def test_other_columns_leave_the_query_as_it_is(kind: str) -> None:
    """Character for character."""
    assert as_decimals("SELECT 1;", [("a", kind)]) == "SELECT 1;"


def sent(monkeypatch: pytest.MonkeyPatch, file: Path, server_format: str, columns: list[Any] | None) -> list[str]:
    """What is asked for a file; without ``columns`` the server rejects to describe it."""
    asked: list[str] = []

    def query(sql: str, parameters: dict[str, str]) -> Any:
        asked.append(sql)
        assert parameters == {"n": "1"}
        if columns is None:
            raise DatabaseError("Code: 62. DB::Exception: Syntax error")
        return SimpleNamespace(result_rows=columns, summary={})

    def raw_stream(sql: str, **_given: Any) -> Any:
        asked.append(sql)
        return SimpleNamespace(stream=lambda _size: iter([b"x\n"]), close=lambda: None)

    client = SimpleNamespace(query=query, raw_stream=raw_stream, close=lambda: None)
    monkeypatch.setattr(asking, "connect", lambda _login: client)
    stream(ClickHouseConfig(), Query(SQL, {"n": "1"}), server_format, file)
    return asked


def test_a_parquet_file_is_asked_for_with_decimals(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ClickHouse writes a sum of 128 bits as 16 raw bytes."""
    assert sent(monkeypatch, tmp_path / "x", "Parquet", COLUMNS) == [described(SQL), DECIMAL]


def test_what_cannot_be_described_is_asked_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """SHOW and its like, and what is wrong: the server says of the query itself what."""
    assert sent(monkeypatch, tmp_path / "x", "Parquet", None) == [described(SQL), SQL]


def test_csv_has_integers_of_any_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is asked beforehand."""
    assert sent(monkeypatch, tmp_path / "x", "CSVWithNames", COLUMNS) == [SQL]
