"""Where a rise of a latency is looked for."""

from __future__ import annotations

from fleetpulse import queries
from fleetpulse.queries.rise import RISE, SLOWED, WIDTHS_MS, asked, bounds
from fleetpulse.sql.query import parameters_of
from schemas.limits import MINUTE_MS


def test_shorter_stretches_are_looked_at_first_with_all_that_the_query_takes() -> None:
    """The query and the one that it leads to are shipped."""
    sets = list(asked({"bins": "ttft_us_bins", "quantile": "0.99"}, "m", 7, 9))

    assert [one["width_ms"] for one in sets] == sorted(WIDTHS_MS)
    assert all(one.keys() == parameters_of(queries.text(RISE)).keys() for one in sets)
    assert SLOWED in queries.names()


def test_a_stretch_is_compared_with_the_one_before() -> None:
    """Of the same length."""
    assert bounds({"at_ms": 10 * MINUTE_MS}, MINUTE_MS) == {
        "from_ms": 10 * MINUTE_MS,
        "to_ms": 11 * MINUTE_MS,
        "before_from_ms": 9 * MINUTE_MS,
        "before_to_ms": 10 * MINUTE_MS,
    }
