"""The percentiles query is built from checked names only."""

from __future__ import annotations

import re

import pytest

from fleetpulse.sql.database import Answer
from fleetpulse.sql.query import advice, measures, percentiles_sql, readable
from schemas.ddl.views import views
from schemas.errors import ConfigError


def test_every_measure_with_a_sketch_can_be_asked_for() -> None:
    """The measures are the sketch fields of requests."""
    assert measures() == ("ttft_us", "tpot_us", "e2e_us", "queue_us")


@pytest.mark.parametrize(
    ("by", "grouping"),
    [
        pytest.param("tenant", "service", id="a service dimension reads rows of services"),
        pytest.param("host", "engine", id="an engine dimension reads rows of engines"),
        pytest.param("model", "service", id="a dimension of both reads the first"),
    ],
)
def test_the_rows_follow_the_dimension(by: str, grouping: str) -> None:
    """A dimension is looked for in the grouping sets in their order."""
    sql = percentiles_sql("e2e_us", by)

    assert f"WHERE grouping = '{grouping}'" in sql
    assert [level in sql for level in ("partials", "rollup_1m", "rollup_1h")] == [True, True, True]
    assert f"GROUP BY {by}\n" in sql
    assert "fp_quantile_linear(0.999, sumMap(e2e_us_bins))) AS p99_9" in sql


def test_a_percentile_of_few_values_reads_few() -> None:
    """By its own rule each, from the number of values that went in."""
    rows = ((None, 99, 1.0, 2.0, 3.0), ("m", 1_000, 1.0, 2.0, 3.0), ("n", 1, 1.0, None, 1.0))

    shown = readable(Answer(("model", "requests", "p50", "p99", "p99_9"), rows))

    assert shown == [(None, 99, 1.0, "few", "few"), ("m", 1_000, 1.0, 2.0, 3.0), ("n", 1, "few", "few", "few")]
    assert "sum(ttft_us_count) AS requests" in percentiles_sql("ttft_us", "model")


@pytest.mark.parametrize(
    ("sql", "instead"),
    [
        ("SELECT max(ttft_us_p99) FROM request_windows", "p(0.99, ttft_us_bins)"),
        ("SELECT Avg(r.itl_us_p50) FROM request_windows AS r", "p(0.5, itl_bins)"),
        ("SELECT quantile(0.9)(running_requests_p95) FROM engine_windows", "p(0.95, running_bins)"),
        ("SELECT model, ttft_us_p99 FROM request_windows ORDER BY ttft_us_p99", ""),
        ("SELECT max(ttft_us_max), p(0.99, ttft_us_bins) FROM request_windows", ""),
    ],
)
def test_percentiles_of_percentiles_are_advised_against(sql: str, instead: str) -> None:
    """They execute and mislead; a percentile of a row by itself does not."""
    said = advice(sql)

    assert said.endswith(instead)
    assert bool(said) == bool(instead)


def test_what_is_advised_is_there() -> None:
    """Every percentile column of every view has bins beside it, of the name that the advice gives."""
    found = {}
    for text in views():
        columns = set(re.findall(r"^    (\w+) ", text, re.MULTILINE))
        for column in columns:
            if re.search(r"_p\d+$", column):
                (bins,) = re.findall(r", (\w+)\)$", advice(f"SELECT max({column})"))
                found[column] = bins in columns
    assert len(found) == 28
    assert set(found.values()) == {True}


@pytest.mark.parametrize(
    ("measure", "by", "key"),
    [
        pytest.param("ttft_us; DROP TABLE x", "model", "measure", id="a measure that is none"),
        pytest.param("ttft_us", "1) OR (1", "--by", id="a dimension that is none"),
    ],
)
def test_unknown_names_are_refused_with_the_choice(measure: str, by: str, key: str) -> None:
    """Nothing that is not in the field tables reaches the query."""
    with pytest.raises(ConfigError) as caught:
        percentiles_sql(measure, by)

    assert caught.value.key == key
    assert "must be one of" in str(caught.value)
