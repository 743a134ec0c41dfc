"""What the cost job costs: how many times real time one core folds, bills and splits a whole fleet's windows.

Processor time of ``fold`` and ``rows`` of all partitions in one process, decoding and encoding included; making the
fleet's records is left out. They are as the windows job writes them: of every window each source commits twice, a
request's work falls into the window of its end and the two before, and one line in a hundred has work in one more of
the last fifteen minutes. Minutes are counted once the first bills are final and old minutes are forgotten.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fleetpulse.services.jobs_and_sink import EXAMPLE_PRICES
from schemas.codec import native
from schemas.codec.block import Bins, Block, Column, Labels, Numbers
from schemas.contract.record import Record
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.fields import Field, Kind, Table
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, SECOND_MS, WINDOW_MS
from schemas.rows.tables import PARTIALS
from schemas.rows.usage import USAGE
from stream_jobs.costs.account import Pricing
from stream_jobs.costs.step import CostStep
from stream_jobs.costs.warm import warm
from stream_jobs.prices.load import load
from stream_jobs.step import Commit

TIMES_REAL_MIN = 20.0
WARM_MINUTES = 26
"""Until the first minutes are forgotten: a minute, fifteen to settle, ten that are kept."""
_WINDOWS = MINUTE_MS // WINDOW_MS


@dataclass(slots=True)
class _Spent:
    """Seconds of processor, and what was made of it."""

    fold_s: float = 0.0
    rows_s: float = 0.0
    bills: int = 0
    output_bytes: int = 0


def measure(fleet: Fleet, minutes: int, warm_minutes: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """All numbers; ``times_real`` has a bound."""
    warm()
    pricing, feed = Pricing(load(EXAMPLE_PRICES)), Feed(fleet, seed)
    sources = {"gpu.samples": fleet.partitions, "llm.requests": fleet.partitions}
    step = CostStep(DEFAULT_LIMITS, sources, pricing, pricing.version, fleet.partitions)
    states = [step.new(WINDOW_PARTIALS, number) for number in range(fleet.partitions)]
    spent = _Spent()
    for minute in range(warm_minutes + minutes):
        if minute == warm_minutes:
            spent, feed.rows = _Spent(), 0
        say(f"minute {minute + 1} of {warm_minutes + minutes}{'' if minute >= warm_minutes else ', not counted'}")
        for number in range(minute * _WINDOWS, (minute + 1) * _WINDOWS):
            _window(step, states, feed, number, spent)
    dump_s = time.process_time()
    dump_bytes = sum(len(part) for state in states for part in step.dump(state))
    dump_s = time.process_time() - dump_s
    return {
        **asdict(fleet),
        "minutes": minutes,
        "input_rows_per_minute": feed.rows // minutes,
        "bills_per_minute": spent.bills // minutes,
        "output_bytes_per_minute": spent.output_bytes // minutes,
        "fold_s_per_minute": spent.fold_s / minutes,
        "rows_s_per_minute": spent.rows_s / minutes,
        "times_real": minutes * MINUTE_MS / SECOND_MS / (spent.fold_s + spent.rows_s),
        "snapshot_bytes": dump_bytes,
        "snapshot_s": dump_s,
        "memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024,
    }


def _window(step: CostStep, states: list[Any], feed: Feed, number: int, spent: _Spent) -> None:
    for partition, records in enumerate(feed.window(number)):
        changes, began_s = step.changes(), time.process_time()
        step.fold(states[partition], records, changes)
        folded_s = time.process_time()
        commit = Commit(WINDOW_PARTIALS, partition, records[0].offset, records[-1].offset + 1, 0, 0, idle=False)
        outputs = step.rows(states[partition], changes, commit)
        spent.rows_s += time.process_time() - folded_s
        spent.fold_s += folded_s - began_s
        spent.bills += sum(int(dict(one.headers)["rows"]) for one in outputs)
        spent.output_bytes += sum(len(one.value or b"") for one in outputs)


def rows(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Lines of the table that people read."""
    return [
        ("times real time, one core", f"{result['times_real']:.1f}", f">= {TIMES_REAL_MIN:g}"),
        ("fold, per minute", f"{result['fold_s_per_minute']:.2f} s", ""),
        ("bills and parts, per minute", f"{result['rows_s_per_minute']:.2f} s", ""),
        ("rows in, per minute", f"{result['input_rows_per_minute']:,}", ""),
        ("bills emitted, per minute", f"{result['bills_per_minute']:,}", ""),
        ("bytes out, per minute", f"{result['output_bytes_per_minute']:,}", ""),
        ("snapshot", f"{result['snapshot_bytes']:,} bytes, {result['snapshot_s']:.2f} s", ""),
        ("memory of the process, with its load", f"{result['memory_peak_bytes'] / 2**20:,.0f} MiB", ""),
    ]


GPU = PARTIALS["gpu.samples"]
COMMITS = 2
"""Of each source in a window."""
OUT_OF_ORDERNESS_MS = 2_000
_LONG = 100
_WORK = 2
"""Windows before that of its end in which a request was at work."""
_WINDOWS = MINUTE_MS // WINDOW_MS
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Fleet:
    """How large: ``partitions`` are those of ``window.partials`` and of both source topics."""

    gpus: int = 10_000
    engines: int = 2_000
    tenants: int = 200
    tenants_per_engine: int = 10
    partitions: int = 4
    base_ms: int = 29_000_000 * MINUTE_MS


class Feed:
    """Records of the partitions of ``window.partials``, window after window; the same for the same seed."""

    def __init__(self, fleet: Fleet, seed: int) -> None:
        self.fleet = fleet
        self._draw = np.random.default_rng(seed)
        self._offsets = [0] * fleet.partitions
        self._read: dict[tuple[str, int], int] = {}
        self.rows = 0

    def window(self, number: int) -> list[list[Record]]:
        """Records of the window, by partition."""
        found: list[list[Record]] = [[] for _ in range(self.fleet.partitions)]
        for commit in range(COMMITS):
            for source in range(self.fleet.partitions):
                for target in range(self.fleet.partitions):
                    for topic, table, block in self._blocks(number, source, target):
                        found[target].append(self._record(number, commit, (topic, source), target, table, block))
                for topic in ("gpu.samples", "llm.requests"):
                    self._read[topic, source] = self._read.get((topic, source), 0) + 1
        return found

    def _blocks(self, number: int, source: int, target: int) -> Iterator[tuple[str, Table, Block]]:
        engines = self._engines(source, target)
        yield "gpu.samples", GPU, self._gpu_block(number, engines)
        yield "llm.requests", USAGE, self._usage_block(number, engines)

    def _engines(self, source: int, target: int) -> Whole:
        every, partitions = np.arange(self.fleet.engines), self.fleet.partitions
        return every[(every % partitions == target) & (every // partitions % partitions == source)]

    def _gpu_block(self, number: int, engines: Whole) -> Block:
        each = max(1, self.fleet.gpus // self.fleet.engines)
        of, rows = np.repeat(engines, each), len(engines) * each
        gpu = of * each + np.tile(np.arange(each), len(engines))
        span_ms = WINDOW_MS // COMMITS
        given: dict[str, Column] = {
            "window_ms": Numbers(np.full(rows, self._at(number))),
            "interval_ms_sum": Numbers(np.full(rows, span_ms)),
            "energy_mj_sum": Numbers(self._draw.integers(200, 700, rows) * span_ms),
            "grouping": _label(np.zeros(rows, dtype=np.int64), "gpu", 1),
            "region": _label(of % 2, "region-", 2),
            "host": _label(of // 2, "host-", self.fleet.engines),
            "engine_id": _label(of, "engine-", self.fleet.engines),
            "placement_group": _label(of, "group-", self.fleet.engines),
            "gpu_uuid": _label(gpu, "GPU-0000-", self.fleet.gpus + each),
            "gpu_model": _label(of % 2, "NVIDIA H100 80GB HBM3 ", 2),
        }
        return Block(rows, {field.name: given.get(field.name) or _other(field, rows) for field in GPU.fields})

    def _usage_block(self, number: int, engines: Whole) -> Block:
        each = self.fleet.tenants_per_engine
        of = np.repeat(engines, each)
        tenant = (of * each + np.tile(np.arange(each), len(engines))) % self.fleet.tenants
        long = np.flatnonzero(self._draw.integers(0, _LONG, len(of)) == 0)
        minutes = [number, number - _WORK] if number % _WINDOWS < _WORK else [number]
        line = np.concatenate([*[np.arange(len(of))] * len(minutes), long])
        window = np.concatenate([np.repeat(minutes, len(of)), number - self._draw.integers(3, 90, len(long))])
        rows, draw = len(line), self._draw
        given: dict[str, Column] = {
            "window_ms": Numbers(self._at(window) // MINUTE_MS * MINUTE_MS),
            "requests": Numbers((window == number).astype("<u8") * draw.integers(0, 4, rows, dtype="<u8")),
            "prefill_tokens": Numbers(draw.integers(0, 4_000, rows)),
            "cached_tokens": Numbers(draw.integers(0, 1_000, rows)),
            "decode_tokens": Numbers(draw.integers(1, 1_500, rows)),
            "kv_token_ms": Numbers(draw.integers(1, 50_000_000, rows)),
            "engine_id": _label(of[line], "engine-", self.fleet.engines),
            "placement_group": _label(of[line], "group-", self.fleet.engines),
            "tenant": _label(tenant[line], "tenant-", self.fleet.tenants),
            "model": _label(of[line] % 20, "model-", 20),
            "status": Labels(1 + (draw.integers(0, 40, rows) == 0), [None, b"ok", b"error"]),
        }
        return Block(rows, {field.name: given.get(field.name) or _other(field, rows) for field in USAGE.fields})

    def _at(self, window: Any) -> Any:
        return self.fleet.base_ms + window * WINDOW_MS

    def _record(
        self, number: int, commit: int, source: tuple[str, int], target: int, table: Table, block: Block
    ) -> Record:
        offset = self._offsets[target]
        self._offsets[target] += 1
        self.rows += block.rows
        read, at_ms = self._read.get(source, 0), self._at(number) + WINDOW_MS * (commit + 1) // COMMITS
        headers = (
            ("schema", table.schema.encode()),
            ("source-topic", source[0].encode()),
            ("source-partition", b"%d" % source[1]),
            ("offsets", b"%d-%d" % (read, read + 1)),
            ("number", b"%d" % read),
            ("watermark", b"%d" % (at_ms - OUT_OF_ORDERNESS_MS)),
        )
        return Record(WINDOW_PARTIALS, target, offset, at_ms, None, native.encode(table.fields, block), headers)


def _label(codes: Whole, stem: str, words: int) -> Labels:
    used, inverse = np.unique(codes, return_inverse=True)
    assert len(used) <= words
    return Labels(inverse + 1, [None, *(f"{stem}{code}".encode() for code in used.tolist())])


def _other(field: Field, rows: int) -> Column:
    """A column whose values costs do not look at."""
    if field.kind is Kind.LABEL:
        return Labels(np.zeros(rows, dtype=np.int64), [None])
    if field.kind is Kind.BINS:
        return Bins(np.zeros(rows, dtype=np.int64), np.empty(0, dtype=np.int16), np.empty(0, dtype=np.uint64))
    assert field.kind.numpy, field.name
    return Numbers(np.full(rows, 50, dtype=field.kind.numpy))
