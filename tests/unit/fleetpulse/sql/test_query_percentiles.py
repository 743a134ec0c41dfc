"""The percentiles query is built from checked names only."""

from __future__ import annotations

import pytest

from fleetpulse.sql.query import measures, percentiles_sql
from schemas.errors import ConfigError


def test_every_measure_with_a_sketch_can_be_asked_for() -> None:
    """The measures are the sketch fields of requests."""
    assert measures() == ("ttft_us", "tpot_us", "e2e_us", "queue_us")


@pytest.mark.parametrize(
    ("by", "view"),
    [
        pytest.param("tenant", "request_windows", id="a service dimension reads the service view"),
        pytest.param("host", "engine_request_windows", id="an engine dimension reads the engine view"),
        pytest.param("model", "request_windows", id="a dimension of both reads the first"),
    ],
)
def test_the_view_follows_the_dimension(by: str, view: str) -> None:
    """A dimension is looked for in the grouping sets in their order."""
    sql = percentiles_sql("e2e_us", by)

    assert f"FROM {view}\n" in sql
    assert f"GROUP BY {by}\n" in sql
    assert "fp_quantile_linear(0.999, sumMap(e2e_us_bins))) AS p99_9" in sql


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
