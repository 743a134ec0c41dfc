"""Counters and gauges in Prometheus' names and units."""

from __future__ import annotations

from runtime.counters import PREFIX, Counters, exported_name
from runtime.metric_catalogue import METRICS


def test_times_are_seconds_and_the_rest_is_as_counted() -> None:
    """Totals and levels, with their labels; our own code goes on reading milliseconds."""
    counters = Counters()
    counters.add("job_commit_ms", 1_500, topic="a")
    counters.set("edge_oldest_ms", 250)
    counters.set("edge_spool_bytes", 7)

    assert counters.render().decode().splitlines() == [
        "# HELP fleetpulse_job_commit_seconds_total time inside transactions (seconds)",
        "# TYPE fleetpulse_job_commit_seconds_total counter",
        'fleetpulse_job_commit_seconds_total{topic="a"} 1.5',
        "# HELP fleetpulse_edge_oldest_seconds age of the oldest record in the spool (seconds)",
        "# TYPE fleetpulse_edge_oldest_seconds gauge",
        "fleetpulse_edge_oldest_seconds 0.25",
        "# HELP fleetpulse_edge_spool_bytes in the spool, not yet acknowledged (bytes)",
        "# TYPE fleetpulse_edge_spool_bytes gauge",
        "fleetpulse_edge_spool_bytes 7.0",
    ]
    assert counters.value("job_commit_ms", topic="a") == 1_500


def test_nothing_counted_is_an_empty_page() -> None:
    """Not an error."""
    assert Counters().render() == b""


def test_no_two_figures_share_a_name() -> None:
    """Also after their units were changed."""
    names = [PREFIX + exported_name(metric.name) for metric in METRICS]

    assert len(set(names)) == len(names)
    assert [name for name in names if name.endswith("_ms")] == []
