"""Sums of shipped SQL do not wrap: ``sum`` of Int64 is Int64, and ClickHouse says nothing when it overflows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fleetpulse import queries
from fleetpulse.queries import dashboard
from fleetpulse.sql.query import measures, percentiles_sql
from grafana.boards import BOARDS
from grafana.render import panel_sql
from schemas.ddl import book_rollups, cost_rollups
from schemas.ddl.declared import declared
from schemas.ddl.merging import LEVELS, rollup_insert
from schemas.events.event_types import EVENTS
from tests.extremes import wraps

COOKBOOK = Path(__file__).parents[3] / "docs" / "how-to" / "cookbook.md"
_SUM = re.compile(r"\bsum(?:If)?\(")
_WIDE = re.compile(r"toInt128\(|toInt256\(|toFloat64\(")
"""What does not wrap."""
_BUCKET = re.compile(r"GROUP BY (p\.|c\.)?(window_ms|bucket_ms|minute_ms|of_ms|hour|day)\b")


def summed(sql: str) -> list[str]:
    """The first argument of every ``sum`` and ``sumIf``."""
    found = []
    for opening in _SUM.finditer(sql):
        depth, end = 0, opening.end()
        while depth or sql[end] not in ",)":
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        found.append(sql[opening.end() : end])
    return found


def unwidened(sql: str) -> list[str]:
    """Sums that a year of a large fleet makes wrap (tests/extremes.py), or that multiply before they are wide."""
    return [each for each in summed(sql) if (wraps(each) or " * " in each) and not _WIDE.search(each)]


def asked() -> dict[str, str]:
    """What people, pages and boards ask, over any range and any number of series."""
    texts = {name: queries.text(name) for name in queries.names()}
    texts |= {f"dashboard/{name}": dashboard.query(name).sql for name in dashboard.names()}
    texts |= {
        f"grafana/{board.name}/{panel.title}": panel_sql(board, panel) for board in BOARDS for panel in board.panels
    }
    texts |= {f"percentiles/{one}": percentiles_sql(one, "model") for one in measures()}
    blocks = COOKBOOK.read_text(encoding="utf-8").split("```sql\n")[1:]
    return texts | {f"cookbook/{number}": block.partition("```")[0] for number, block in enumerate(blocks, 1)}


def stored() -> dict[str, str]:
    """What makes rows and views of one bucket of time."""
    texts = declared()
    for level in LEVELS:
        texts |= {f"{event.topic}/{level.name}": rollup_insert(event, level, (0,)) for event in EVENTS}
        texts |= {f"costs/{level.name}": cost_rollups.insert(level, (0,))}
        texts |= {f"books/{level.name}": book_rollups.insert(level, (0,))}
    return texts


@pytest.mark.parametrize(
    "sql",
    ["sum(a_us_sum)", "1000 * sum(ifNull(p.x_bytes, 0))", "sumIf(cost_nusd, kind = 'kv')", "sum(amount)", "sum(8 * n)"],
)
def test_the_search_finds_sums_that_wrap(sql: str) -> None:
    """Columns of units that grow fast, alone or inside a function, and what is multiplied before it is wide."""
    assert len(unwidened(f"SELECT {sql} FROM t")) == 1


def test_queries_sum_what_is_large_in_128_bits() -> None:
    """Whatever the range and the number of GPUs."""
    texts = asked()

    assert sum(len(summed(sql)) for sql in texts.values()) > 150
    assert {name: found for name, sql in texts.items() if (found := unwidened(sql))} == {}


def test_stored_sums_are_of_one_bucket_of_at_most_a_day() -> None:
    """There Int64 suffices (``schemas.ddl.merging``)."""
    texts = stored()

    assert sum(len(unwidened(sql)) for sql in texts.values()) > 100
    assert [name for name, sql in texts.items() if unwidened(sql) and not _BUCKET.search(sql)] == []
