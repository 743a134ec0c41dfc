"""What a pipeline takes, by hand on round costs, and on the table that is shipped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetpulse.plan.size import CORE_SHARE, PARTITION_CORES, Costs, Size, Target, size
from schemas.contract.topics import BY_NAME, WINDOW_PARTIALS
from schemas.events.event_types import BY_TOPIC, EVENTS
from schemas.events.grouping import GROUPING_SETS
from schemas.limits import DAY_MS, DEFAULT_LIMITS
from stream_jobs.costs.minute_buffer import BufferLimits

COSTS = Costs(
    measured=({"at": "2026-11-23T12:20:08+00:00", "command": "fleetpulse bench size", "processor": "P", "cores": 2},),
    gpus=1_000,
    events_per_s=6_000.0,
    events_per_gpu_s={"gpu.samples": 1.0},
    windows_us=5.0,
    sink_us=2.0,
    kafka_us=1.0,
    clickhouse_us=4.0,
    finals_us=None,
    alerts_us=1.0,
    cost_cores_per_gpu=1e-6,
    value_bytes={"gpu.samples": 500.0, "llm.requests": 100.0},
    kafka_bytes={"gpu.samples": 50.0, "llm.requests": 10.0},
    kafka_derived_bytes=2.0,
    raw_bytes={"gpu.samples": 20.0, "llm.requests": 80.0},
    partials_bytes_per_gpu_s=100.0,
    rollup_bytes_per_gpu={"1m": 6.0, "1h": 60.0, "1d": 1_440.0},
    worker_bytes=200_000_000,
    bytes_per_series=2_000.0,
    series_per_gpu=5.0,
    memory_bytes={"sink": 7},
)
DAY_S = DAY_MS / 1_000


def sized(gpus: int, requests_per_s: float, costs: Costs = COSTS) -> Size:
    return size(costs, Target(gpus, requests_per_s), DEFAULT_LIMITS)


def test_the_measured_fleet_is_measured_and_says_by_what() -> None:
    """At most what was measured is not called extrapolated; the machine, the day and the command are named."""
    found = sized(1_000, 5_000)

    assert (found.basis, found.events_per_s) == ("measured", 6_000)
    assert found.notes[0] == "measured 2026-11-23: fleetpulse bench size (P, 2 cores)"
    assert not any(note.startswith("extrapolated") for note in found.notes)


@pytest.mark.parametrize(("gpus", "requests_per_s", "times"), [(4_000, 2_000, 4.0), (1_000, 29_000, 5.0)])
def test_beyond_it_the_greater_of_gpus_and_events_says_how_far(gpus: int, requests_per_s: float, times: float) -> None:
    """Either may be what nobody has measured."""
    found = sized(gpus, requests_per_s)

    assert found.times_measured == times
    assert found.basis == f"extrapolated, times {times:.3g}"
    assert any(note.startswith("extrapolated") for note in found.notes)


def test_processors_follow_events_and_gpus() -> None:
    """Kafka's three times, for its copies; what was not measured is none, and a note names it."""
    found = sized(1_000, 999_000)

    assert found.cores == {
        "windows": 5.0,
        "finals": None,
        "alerts": 1.0,
        "costs": pytest.approx(0.001),
        "sink": 2.0,
        "kafka": 3.0,
        "clickhouse": 4.0,
    }
    assert any("not measured, and in none of this: processors of finals;" in note for note in found.notes)
    assert found.workers == {"windows": 10, "finals": None, "alerts": 2, "costs": 2, "sink": 4}
    assert (found.brokers, found.partitions["llm.requests"]) == (3, 32)


def test_events_that_no_bench_has_measured_are_named() -> None:
    """All kinds that there are but the measured ones, whatever else is known."""
    kinds = [event.topic for event in EVENTS if event.topic not in ("gpu.samples", "llm.requests")]
    assert {"host.processes", "training.steps"} <= {*kinds}

    found = sized(1_000, 5_000, replace(COSTS, finals_us=1.0))
    every = sized(1_000, 5_000, replace(COSTS, finals_us=1.0, kafka_bytes=dict.fromkeys(BY_TOPIC, 1.0)))

    assert f"not measured, and in none of this: events of {', '.join(kinds)}" in found.notes
    assert not any("not measured" in note for note in every.notes)


def test_limits_that_a_fleet_would_pass_are_named() -> None:
    """Every GPU is a series of one set, half as many again where a partition has more than its share."""
    limits = replace(DEFAULT_LIMITS, process_series_max=1_000_000, series_max=20_000)
    found = {gpus: size(COSTS, Target(gpus, 1.0), limits) for gpus in (50_000, 200_000)}
    partitions = found[200_000].partitions["gpu.samples"]

    assert not any(note.startswith("set ") for note in found[50_000].notes)
    assert f"set limits.process_series_max = {200_000 * 3 // 2 * len(GROUPING_SETS)}: " in "".join(found[200_000].notes)
    few = size(COSTS, Target(200_000, 1.0), replace(limits, series_max=300_000 // partitions - 1))
    assert f"set limits.series_max = {300_000 // partitions}: a series for every GPU of a partition" in few.notes


@pytest.mark.parametrize("gpus", [1_000, 50_000, 100_000, 1_000_000])
def test_the_cost_job_has_room_for_the_minutes_of_every_engine(gpus: int) -> None:
    """An engine on each GPU, in a partition with half as many again: a minute beyond the bound has no bill."""
    limits = BufferLimits()
    minutes = 1 + (limits.settle_ms + limits.keep_ms) / 60_000

    partitions = sized(gpus, 1_000).partitions[WINDOW_PARTIALS]

    assert gpus * 1.5 * minutes / partitions <= limits.minutes_max


def test_disk_is_what_comes_times_how_long_it_is_kept() -> None:
    """By hand: a day of Kafka in three copies, seven days of rows, thirty of partials, four hundred of rollups."""
    found = sized(1_000, 5_000)

    assert found.disk_bytes["kafka"] == pytest.approx(3 * DAY_S * (1_000 * 50 + 5_000 * 10 + 6_000 * 2))
    assert found.disk_bytes["clickhouse raw"] == pytest.approx(7 * DAY_S * (1_000 * 20 + 5_000 * 80))
    assert found.disk_bytes["clickhouse partials"] == pytest.approx(30 * DAY_S * 1_000 * 100)
    per_gpu_and_day = 1_440 * 6 + 24 * 60 + 1_440
    assert found.disk_bytes["clickhouse rollups"] == pytest.approx(400 * 1_000 * per_gpu_and_day)
    parts = [found.disk_bytes[f"clickhouse {name}"] for name in ("raw", "partials", "rollups")]
    assert found.disk_bytes["clickhouse"] == pytest.approx(sum(parts))


def test_network_counts_every_reader_and_copy() -> None:
    """Two read the source topics, three what the windows job writes; two more brokers have a copy of all."""
    found = sized(1_000, 5_000).network_bytes_per_s

    assert found["edges to kafka"] == 100_000
    assert found["between brokers"] == 2 * (100_000 + 12_000)
    assert found["kafka to jobs and sinks"] == 2 * 100_000 + 3 * 12_000
    assert found["sinks to clickhouse, before compression"] == 1_000_000


@pytest.mark.parametrize("gpus", [1, 1_000, 37_500, 100_000, 1_000_000])
@pytest.mark.parametrize("requests_per_s", [0, 5_000, 1_000_000])
def test_every_part_has_room_and_no_less_than_the_contract_has(gpus: int, requests_per_s: float) -> None:
    """The shipped table: no partition above its share of a core, no server above its share, two of every worker."""
    target = Target(gpus, requests_per_s)
    found = size(Costs.load(), target, DEFAULT_LIMITS)

    costs = Costs.load()
    rates = {topic: rate * gpus for topic, rate in costs.events_per_gpu_s.items()} | {"llm.requests": requests_per_s}
    for topic, rate in rates.items():
        assert found.partitions[topic] >= BY_NAME[topic].partitions
        assert costs.windows_us * rate / 1e6 <= PARTITION_CORES * found.partitions[topic] * (1 + 1e-9)
    assert all(count is None or count >= 2 for count in found.workers.values())
    kafka, clickhouse = found.cores["kafka"], found.cores["clickhouse"]
    assert kafka is not None
    assert clickhouse is not None
    assert kafka <= found.brokers * target.cores * CORE_SHARE
    assert clickhouse <= found.shards * target.cores * CORE_SHARE
    assert found.disk_bytes["clickhouse"] <= found.shards * target.disk_bytes * CORE_SHARE


def test_a_worker_has_room_for_the_series_of_one_that_died() -> None:
    """Memory of the windows job is its share with one worker less."""
    found = sized(100_000, 500_000)

    assert found.workers["windows"] == 6
    assert found.memory_bytes == {"windows": 200_000_000 + 5 * 100_000 * 2_000 // 5, "sink": 7}
    assert sized(100_000, 500_000, replace(COSTS, series_per_gpu=0.0)).memory_bytes["windows"] == 200_000_000
