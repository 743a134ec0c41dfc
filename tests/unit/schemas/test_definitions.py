"""Each metric is one expression, wherever it stands."""

from __future__ import annotations

from schemas.definitions import END, METRICS, written


def test_a_place_becomes_the_metric_s_expression() -> None:
    """Other places stay, for the server."""
    assert written("SELECT {failed:Metric} AS failed, {top:UInt32}") == (
        f"SELECT sumIf(event_count, {END['failed']}) AS failed, {{top:UInt32}}"
    )


def test_every_metric_says_what_it_is() -> None:
    """Shares name what they are of."""
    assert all(one.meaning and one.unit and one.sql for one in METRICS.values())
    assert {one.name for one in METRICS.values() if one.unit == "share"} == {
        one.name for one in METRICS.values() if one.of
    }
