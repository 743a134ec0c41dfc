"""Where a rise of a latency is looked for."""

from __future__ import annotations

from fleetpulse import queries
from fleetpulse.queries.rise import RISE, SLOWED, WIDTHS_MS, bounds
from fleetpulse.sql.query import parameters_of
from schemas.limits import MINUTE_MS

OF_BOTH = {"model", "bins", "quantile"}


def test_shorter_stretches_are_looked_at_first_with_all_that_the_query_takes() -> None:
    """The query and the one that it leads to are shipped."""
    assert list(WIDTHS_MS) == sorted(WIDTHS_MS)
    assert parameters_of(queries.text(RISE)).keys() == {*OF_BOTH, "width_ms", "from_ms", "to_ms"}
    assert parameters_of(queries.text(SLOWED)).keys() > OF_BOTH


def test_a_stretch_is_compared_with_the_one_before() -> None:
    """Of the same length."""
    assert bounds({"at_ms": 10 * MINUTE_MS}, MINUTE_MS) == {
        "from_ms": 10 * MINUTE_MS,
        "to_ms": 11 * MINUTE_MS,
        "before_from_ms": 9 * MINUTE_MS,
        "before_to_ms": 10 * MINUTE_MS,
    }
