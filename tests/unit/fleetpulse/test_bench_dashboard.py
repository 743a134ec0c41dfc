"""The history that ``bench dashboard`` fills in, and what it asks."""

from __future__ import annotations

import numpy as np
import pytest

from fleetpulse.bench.dashboard import found_nothing, percentiles
from fleetpulse.bench.dashboard_alerts import ALERTS, OPEN, transitions
from fleetpulse.bench.dashboard_asked import AROUND_MS, RANGES_MS, Examples, ranges_of, tables_of, values_of
from fleetpulse.bench.dashboard_fill import FRESH_MS, Span, reach_ms, width_of
from fleetpulse.bench.dashboard_history import BINS_PER_SKETCH, FATES, Fleet
from fleetpulse.queries import dashboard as catalogue
from schemas import native
from schemas.block import Block
from schemas.build import rows_of
from schemas.grouping import GROUPING_SETS
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.tables import PARTIALS

AT_MS = 1_800_000_000_000


def blocks(fleet: Fleet, width_ms: int = WINDOW_MS) -> dict[str, Block]:
    return {grouping.name: fleet.block(grouping, AT_MS, width_ms) for grouping in GROUPING_SETS}


def test_a_window_has_a_row_for_everything_that_is_there() -> None:
    """Two hosts: sixteen GPUs, four engines that each serve well and fail, every tenant, model and fate."""
    found = {name: block.rows for name, block in blocks(Fleet(2, 1, ("m", "n"), ("a",))).items()}

    assert found == {grouping.name: Fleet(2, 1, ("m", "n"), ("a",)).rows(grouping) for grouping in GROUPING_SETS}
    assert found == {"service": 2 * len(FATES), "engine": 8, "gpu": 16, "gpu_event": 3, "host": 2, "engine_sample": 4}


def test_the_same_seed_gives_the_same_bytes_and_windows_differ() -> None:
    """A window is the same whenever it is asked for; another seed gives other values."""

    def bytes_of(seed: int, at_ms: int) -> list[bytes]:
        fleet = Fleet(1, seed)
        return [native.encode(PARTIALS[one.topic].fields, fleet.block(one, at_ms)) for one in GROUPING_SETS]

    assert bytes_of(1, AT_MS) == bytes_of(1, AT_MS)
    assert bytes_of(1, AT_MS) != bytes_of(2, AT_MS)
    assert bytes_of(1, AT_MS) != bytes_of(1, AT_MS + WINDOW_MS)


def test_measures_of_a_row_agree_with_one_another() -> None:
    """Least, mean and greatest stand in order, a minute counts six windows, what is not drawn is unknown."""
    (row, *_) = rows_of(PARTIALS["gpu.samples"].fields, blocks(Fleet(1, 1), MINUTE_MS)["gpu"])

    mean = row["power_mw_sum"] / row["power_mw_count"]
    assert row["power_mw_min"] < mean < row["power_mw_max"]
    assert (row["event_count"], row["power_mw_count"]) == (60, 60)
    assert row["nvlink_tx_bytes_sum"] is None
    assert (row["host"], row["engine_id"], row["grouping"]) == ("host-0000", "host-0000-engine-0", "gpu")


def test_sketches_rise_and_count_their_events() -> None:
    """Keys rise within a row, as the tables need it, and their counts add up to the row's events or more."""
    for row in rows_of(PARTIALS["llm.requests"].fields, blocks(Fleet(1, 1), HOUR_MS)["service"])[:20]:
        bins = row["ttft_us_bins"]
        assert list(bins) == sorted(bins)
        assert len(bins) == BINS_PER_SKETCH
        assert sum(bins.values()) == row["event_count"]


def test_rows_of_a_level_reach_as_far_back_as_queries_read_them() -> None:
    """No further than the history, and what only *Pipeline* looks at ten minutes."""
    gpu, engine = (next(one for one in GROUPING_SETS if one.name == name) for name in ("gpu", "engine"))
    day = Span(AT_MS - 24 * HOUR_MS, AT_MS)

    far = {level: reach_ms(gpu, level) for level in ("10s", "1m")}
    assert {level: len(day.starts(gpu, level)) * width_of(level) for level in far} == far
    assert len(day.starts(gpu, "1h")) == 24
    assert [len(day.starts(engine, level)) for level in ("10s", "1m")] == [FRESH_MS // WINDOW_MS, 0]
    assert len(Span(AT_MS - 2 * MINUTE_MS, AT_MS).starts(gpu, "1m")) == 2


@pytest.mark.parametrize("name", catalogue.names())
def test_every_query_is_asked_with_a_value_for_each_place(name: str) -> None:
    """A query that comes later is measured too, or this says which value it lacks."""
    query = catalogue.query(name)

    assert values_of(query, AT_MS - HOUR_MS, AT_MS).keys() == query.parameters.keys()


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
    assert tables("fleet_gpus", HOUR_MS) == {"gpu_samples_rollup_1m"}
    assert tables("gpus", HOUR_MS) == {"gpu_samples_rollup_1h", "gpu_samples_rollup_1m"}
    assert tables("slowest_of_windows", HOUR_MS) == {"exemplars", "exemplars_slowest_1h"}
    assert tables("cost_idle_hosts", HOUR_MS) == {"token_costs_rollup_1h", "token_costs_rollup_1m"}
    assert tables("goodput_over_time", HOUR_MS) == {"llm_requests"}
    assert tables("tenants_over_time", 24 * HOUR_MS) == {"llm_requests_rollup_1h"}


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


def test_alerts_are_told_in_order_and_the_newest_are_open() -> None:
    """Three transitions of each but of those that go on; none after the end."""
    span = Span(AT_MS - HOUR_MS, AT_MS)
    told = list(transitions(Fleet(3, 1), span))

    assert len(told) == 3 * ALERTS - OPEN
    assert len({alert.fingerprint for alert in told}) == ALERTS
    assert {alert.transition for alert in told[-2 * OPEN :]} == {"opened", "updated"}
    assert all(span.from_ms <= alert.opened_ms <= alert.at_ms < span.to_ms for alert in told)
