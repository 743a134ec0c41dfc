"""Values that parameters of saved queries take."""

from __future__ import annotations

from fleetpulse.queries.offers import offered, usual
from fleetpulse.sql.query import query_of
from schemas.ddl.range_views import METRICS_OF_CHANGES
from schemas.limits import HOUR_MS


def test_values_that_a_saved_query_takes_are_offered() -> None:
    """Every metric of the view, the one that people ask for first at the head: it is run at once."""
    offer = offered("who_changed")["metric"]

    assert offer[0] == "ttft_p99_us"
    assert sorted(offer) == sorted(METRICS_OF_CHANGES)
    assert offered("cost_by") == {"dimension": ("tenant", "model")}
    first = {name: values[0] for name, values in offered("latency_rise").items()}
    assert first == {"bins": "ttft_us_bins", "quantile": "0.99", "width_ms": "60000"}
    assert offered("who_slowed_model").keys() == {"bins", "quantile"}
    assert offered("pages/models") == {}


def test_a_saved_query_runs_without_values_that_people_seldom_give() -> None:
    """All models where a question asks for all, its first value else; against what was just before the range."""
    assert usual("who_slowed_model") == {"model": "", "bins": "ttft_us_bins", "quantile": "0.99"}
    assert usual("latency_rise")["model"] == ""
    assert usual("SELECT 1") == {}
    asked = query_of("tokens_changed", ["model=m"], 5 * HOUR_MS, HOUR_MS)

    ends = {"from_ms": 4, "to_ms": 5, "before_from_ms": 3, "before_to_ms": 4}
    assert asked.parameters == {"model": "m", "tenant": "", **{name: str(at * HOUR_MS) for name, at in ends.items()}}
