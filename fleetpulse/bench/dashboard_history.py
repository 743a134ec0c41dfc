"""Hours of a big fleet as rows of the tables, made directly: what ``bench dashboard`` asks its questions of.

Rows have the shape and the labels of what the windows job writes: a row for each GPU, host and engine, and one for each
(model, tenant, length, fate) of the service, in each window. Values are drawn, sketches have some twenty bins each.
Pure and seeded: a window gives the same blocks whenever it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from schemas.block import Bins, Block, Column, Labels, Numbers
from schemas.fields import Field, Kind
from schemas.grouping import GROUPING_SETS, GroupingSet
from schemas.limits import WINDOW_MS
from schemas.sketch import bin_of
from schemas.tables import DEFINITION_VERSION, PARTIALS, Table

Random = np.random.Generator
Floats = npt.NDArray[np.float64]

GPUS_PER_HOST = 8
ENGINES_PER_HOST = 2
HOSTS_PER_CLUSTER = 250
REGIONS = ("eu-west", "us-east", "ap-south")
MODELS = ("llama-3.1-8b", "llama-3.3-70b", "qwen3-32b", "mixtral-8x22b", "deepseek-v3", "gemma-3-27b")
TENANTS = tuple(f"tenant-{number:02d}" for number in range(60))
LENGTHS = ("<=256", "<=1k", "<=4k", "<=16k")
FATES = (("ok", None), ("ok", None), ("ok", None), ("ok", None), ("error", "server"), ("timeout", "timeout"))
"""Of six rows of the service four ended well."""
EVENTS_PER_WINDOW = 3
EVENT_KINDS = (("xid", "warning"), ("ecc_uncorrected", "critical"), ("thermal", "warning"), ("clock", "info"))
BINS_PER_SKETCH = 20
_EVENTS = next(one for one in GROUPING_SETS if one.name == "gpu_event")
SAMPLES = 10
"""Readings of a GPU, host or engine in a window."""

LEVELS: Mapping[str, tuple[float, float]] = {
    "util_gpu_pct": (30, 100),
    "util_memory_pct": (10, 70),
    "power_mw": (180e3, 690e3),
    "power_limit_mw": (700e3, 700e3),
    "temperature_c": (38, 80.3),
    "temperature_memory_c": (45, 92),
    "clock_sm_mhz": (1_400, 1_980),
    "clock_memory_mhz": (2_619, 2_619),
    "sm_active_ppm": (2e5, 9e5),
    "tensor_active_ppm": (1e5, 5e5),
    "memory_used_bytes": (40e9, 79e9),
    "memory_total_bytes": (85.5e9, 85.5e9),
    "cpu_busy_ppm": (5e4, 7e5),
    "load_1m_milli": (1e3, 4e4),
    "processors": (128, 128),
    "running": (0, 64),
    "waiting": (0, 12),
    "kv_used_ppm": (1e5, 9.5e5),
    "ttft_us": (1e5, 6e5),
    "tpot_us": (1.2e4, 4e4),
    "e2e_us": (1e6, 2e7),
    "queue_us": (1e3, 5e4),
    "itl": (1e4, 4e4),
}
"""Least and greatest of what is drawn. What is not here is unknown in every row."""
SUMS: Mapping[str, tuple[float, float]] = {
    "interval_ms": (1e4, 1e4),
    "energy_mj": (1.8e6, 6.9e6),
    "throttled_us": (0, 2e5),
    "network_tx_bytes": (1e6, 1e9),
    "disk_write_bytes": (0, 1e8),
    "preemptions": (0, 2),
    "prompt_tokens": (1e4, 2e5),
    "generation_tokens": (1e3, 4e4),
    "finished_requests": (10, 400),
    "input_tokens": (1e4, 2e5),
    "cached_tokens": (0, 5e4),
    "output_tokens": (1e3, 4e4),
    "reasoning_tokens": (0, 1e4),
}
"""The same of differences: their sum over a window."""


@dataclass(frozen=True)
class Fleet:
    """Hosts of eight GPUs and two engines. ``seed`` decides every value."""

    hosts: int
    seed: int
    models: tuple[str, ...] = MODELS
    tenants: tuple[str, ...] = TENANTS

    def block(self, grouping: GroupingSet, window_ms: int, width_ms: int = WINDOW_MS) -> Block:
        """The rows of one grouping set in one window: the fields of its partials table in their order."""
        random = np.random.default_rng([self.seed, window_ms // WINDOW_MS, width_ms, GROUPING_SETS.index(grouping)])
        labels = self._events(random) if grouping is _EVENTS else self._labels[grouping.name]
        return _block(PARTIALS[grouping.topic], grouping.name, labels, random, window_ms, width_ms)

    def rows(self, grouping: GroupingSet) -> int:
        """How many rows a window of this grouping set has."""
        if grouping is _EVENTS:
            return EVENTS_PER_WINDOW
        return len(next(iter(self._labels[grouping.name].values())).codes)

    @cached_property
    def _labels(self) -> dict[str, dict[str, Labels]]:
        engines = range(self.hosts * ENGINES_PER_HOST)
        service = [self._service(index) for index in range(len(self.models) * len(self.tenants) * len(FATES))]
        served = [self._engine(index) | _fate(fate) for index in engines for fate in (0, 4)]
        sampled = [self._engine(index) | {"engine_kind": "vllm"} for index in engines]
        rows = {
            "service": service,
            "engine": served,
            "gpu": [self._gpu(index) for index in range(self.hosts * GPUS_PER_HOST)],
            "host": [self._host(index) for index in range(self.hosts)],
            "engine_sample": sampled,
        }
        return {name: _coded(found) for name, found in rows.items()}

    def _host(self, index: int) -> dict[str, str | None]:
        cluster = index // HOSTS_PER_CLUSTER
        region = REGIONS[cluster % len(REGIONS)]
        return {
            "cluster": f"cluster-{cluster}",
            "region": region,
            "host": f"host-{index:04d}",
            "origin": "simulated",
        }

    def _engine(self, index: int) -> dict[str, str | None]:
        host, model = index // ENGINES_PER_HOST, self.models[index % len(self.models)]
        engine = f"host-{host:04d}-engine-{index % ENGINES_PER_HOST}"
        named = {"engine_id": engine, "placement_group": engine, "model": model}
        return self._host(host) | named | {"model_version": "2026-01", "precision": "fp8"}

    def _gpu(self, index: int) -> dict[str, str | None]:
        host, slot = divmod(index, GPUS_PER_HOST)
        engine = self._engine(host * ENGINES_PER_HOST + slot * ENGINES_PER_HOST // GPUS_PER_HOST)
        named = {"gpu_uuid": gpu_uuid(index), "gpu_model": "NVIDIA H100 80GB HBM3"}
        return engine | named | {"workload": "inference"}

    def _service(self, index: int) -> dict[str, str | None]:
        rest, fate = divmod(index, len(FATES))
        tenant, model = divmod(rest, len(self.models))
        cluster = tenant % max(1, self.hosts // HOSTS_PER_CLUSTER)
        named = {"model": self.models[model], "model_version": "2026-01", "tenant": self.tenants[tenant]}
        place = {"cluster": f"cluster-{cluster}", "region": REGIONS[cluster % len(REGIONS)]}
        of_class = {"slo_class": ("interactive", "standard", "batch")[tenant % 3], "origin": "simulated"}
        return place | named | of_class | _fate(fate) | {"input_bucket": LENGTHS[fate % len(LENGTHS)]}

    def _events(self, random: Random) -> dict[str, Labels]:
        rows = []
        for index in random.choice(self.hosts * GPUS_PER_HOST, EVENTS_PER_WINDOW, replace=False).tolist():
            kind, severity = EVENT_KINDS[index % len(EVENT_KINDS)]
            rows.append(self._gpu(index) | {"kind": kind, "severity": severity})
        return _coded(rows)


def gpu_uuid(index: int) -> str:
    """UUID of a GPU of the fleet."""
    return f"GPU-{index:08x}-3f5a-11ef"


def _fate(index: int) -> dict[str, str | None]:
    status, kind = FATES[index]
    return {"status": status, "error_kind": kind, "start": "warm"}


def _coded(rows: Sequence[Mapping[str, str | None]]) -> dict[str, Labels]:
    """The labels of rows that all have the same names."""
    found = {}
    for name in rows[0]:
        words: dict[bytes | None, int] = {None: 0}
        texts = (row[name] for row in rows)
        codes = [words.setdefault(None if text is None else text.encode(), len(words)) for text in texts]
        found[name] = Labels(np.array(codes, np.uint32), list(words))
    return found


def _block(
    table: Table, grouping: str, labels: Mapping[str, Labels], random: Random, window_ms: int, width_ms: int
) -> Block:
    rows = len(next(iter(labels.values())).codes)
    drawn: dict[str, Floats] = {}
    fixed = {
        "window_ms": window_ms,
        "event_count": SAMPLES * (width_ms // WINDOW_MS),
        "last_at_ms": window_ms + width_ms - 1,
        "definition_version": DEFINITION_VERSION,
    }
    columns: dict[str, Column] = {}
    for field in table.fields:
        if field.name in fixed:
            columns[field.name] = _numbers(field, np.full(rows, fixed[field.name]))
        elif field.kind is Kind.LABEL:
            columns[field.name] = _label(field.name, grouping, labels, rows)
        else:
            columns[field.name] = _measure(field, drawn, random, rows, fixed["event_count"])
    return Block(rows, columns)


def _label(name: str, grouping: str, labels: Mapping[str, Labels], rows: int) -> Labels:
    if name == "grouping":
        return Labels(np.ones(rows, np.uint8), [None, grouping.encode()])
    return labels.get(name, Labels(np.zeros(rows, np.uint8), [None]))


def _measure(field: Field, drawn: dict[str, Floats], random: Random, rows: int, events: int) -> Column:
    stem, _, rule = field.name.rpartition("_")
    if field.kind is Kind.BINS:
        return _sketch(_draw(stem, drawn, random, rows), events)
    if stem in SUMS:
        return _numbers(field, _drawn(SUMS[stem], random, rows) * (events / SAMPLES))
    if stem not in LEVELS:
        nothing = np.zeros(rows, np.bool_) if field.kind is Kind.OPTIONAL_INT64 else None
        return Numbers(np.zeros(rows, field.kind.numpy), nothing)
    value = _draw(stem, drawn, random, rows)
    factor = {"count": 0.0, "sum": float(events), "min": 0.9, "max": 1.1, "last": 1.0}[rule]
    return _numbers(field, value * factor + (events if rule == "count" else 0))


def _draw(stem: str, drawn: dict[str, Floats], random: Random, rows: int) -> Floats:
    """One value a row for all columns of a measure, so that they agree with one another."""
    if stem not in drawn:
        drawn[stem] = _drawn(LEVELS[stem], random, rows)
    return drawn[stem]


def _drawn(bounds: tuple[float, float], random: Random, rows: int) -> Floats:
    low, high = bounds
    return low + (high - low) * random.random(rows)


def _numbers(field: Field, values: npt.NDArray[Any]) -> Numbers:
    return Numbers(values.astype(field.kind.numpy))


def _sketch(values: Floats, events: int) -> Bins:
    """Bins that lie beside one another around each value; together they count the row's events at least."""
    rows = len(values)
    first = bin_of(values.astype(np.int64)) - BINS_PER_SKETCH // 2
    keys = (first[:, None] + np.arange(BINS_PER_SKETCH)).ravel().astype(np.int16)
    each = max(1, events // BINS_PER_SKETCH)
    ends = np.arange(1, rows + 1, dtype=np.int64) * BINS_PER_SKETCH
    return Bins(ends, keys, np.full(rows * BINS_PER_SKETCH, each, np.uint64))
