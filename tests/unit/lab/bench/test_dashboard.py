"""The history that ``bench dashboard`` fills in, and what it asks."""

from __future__ import annotations

import numpy as np
import pytest

from fleetpulse.queries import dashboard as catalogue
from lab.bench.dashboard import found_nothing, percentiles
from lab.bench.dashboard_alerts import ALERTS, OPEN, transitions
from lab.bench.dashboard_fleet import Fleet, words
from lab.bench.dashboard_queries import AROUND_MS, Examples, ranges_of, tables_of, values_of
from lab.bench.dashboard_windows import FRESH_MS, RANGES_MS, STATUSES, Span, drawn, reach_ms, rows_of, width_of
from schemas.events.grouping import GROUPING_SETS, GroupingSet
from schemas.fields import Kind
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS

AT_MS = 1_800_000_000_000


def grouping_of(name: str) -> GroupingSet:
    return next(one for one in GROUPING_SETS if one.name == name)


def test_a_window_has_a_row_for_everything_that_is_there() -> None:
    """Two hosts: sixteen GPUs, four engines that each serve well and fail, every tenant, model and status, a job."""
    fleet = Fleet(2, 1, ("m", "n"), ("a",))
    found = {one.name: rows_of(fleet, one) for one in GROUPING_SETS}

    assert found == {
        "service": 2 * len(STATUSES),
        "engine": 8,
        "gpu": 16,
        "gpu_event": 3,
        "host": 2,
        "engine_sample": 4,
        "process": 8,
        "training": 16,
        "custom": 4,
    }
    assert drawn(fleet, grouping_of("gpu"), "10s", range(0, 3 * WINDOW_MS, WINDOW_MS)).rows == 3 * 16


@pytest.mark.parametrize("level", ["10s", "1m", "1h"])
def test_every_measure_of_a_table_is_drawn(level: str) -> None:
    """A column that comes later is filled too."""
    for grouping in GROUPING_SETS:
        columns = drawn(Fleet(1, 1), grouping, level, range(0, width_of(level), width_of(level))).columns

        measures = {field.name for field in PARTIALS[grouping.topic].fields if field.kind is not Kind.LABEL}
        assert measures <= columns.keys(), grouping.name


def test_names_with_quotes_stay_texts() -> None:
    """Nobody's name ends a statement."""
    assert words(["it's", "a\\b"]) == "['it\\'s', 'a\\\\b']"


def test_rows_of_a_level_reach_as_far_back_as_queries_read_them() -> None:
    """No further than the history, and what only *Pipeline* looks at ten minutes."""
    gpu, engine, event = grouping_of("gpu"), grouping_of("engine"), grouping_of("gpu_event")
    day = Span(AT_MS - 24 * HOUR_MS, AT_MS)

    far = {level: reach_ms(gpu, level) for level in ("10s", "1m")}
    assert {level: len(day.starts(gpu, level)[-1]) * width_of(level) for level in far} == far
    assert list(map(len, day.starts(gpu, "1h"))) == [24]
    assert [len(day.starts(engine, level)[-1]) for level in ("10s", "1m")] == [3 * HOUR_MS // WINDOW_MS, 24 * 60]
    assert [len(day.starts(event, level)[-1]) for level in ("10s", "1m")] == [FRESH_MS // WINDOW_MS, 6 * 60]
    assert list(map(len, Span(AT_MS - 2 * MINUTE_MS, AT_MS).starts(gpu, "1m"))) == [2]


def test_how_far_back_rows_are_read_is_told_of_lists_of_grouping_sets_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose windows alone a query reads are no rows of it."""
    header = "-- What it says.\n-- reads steps: training.steps 10s <= 2h, 1m\n-- rows: 1\n"
    asked = {
        "listed": f"{header}SELECT host FROM {{steps:Rows}} WHERE grouping IN ('custom', 'training')",
        "windows": f"{header}SELECT width_ms FROM {{steps:Windows}} WHERE grouping = 'training'".replace("2h", "9h"),
    }
    monkeypatch.setattr(catalogue, "names", lambda: tuple(asked))
    monkeypatch.setattr(catalogue, "query", lambda name: catalogue.read(name, asked[name]))

    assert reach_ms(grouping_of("training"), "10s") == 2 * HOUR_MS
    assert reach_ms(grouping_of("training"), "1m") is None
    assert reach_ms(grouping_of("custom"), "10s") == FRESH_MS


def test_every_query_is_asked_with_a_value_for_each_place() -> None:
    """A query that comes later is measured too, or this says which value it lacks."""
    for name in catalogue.names():
        query = catalogue.query(name)

        assert values_of(query, AT_MS - HOUR_MS, AT_MS).keys() == query.parameters.keys(), name


def test_percentiles_are_of_all_and_null_of_none() -> None:
    """As numpy has them, to a tenth of a millisecond."""
    took_ms = [float(value) for value in np.arange(101)]

    assert percentiles(took_ms) == {"p50_ms": 50.0, "p95_ms": 95.0}
    assert percentiles([]) == {"p50_ms": None, "p95_ms": None}


def test_what_a_query_reads_is_told_from_its_text() -> None:
    """Tables by the range's level, those behind a join and in the parts of a union; names of parts of it are none."""

    def tables(name: str, range_ms: int) -> set[str]:
        return tables_of(catalogue.query(name), range_ms)

    assert tables("fleet_gpus", MINUTE_MS) == {"gpu_samples_partials"}
    assert tables("fleet_gpus", HOUR_MS) == {"gpu_samples_partials", "gpu_samples_rollup_1m"}
    assert tables("gpus", HOUR_MS) == {"gpu_samples_partials", "gpu_samples_rollup_1h", "gpu_samples_rollup_1m"}
    assert tables("slowest_of_windows", HOUR_MS) == {"exemplars", "exemplars_slowest_1h"}
    assert tables("cost_idle_hosts", HOUR_MS) == {"token_costs_rollup_1m"}
    assert tables("cost_idle_hosts", 24 * HOUR_MS) == {"token_costs_rollup_1h", "token_costs_rollup_1m"}
    assert tables("goodput_of_requests", HOUR_MS) == {"llm_requests"}
    levels = {"llm_requests_partials", "llm_requests_rollup_1m", "llm_requests_rollup_1h"}
    assert tables("tenants_over_time", 24 * HOUR_MS) == levels


def test_a_query_that_never_finds_a_row_is_named() -> None:
    """Over one range nothing may be found, over all of them it proves nothing; one that was refused found nothing."""
    told = {"a/15m": {"rows": 0}, "a/60m": {"rows": 3}, "b/15m": {"rows": 0}, "b/60m": {"rows": 0}, "c/15m": {}}

    assert found_nothing(told) == ["b", "c"]


def test_things_are_asked_for_that_are_there() -> None:
    """A request and a refused event by the names they have in the tables; seconds around a request are a minute."""
    examples = Examples("req-1", AT_MS, {"topic": "gpu.samples", "partition": 3, "offset": 9, "row": -1})

    def given(name: str) -> dict[str, catalogue.Value]:
        return values_of(catalogue.query(name), AT_MS - HOUR_MS, AT_MS, examples)

    assert given("request")["id"] == "req-1"
    assert given("requests")["id"] == ""
    assert (given("pipeline_rejected_bytes")["partition"], given("pipeline_rejected_bytes")["row"]) == (3, -1)
    assert ranges_of(catalogue.query("request_gpus"), 24 * HOUR_MS) == [AROUND_MS]
    assert ranges_of(catalogue.query("request"), HOUR_MS) == list(RANGES_MS[:2])


def test_alerts_are_emitted_in_order_and_the_newest_are_open() -> None:
    """Three transitions of each but of those that go on; none after the end."""
    span = Span(AT_MS - HOUR_MS, AT_MS)
    told = list(transitions(Fleet(3, 1), span))

    assert len(told) == 3 * ALERTS - OPEN
    assert len({alert.fingerprint for alert in told}) == ALERTS
    assert {alert.transition for alert in told[-2 * OPEN :]} == {"opened", "updated"}
    assert all(span.from_ms <= alert.opened_ms <= alert.at_ms < span.to_ms for alert in told)
