"""What a pipeline for a fleet takes, from costs that benches measured: partitions, workers, servers, disk. Pure.

Everything is linear in events a second or in GPUs, so a target beyond the measured fleet is *extrapolated*, and says by
how much. What no bench has measured is None and listed, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

import orjson

from schemas.contract.topics import BY_NAME, SOURCE_TOPICS, WINDOW_PARTIALS
from schemas.events.event_types import GPU_SAMPLES
from schemas.events.grouping import GROUPING_SETS
from schemas.limits import DAY_MS, HOUR_MS, MINUTE_MS, Limits

TABLE = Path(__file__).parents[1] / "data" / "size.json"
"""Written by the benches (``lab.bench.sizing``)."""
REPLICAS = 3
CORE_SHARE = 0.5
"""Of a core or a server, at most: what is left catches up after an outage."""
PARTITION_CORES = 0.25
"""Of one core for one partition, at most: a partition is folded by one process."""
PARTITION_SKEW = 1.5
"""The fullest partition has so many times its share, at most."""
READERS_OF_SOURCES, READERS_OF_PARTIALS = 2, 3
"""Windows job and raw sink; sink, finals and cost job."""
_BUCKET_MS = {"1m": MINUTE_MS, "1h": HOUR_MS, "1d": DAY_MS}


@dataclass(frozen=True, slots=True)
class Costs:
    """As measured, at ``gpus`` and ``events_per_s``. ``*_us`` are CPU microseconds an event, all threads;
    None: not measured. Bytes are of an event by source topic, of a GPU and second, of a GPU and bucket."""

    measured: tuple[Mapping[str, Any], ...]
    gpus: int
    events_per_s: float
    events_per_gpu_s: Mapping[str, float]
    windows_us: float
    sink_us: float
    kafka_us: float
    clickhouse_us: float
    finals_us: float | None
    alerts_us: float | None
    cost_cores_per_gpu: float
    value_bytes: Mapping[str, float]
    kafka_bytes: Mapping[str, float]
    kafka_derived_bytes: float
    raw_bytes: Mapping[str, float]
    partials_bytes_per_gpu_s: float
    rollup_bytes_per_gpu: Mapping[str, float]
    worker_bytes: int
    bytes_per_series: float
    series_per_gpu: float
    memory_bytes: Mapping[str, int]

    @classmethod
    def load(cls, path: Path = TABLE) -> Costs:
        """The table that is shipped, or another one."""
        found = orjson.loads(path.read_bytes())
        return cls(**found | {"measured": tuple(found["measured"])})


@dataclass(frozen=True, slots=True)
class Target:
    """A fleet, and servers of ``cores`` and ``disk_bytes`` each for Kafka and ClickHouse."""

    gpus: int
    requests_per_s: float
    cores: int = 8
    disk_bytes: int = 4 * 10**12


@dataclass(frozen=True, slots=True)
class Size:
    """What it takes. ``basis``: *measured*, or *extrapolated, times K*; ``notes`` say what is assumed or not known."""

    events_per_s: float
    partitions: Mapping[str, int]
    workers: Mapping[str, int | None]
    cores: Mapping[str, float | None]
    brokers: int
    shards: int
    memory_bytes: Mapping[str, int]
    disk_bytes: Mapping[str, float]
    network_bytes_per_s: Mapping[str, float]
    basis: str
    times_measured: float
    notes: tuple[str, ...]

    def as_data(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def size(costs: Costs, target: Target, limits: Limits) -> Size:
    """The least deployment that carries the target with half of every core free."""
    events = _events_per_s(costs, target)
    total = sum(events.values())
    cores = _cores(costs, target, total)
    partitions = dict(_partitions(costs, target, events, cores))
    disk = _disk(costs, target, events, limits)
    workers = {name: None if used is None else _workers(name, used, partitions) for name, used in cores.items()}
    servers = {name: workers.pop(name) for name in ("kafka", "clickhouse")}
    assert servers["kafka"] is not None
    assert cores["kafka"] is not None
    assert cores["clickhouse"] is not None
    usable = target.cores * CORE_SHARE
    brokers = max(REPLICAS, ceil(cores["kafka"] / usable), ceil(disk["kafka"] / (target.disk_bytes * CORE_SHARE)))
    shards = max(ceil(cores["clickhouse"] / usable), ceil(disk["clickhouse"] / (target.disk_bytes * CORE_SHARE)), 1)
    times = max(target.gpus / costs.gpus, total / costs.events_per_s)
    return Size(
        events_per_s=total,
        partitions=partitions,
        workers=workers,
        cores=cores,
        brokers=brokers,
        shards=shards,
        memory_bytes=_memory(costs, target, workers),
        disk_bytes=disk,
        network_bytes_per_s=_network(costs, events, total),
        basis="measured" if times <= 1 else f"extrapolated, times {times:.3g}",
        times_measured=times,
        notes=(*_notes(costs, cores, times, shards), *_to_set(target, partitions, limits)),
    )


def _events_per_s(costs: Costs, target: Target) -> dict[str, float]:
    per_gpu = {topic: rate * target.gpus for topic, rate in costs.events_per_gpu_s.items()}
    return {**per_gpu, "llm.requests": target.requests_per_s}


def _cores(costs: Costs, target: Target, events_per_s: float) -> dict[str, float | None]:
    def of(cost_us: float | None) -> float | None:
        return None if cost_us is None else cost_us * events_per_s / 1e6

    return {
        "windows": of(costs.windows_us),
        "finals": of(costs.finals_us),
        "alerts": of(costs.alerts_us),
        "costs": costs.cost_cores_per_gpu * target.gpus,
        "sink": of(costs.sink_us),
        "kafka": costs.kafka_us * events_per_s / 1e6 * REPLICAS,
        "clickhouse": of(costs.clickhouse_us),
    }


def _partitions(
    costs: Costs, target: Target, events: Mapping[str, float], cores: Mapping[str, float | None]
) -> Iterator[tuple[str, int]]:
    """Of each topic a power of two, so that a later growth keeps keys that are together together."""
    for topic, rate in events.items():
        yield topic, _power(max(BY_NAME[topic].partitions, costs.windows_us * rate / 1e6 / PARTITION_CORES))
    behind = sum(cores[name] or 0.0 for name in ("finals", "costs"))
    least = max(BY_NAME[WINDOW_PARTIALS].partitions, behind / PARTITION_CORES, _partitions_of_bills(target.gpus))
    yield WINDOW_PARTIALS, _power(least)


def _partitions_of_bills(gpus: int) -> float:
    """In so many the cost job holds the minutes of every GPU's engine, were it the only one: of those beyond its bound
    there are no bills."""
    from stream_jobs.costs.minute_buffer import BufferLimits  # and with it numba, a second that others need not wait

    buffer = BufferLimits()
    minutes = ceil((buffer.settle_ms + buffer.keep_ms) / MINUTE_MS) + 1
    return PARTITION_SKEW * gpus * minutes / buffer.minutes_max


def _power(least: float) -> int:
    return 1 << max(0, ceil(least) - 1).bit_length()


def _workers(name: str, cores: float, partitions: Mapping[str, int]) -> int:
    """At least two, so that one may die; the alert job is one, with a spare."""
    if name == "alerts":
        return 2
    wanted = max(2, ceil(cores / CORE_SHARE))
    return min(wanted, max(2, partitions[WINDOW_PARTIALS])) if name in ("finals", "costs") else wanted


def _memory(costs: Costs, target: Target, workers: Mapping[str, int | None]) -> dict[str, int]:
    """Of one process: the windows job by its share of the series, were it alone with one worker less; the others as
    they were at the measured fleet."""
    share = costs.series_per_gpu * target.gpus / max(1, (workers["windows"] or 2) - 1)
    return {"windows": round(costs.worker_bytes + share * costs.bytes_per_series), **costs.memory_bytes}


def _disk(costs: Costs, target: Target, events: Mapping[str, float], limits: Limits) -> dict[str, float]:
    """All of Kafka with its copies; all of ClickHouse, one copy of each row."""
    total = sum(events.values())
    source = sum(costs.kafka_bytes[topic] * rate for topic, rate in events.items()) * limits.source_retention_ms
    derived = costs.kafka_derived_bytes * total * limits.partials_retention_ms
    raw = sum(costs.raw_bytes[topic] * rate for topic, rate in events.items()) * limits.raw_ttl_ms / 1_000
    partials = costs.partials_bytes_per_gpu_s * target.gpus * limits.partials_ttl_ms / 1_000
    rollups = sum(
        one * target.gpus * limits.rollup_ttl_ms / _BUCKET_MS[level]
        for level, one in costs.rollup_bytes_per_gpu.items()
    )
    found = {"clickhouse raw": raw, "clickhouse partials": partials, "clickhouse rollups": rollups}
    return {"kafka": REPLICAS * (source + derived) / 1_000, "clickhouse": sum(found.values()), **found}


def _network(costs: Costs, events: Mapping[str, float], total: float) -> dict[str, float]:
    source = sum(costs.kafka_bytes[topic] * rate for topic, rate in events.items())
    derived = costs.kafka_derived_bytes * total
    return {
        "edges to kafka": source,
        "between brokers": (REPLICAS - 1) * (source + derived),
        "kafka to jobs and sinks": READERS_OF_SOURCES * source + READERS_OF_PARTIALS * derived,
        "jobs to kafka": derived,
        "sinks to clickhouse, before compression": sum(
            costs.value_bytes[topic] * rate for topic, rate in events.items()
        ),
    }


def _to_set(target: Target, partitions: Mapping[str, int], limits: Limits) -> Iterator[str]:
    """Limits that this fleet would pass: each GPU is a series of its own in one of the grouping sets."""
    in_a_partition = ceil(PARTITION_SKEW * target.gpus / partitions[GPU_SAMPLES.topic])
    wanted = in_a_partition * partitions[GPU_SAMPLES.topic] * len(GROUPING_SETS)
    if wanted > limits.process_series_max:
        yield f"set limits.process_series_max = {wanted}: a series for every GPU in each part"
    if in_a_partition > limits.series_max:
        yield f"set limits.series_max = {in_a_partition}: a series for every GPU of a partition"


def _notes(costs: Costs, cores: Mapping[str, float | None], times: float, shards: int) -> Iterator[str]:
    for one in costs.measured:
        yield f"measured {one['at'][:10]}: {one['command']} ({one['processor']}, {one['cores']} cores)"
    if times > 1:
        yield f"extrapolated: {times:.3g} times the measured {costs.gpus:,} GPUs, {costs.events_per_s:,.0f} events/s"
    processors = [name for name, used in cores.items() if used is None]
    events = [topic.name for topic in SOURCE_TOPICS if topic.name not in costs.kafka_bytes]
    missing = {"processors": processors, "events": events}
    if any(missing.values()):
        found = "; ".join(f"{what} of {', '.join(names)}" for what, names in missing.items() if names)
        yield f"not measured, and in none of this: {found}"
    yield "assumed: series grow with GPUs as in the simulated fleet; an event costs the same whatever its topic"
    yield "not scaled: memory of every process but the windows job, which is that of the measured fleet"
    if shards > 1:
        yield "assumed: shards divide rows and work evenly (clickhouse.cluster)"
