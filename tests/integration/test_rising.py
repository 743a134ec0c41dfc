"""When a model got slow, asked of real tables.

Covers fleetpulse.commands.rising.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fleetpulse.commands.ready_made import for_people
from fleetpulse.commands.rising import may_be_sought, rise, sought
from fleetpulse.queries.meaning import Meaning, of_number
from fleetpulse.queries.questions import numbered
from fleetpulse.queries.rise import SLOWED
from fleetpulse.report.amounts import instant
from fleetpulse.sql.database import Database
from fleetpulse.sql.query import query_of
from runtime.config import ClickHouseConfig
from schemas.ddl.merging import LEVELS, rollup_insert
from schemas.events.event_types import LLM_REQUESTS
from schemas.limits import HOUR_MS, MINUTE_MS
from schemas.sketch import bin_of
from tests.integration.cost_rows import BEGIN_MS

pytestmark = [pytest.mark.integration, pytest.mark.tables]

HOUR = BEGIN_MS // HOUR_MS * HOUR_MS
SPAN = (HOUR, HOUR + HOUR_MS)
SPIKE = next(of_number(number) for number, one in numbered().items() if one.query == "who_slowed_model")


def fill(clickhouse: Any, model: str, by_minute: Mapping[int, tuple[int, int]], region: str = "") -> None:
    """By minute of the hour so many requests, all with this TTFT [ms]."""
    columns = ["window_ms", "grouping", "model", "tenant", "event_count", "ttft_us_bins", "log_offset", "region"]
    rows = []
    for minute, (requests, ms) in by_minute.items():
        bins = {int(bin_of(np.array([1_000 * ms]))[0]): requests}
        offset = 1_000 * sum(map(ord, model)) + minute
        rows.append([HOUR + minute * MINUTE_MS, "service", model, "t", requests, bins, offset, region])
    clickhouse.insert("llm_requests_partials", rows, column_names=columns)


@pytest.fixture
def database(clickhouse: Any, clickhouse_config: ClickHouseConfig) -> Any:
    """A model that doubles in its third minute, a bigger one that rises by a third, one with few requests; one that
    begins in the range."""
    fill(clickhouse, "small", {1: (200, 100), 2: (200, 110), 3: (200, 220), 4: (200, 200), 6: (200, 900)})
    fill(clickhouse, "big", {-1: (9, 9), 0: (500, 3_000), 1: (500, 3_100), 2: (500, 4_000), 3: (500, 3_900)})
    fill(clickhouse, "few", {0: (99, 10), 1: (99, 10), 2: (99, 1_000)})
    fill(clickhouse, "starts", {1: (200, 10), 2: (200, 900), 3: (200, 910)})
    with contextlib.closing(Database(clickhouse_config)) as found:
        yield found


def held(meaning: Meaning, model: str) -> Meaning:
    return replace(meaning, names={"model": model})


def test_the_minute_in_which_a_latency_rose_most_by_its_share_is_found(database: Database) -> None:
    """Not after a minute without requests or the first after one, nor between too few of them, nor by milliseconds;
    against the one before."""
    found = rise(database, SPIKE, SPAN)

    assert found is not None
    assert (found.model, found.bounds) == (
        "small",
        {
            **{"from_ms": HOUR + 3 * MINUTE_MS, "to_ms": HOUR + 4 * MINUTE_MS},
            **{"before_from_ms": HOUR + 2 * MINUTE_MS, "before_to_ms": HOUR + 3 * MINUTE_MS},
        },
    )
    assert found.says.startswith("p99 of TTFT rose most in ")
    assert "of small (1" in found.says
    assert "; others that rose, which may have another behind them: big at " in found.says


def test_a_rise_of_long_ago_is_found_in_the_minutes_that_are_kept_of_it(database: Database, clickhouse: Any) -> None:
    """The same, once rows of 10 s are gone: of all of the range, or of its begin alone. Windows come as minutes, too,
    and a minute has requests a second."""
    windows = {"from_ms": HOUR + MINUTE_MS, "to_ms": HOUR + 4 * MINUTE_MS}
    before = rise(database, SPIKE, SPAN)
    minutes = tuple(range(HOUR - MINUTE_MS, HOUR + 10 * MINUTE_MS, MINUTE_MS))
    clickhouse.command(rollup_insert(LLM_REQUESTS, LEVELS[0], minutes))

    for gone_ms in (HOUR + 2 * MINUTE_MS, HOUR + HOUR_MS):
        clickhouse.command(f"DELETE FROM llm_requests_partials WHERE window_ms < {gone_ms}")
        assert rise(database, SPIKE, SPAN) == before
        found = database.named("windows_by_model", windows).records()
        rates = [row["requests_per_s"] for row in found if row["model"] == "small"]
        by_10_s = 3 - rates.count(200 / 60)
        assert (len(rates), by_10_s) == (3, 2 if gone_ms < HOUR + 3 * MINUTE_MS else 0)
        assert rates.count(200 / 10) == by_10_s


def test_a_ready_made_query_says_what_it_comes_to(
    database: Database, clickhouse_config: ClickHouseConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the range beside it and the question that asks it; SQL is as it came."""
    ends = {"from_ms": 2, "to_ms": 3, "before_from_ms": 1, "before_to_ms": 2}
    params = ["model=big", *(f"{end}={HOUR + at * MINUTE_MS}" for end, at in ends.items())]
    asked = query_of(SLOWED, params, 0, HOUR_MS)
    answer = database.sql(asked.sql, asked.parameters)

    result = for_people(clickhouse_config, SLOWED, asked, answer)
    result.show()
    of_sql = for_people(clickhouse_config, asked.sql, asked, answer)
    of_sql.show()

    shown, beside = capsys.readouterr()
    assert result.data == answer.records()
    assert shown.count("most, t, explains 100 %") == 1
    assert "100 % of its requests" in " ".join(shown.split())
    assert [line.split()[0] for line in beside.splitlines()] == [instant(HOUR)[:10], "before:", "in"]
    assert beside.splitlines()[-1].startswith("in words: fleetpulse ask 1  Which tenant")


def test_a_rise_is_sought_in_what_the_question_is_held_to(database: Database, clickhouse: Any) -> None:
    """Of a region alone, where another rose more."""
    fill(clickhouse, "eu only", {1: (200, 100), 2: (200, 100), 3: (200, 150)}, region="eu")

    found = rise(database, replace(SPIKE, names={"region": "eu"}), SPAN)

    assert found is not None
    assert found.model == "eu only"
    assert rise(database, replace(SPIKE, names={"region": "us"}), SPAN) is None


def test_a_model_that_the_words_name_is_looked_at_alone(database: Database, clickhouse: Any) -> None:
    """Where it has too few requests a minute, by longer stretches; nothing where there are none."""
    (big, none) = (rise(database, held(SPIKE, name), SPAN) for name in ("big", "nobody"))
    ten = {minute: (99, 100 if minute < 20 else 500) for minute in range(30)}
    fill(clickhouse, "steady", ten)
    steady = rise(database, held(SPIKE, "steady"), SPAN)

    assert big is not None
    assert big.bounds["from_ms"] == HOUR + 2 * MINUTE_MS
    assert none is None
    assert steady is not None
    assert (steady.bounds["from_ms"], steady.bounds["to_ms"]) == (HOUR + 20 * MINUTE_MS, HOUR + 30 * MINUTE_MS)
    assert may_be_sought(SPIKE)
    assert not may_be_sought(of_number(3))


def test_a_range_that_is_given_is_where_the_rise_is_sought(database: Database) -> None:
    """Alone: where it has no data nothing is found elsewhere."""
    given = {"from_ms": HOUR + MINUTE_MS, "to_ms": HOUR + 3 * MINUTE_MS}
    later = {"from_ms": HOUR + 5 * HOUR_MS, "to_ms": HOUR + 6 * HOUR_MS}

    meaning, bounds, says = sought(database, SPIKE, given, given=True)

    assert (meaning.names["model"], bounds["from_ms"]) == ("big", HOUR + 2 * MINUTE_MS)
    assert says.startswith("p99 of TTFT rose most in ")
    assert sought(database, SPIKE, later, given=True) == (SPIKE, later, "")
