"""Hours of a big fleet as rows of windows and of their rollups: a row for each GPU, host and engine, and one for each
(model, tenant, length, fate) of the service, in each window. Sketches have some twenty bins each.

Rows of every level are drawn as such, as far back as any query of the catalogue reads them; those of one level don't
add up to those of the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleetpulse.queries import dashboard as catalogue
from fleetpulse.queries.levels import FINEST, WINDOWS
from lab.bench.dashboard_fleet import (
    EVENT_KINDS,
    EVENTS_PER_WINDOW,
    GPUS_PER_HOST,
    HOSTS_PER_CLUSTER,
    LEVELS,
    REGIONS,
    SUMS,
    Drawn,
    Fleet,
    engine_of,
    gpu_of,
    host_of,
    one_of,
    words,
)
from schemas.ddl.merging import BY_LEVEL, labels_of, rollup_table
from schemas.events.event_types import BY_TOPIC
from schemas.events.grouping import GROUPING_SETS, GroupingSet
from schemas.fields import Field, Kind
from schemas.limits import HOUR_MS, MINUTE_MS, WINDOW_MS
from schemas.rows.tables import DEFINITION_VERSION, PARTIALS
from schemas.sketch import BINS_PER_OCTAVE

RANGES_MS = (15 * MINUTE_MS, HOUR_MS, 6 * HOUR_MS, 24 * HOUR_MS)
"""Lengths of the ranges that queries are run over."""
ROWS_PER_INSERT = 200_000
"""About: a statement is short enough to be answered in time by a busy machine."""
FRESH_MS = 10 * MINUTE_MS
"""Rows of ten seconds of what only *Pipeline* looks at."""
FILLED = (FINEST, "1m", "1h")
LENGTHS = ("<=256", "<=1k", "<=4k", "<=16k")
STATUSES = ("ok", "ok", "ok", "ok", "error", "timeout")
"""Of six rows of the service four ended well."""
BINS_PER_SKETCH = 20
PROCESSES = ("vllm", "VLLM::EngineCore")
"""Of each engine."""
JOB = "fine-tuning"
RANKS = 16
"""Of the one training job; they are on the first hosts."""
METRICS = ("queue_depth", "documents_indexed")
"""Of the application on every host: a level and a counter, though rows of both have both."""
SAMPLES = 10
"""Readings of a GPU, host or engine in a window."""
_SORTED_ANEW = {"gpu.history": "gpu.samples"}
_FACTORS = {"min": 0.9, "max": 1.1, "last": 1.0}


@dataclass(frozen=True, slots=True)
class Span:
    """History ``[from_ms, to_ms)``, whole minutes."""

    from_ms: int
    to_ms: int

    def starts(self, grouping: GroupingSet, level: str) -> tuple[range, ...]:
        """Windows of a level: as many of the last ones as a query may read whole, and the minutes at the beginning of
        every range that is run, which are its edge."""
        width_ms = width_of(level)
        far_ms = reach_ms(grouping, level)
        from_ms = self.from_ms if far_ms is None else max(self.from_ms, self.to_ms - far_ms)
        last = range(from_ms - from_ms % width_ms, self.to_ms, width_ms)
        if level != "1m" or far_ms == 0:
            return (last,)
        edges = [self.to_ms - one for one in RANGES_MS if self.from_ms <= self.to_ms - one < from_ms]
        return (*(range(one, one + HOUR_MS - one % HOUR_MS, width_ms) for one in edges), last)


def width_of(level: str) -> int:
    """Width of a row of a level [ms]."""
    return WINDOW_MS if level == FINEST else BY_LEVEL[level].bucket_ms


def reach_ms(grouping: GroupingSet, level: str) -> int | None:
    """The longest range over which any query reads rows of this grouping set at this level [ms]; None without bound.
    Where it reads windows alone these are at the ends of what is there."""
    bounds = [
        most_ms
        for query in map(catalogue.query, catalogue.names())
        if grouping.name in query.groupings and WINDOWS not in query.sql
        for source in query.sources.values()
        if _SORTED_ANEW.get(source.topic, source.topic) == grouping.topic
        for at, most_ms in source.levels
        if at == level
    ]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    return max(known, default=FRESH_MS if level == FINEST else 0)


def windows(fleet: Fleet, span: Span) -> Iterator[tuple[str, Drawn]]:
    """All rows of all windows, and what they are."""
    for grouping in GROUPING_SETS:
        for level in FILLED:
            each = max(1, ROWS_PER_INSERT // rows_of(fleet, grouping))
            for starts in span.starts(grouping, level):
                for first in range(0, len(starts), each):
                    some = starts[first : first + each]
                    yield f"{grouping.name}, rows of {level}", drawn(fleet, grouping, level, some)


def rows_of(fleet: Fleet, grouping: GroupingSet) -> int:
    """How many rows a window of this grouping set has."""
    return {
        "service": len(fleet.models) * len(fleet.tenants) * len(STATUSES),
        "engine": 2 * fleet.engines,
        "gpu": fleet.gpus,
        "gpu_event": EVENTS_PER_WINDOW,
        "host": fleet.hosts,
        "engine_sample": fleet.engines,
        "process": len(PROCESSES) * fleet.engines,
        "training": RANKS,
        "custom": len(METRICS) * fleet.hosts,
    }[grouping.name]


def drawn(fleet: Fleet, grouping: GroupingSet, level: str, starts: range) -> Drawn:
    """The rows of several windows of a level: those of the first, then those of the second."""
    event, table, rows = BY_TOPIC[grouping.topic], PARTIALS[grouping.topic], rows_of(fleet, grouping)
    labels = {"grouping": f"'{grouping.name}'", "origin": "'simulated'", **_labels(fleet, grouping.name, rows)}
    window_ms = f"{starts.start} + {starts.step} * intDiv(number, {rows})"
    count = SAMPLES * starts.step // WINDOW_MS
    columns = {
        "window_ms": window_ms,
        "event_count": str(count),
        "last_at_ms": f"{window_ms} + {starts.step - 1}",
        "definition_version": str(DEFINITION_VERSION),
    }
    kept = {"grouping", *(one.name for one in labels_of(event))}
    for field in table.fields:
        if field.kind is not Kind.LABEL:
            columns.setdefault(field.name, _measure(field, fleet.seed, starts, count))
        elif field.name in labels and (level == FINEST or field.name in kept):
            columns[field.name] = labels[field.name]
    if level != FINEST:
        return Drawn(rollup_table(event, level), columns, rows * len(starts))
    place = {"source_partition": "0", "log_id": "'bench'", "log_partition": "0"}
    place |= {"log_offset": str(starts.start), "log_row": "toUInt32(number)"}
    return Drawn(table.name, {**columns, **place}, rows * len(starts))


def _labels(fleet: Fleet, grouping: str, rows: int) -> dict[str, str]:
    index = f"(number % {rows})"
    if grouping == "service":
        return _service(fleet, index)
    if grouping == "host":
        return host_of(index)
    if grouping == "gpu":
        return {**_engine_of_gpu(fleet, index), "workload": "'inference'"}
    if grouping == "gpu_event":
        gpu = f"(cityHash64(number, {fleet.seed}) % {fleet.gpus})"
        kinds, severities = zip(*EVENT_KINDS, strict=True)
        return {**_engine_of_gpu(fleet, gpu), "kind": one_of(kinds, gpu), "severity": one_of(severities, gpu)}
    if grouping == "engine_sample":
        return {**_engine(fleet, index), "engine_kind": "'vllm'"}
    if grouping == "process":
        engine = _engine(fleet, f"intDiv({index}, {len(PROCESSES)})")
        return {**engine, "process_name": one_of(PROCESSES, index), "workload": "'inference'"}
    if grouping == "training":
        host = host_of(f"(intDiv({index}, {GPUS_PER_HOST}) % {fleet.hosts})")
        return {**host, "job": f"'{JOB}'", "rank": f"toString({index})", "model": one_of(fleet.models, "0")}
    if grouping == "custom":
        named = {"service": "'frontend'", "metric": one_of(METRICS, index), "attributes": "'queue=main'"}
        return {**host_of(f"intDiv({index}, {len(METRICS)})"), **named}
    return {**_engine(fleet, f"intDiv({index}, 2)"), **_fate(f"4 * ({index} % 2)")}


def _engine(fleet: Fleet, index: str) -> dict[str, str]:
    labels = engine_of(fleet, index)
    return {**labels, "placement_group": labels["engine_id"], "model_version": "'2026-01'", "precision": "'fp8'"}


def _engine_of_gpu(fleet: Fleet, index: str) -> dict[str, str]:
    return {**_engine(fleet, f"intDiv({index}, 4)"), **gpu_of(fleet, index)}


def _service(fleet: Fleet, index: str) -> dict[str, str]:
    fate, rest = f"({index} % {len(STATUSES)})", f"intDiv({index}, {len(STATUSES)})"
    tenant = f"intDiv({rest}, {len(fleet.models)})"
    cluster = f"({tenant} % {max(1, fleet.hosts // HOSTS_PER_CLUSTER)})"
    return {
        "cluster": f"concat('cluster-', toString({cluster}))",
        "region": one_of(REGIONS, cluster),
        "model": one_of(fleet.models, rest),
        "model_version": "'2026-01'",
        "tenant": one_of(fleet.tenants, tenant),
        "slo_class": one_of(("interactive", "standard", "batch"), tenant),
        **_fate(fate),
        "input_bucket": one_of(LENGTHS, fate),
    }


def _fate(index: str) -> dict[str, str]:
    kind = f"[NULL, NULL, NULL, NULL, 'server', 'timeout'][1 + {index}]"
    return {"status": f"{words(STATUSES)}[1 + {index}]", "error_kind": kind, "start": "'warm'"}


def _measure(field: Field, seed: int, starts: range, count: int) -> str:
    """All columns of a measure follow from one value of the row, so that they agree with one another."""
    stem, _, rule = field.name.rpartition("_")
    if stem in SUMS:
        return f"toInt64({_value(stem, SUMS[stem], seed, starts)} * {count / SAMPLES})"
    if stem not in LEVELS:
        return "NULL" if field.kind.optional else "0"
    value = _value(stem, LEVELS[stem], seed, starts)
    if field.kind is Kind.BINS:
        first = f"toInt16(ceil({BINS_PER_OCTAVE} * log2({value}))) - {BINS_PER_SKETCH // 2}"
        keys = f"arrayMap(i -> toInt16(i + {first}), range({BINS_PER_SKETCH}))"
        counts = f"arrayWithConstant({BINS_PER_SKETCH}, toUInt64({max(1, count // BINS_PER_SKETCH)}))"
        return f"mapFromArrays({keys}, {counts})"
    return str(count) if rule == "count" else f"toInt64({value} * {_FACTORS.get(rule, count)})"


def _value(stem: str, bounds: tuple[float, float], seed: int, starts: range) -> str:
    """Above the lower bound, so that it has a logarithm where that is 0."""
    low, high = bounds
    return f"({low} + {high - low} * (1 + cityHash64(number, '{stem}', {seed}, {starts.start}) % 1000000) / 1000000)"
