"""``bench judging``: what the alert job costs one core for a fleet of 100,000 GPUs, with one upstream a window late.

A slice of the fleet is made by the real windows and finals jobs, once, and stands for all: every upstream of
``window.finals`` brings slices with hosts, engines and GPUs of their own. The alert job, with the shipped rules, folds
that log as a broker would hand it over; engines and hosts of one slice are gone for some windows, so that alerts come.
Processor time of ``fold``, of ``rows`` and of the snapshots with them; making the log is left out. *delay* is that of
an alert: processor time from the fold of the record that lets a window be judged until rows and snapshot are made.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lab.bench.feed import messages
from lab.bench.workload import GPUS_PER_HOST, Profile, Workload
from schemas.codec import native
from schemas.codec.block import Block, Column, Labels, Numbers
from schemas.codec.select import select
from schemas.contract.headers import NATIVE
from schemas.contract.record import Output, Record
from schemas.contract.topics import WINDOW_FINALS, WINDOW_PARTIALS
from schemas.limits import WINDOW_MS, Limits
from schemas.rows import finals
from schemas.rows.finals import PROGRESS_SCHEMA, FinalsHeaders
from stream_jobs.alerts.step import AlertStep
from stream_jobs.finals.step import FinalsStep
from stream_jobs.insight.warm import warm
from stream_jobs.rules.load import load_set
from stream_jobs.step import Commit
from stream_jobs.windows.step import WindowsStep

FROM_MS = 1_800_000_000_000
SLICE_HOSTS = 125
REQUESTS_PER_HOST = 4
"""Each second; rows of finals are by series, whatever the number of requests."""
WARM_WINDOWS = 8
FAULT_WINDOWS = range(1, 5)
"""Of those measured, in which the first slice is missing from what comes."""
CORE_S_MAX = 10.0
"""Of a window: one core."""
DELAY_S_MAX = 2.0
LIMITS = Limits(process_series_max=10_000_000, series_max=200_000, label_cardinality_max=400_000)
_SECONDS = 14
"""Of events, so that the first window passes."""
_OWN = ("host", "engine_id", "gpu_uuid", "placement_group")
"""Labels that each slice has for itself."""


@dataclass(slots=True)
class Spent:
    """Seconds of processor by window, and what came of them."""

    fold_s: list[float] = field(default_factory=list)
    commit_s: list[float] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    snapshot_bytes: list[int] = field(default_factory=list)
    alerts: int = 0
    judged: int = 0
    incomplete: int = 0


def measure(gpus: int, upstreams: int, windows: int, seed: int, say: Callable[[str], None]) -> dict[str, Any]:
    """All numbers, each beside its bound."""
    ruleset = load_set(None)
    warm(ruleset.rules)
    slices = max(1, round(gpus / (SLICE_HOSTS * GPUS_PER_HOST)))
    say("finals of a slice of the fleet")
    log = Log(a_slice(seed), slices, upstreams)
    step, spent = AlertStep(upstreams, ruleset), Spent()
    state, changes = step.new(WINDOW_FINALS, 0), step.changes()
    for number in range(WARM_WINDOWS + windows):
        measured = number - WARM_WINDOWS
        say(f"window {number + 1} of {WARM_WINDOWS + windows}{'' if measured >= 0 else ', not counted'}")
        if measured == 0:
            spent, log.bytes, log.rows = Spent(), 0, 0
        state, changes = _window(step, state, log.window(number, missing=measured in FAULT_WINDOWS), spent)
    assert changes is not None
    return _result(spent, log, {"gpus": slices * SLICE_HOSTS * GPUS_PER_HOST, "upstreams": upstreams}, windows)


def _window(step: AlertStep, state: Any, records: Sequence[Record], spent: Spent) -> tuple[Any, Any]:
    """Record by record, as a step that is due is committed."""
    fold_s = commit_s = 0.0
    changes = step.changes()
    for record in records:
        begun_s = time.process_time()
        step.fold(state, [record], changes)
        folded_s = time.process_time()
        fold_s += folded_s - begun_s
        spent.judged, spent.incomplete = spent.judged + changes.judged, spent.incomplete + changes.incomplete
        if step.due(state, changes):
            spent.alerts += len(changes.alerts)
            step.rows(state, changes, Commit(WINDOW_FINALS, 0, record.offset, record.offset + 1, 0, 0, False))
            spent.snapshot_bytes.append(sum(map(len, step.dump(state))))
            commit_s += time.process_time() - folded_s
            spent.delays_s.append(time.process_time() - begun_s)
        changes = step.changes()
    spent.fold_s.append(fold_s)
    spent.commit_s.append(commit_s)
    return state, changes


def _result(spent: Spent, log: Log, fleet: dict[str, int], windows: int) -> dict[str, Any]:
    whole = np.array(spent.fold_s) + np.array(spent.commit_s)
    delay_s = float(np.quantile(spent.delays_s, 0.99, method="higher")) if spent.delays_s else None
    return {
        **fleet,
        "windows": windows,
        "rows_per_window": log.rows // windows,
        "finals_bytes_per_window": log.bytes // windows,
        "judged": spent.judged,
        "incomplete": spent.incomplete,
        "alerts": spent.alerts,
        "cpu_s_per_window": float(whole.mean()),
        "cpu_s_per_window_max": float(whole.max()),
        "commit_s_per_window": float(np.mean(spent.commit_s)),
        "delay_p99_s": delay_s,
        "snapshots": len(spent.snapshot_bytes),
        "snapshot_bytes_max": max(spent.snapshot_bytes, default=0),
        "memory_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024,
    }


def outside(result: dict[str, Any]) -> list[str]:
    """What is beyond its bound."""
    delay_s = result["delay_p99_s"]
    beyond = {
        "windows that were judged": result["judged"] != result["windows"],
        "incomplete windows": result["incomplete"] > 0,
        "processor time of a window": result["cpu_s_per_window"] > CORE_S_MAX,
        "delay of alerts": delay_s is None or delay_s > DELAY_S_MAX,
    }
    return [name for name, is_beyond in beyond.items() if is_beyond]


def rows(result: dict[str, Any]) -> list[tuple[Any, ...]]:
    """For the table: metric, value, bound."""
    bounds = {
        "incomplete": "0",
        "cpu_s_per_window": f"<= {CORE_S_MAX:g}",
        "delay_p99_s": f"<= {DELAY_S_MAX:g}",
        "judged": f"{result['windows']}",
    }
    return [(name, value, bounds.get(name, "")) for name, value in result.items()]


# the log


def a_slice(seed: int) -> dict[str, Block]:
    """Finals of one window of ``SLICE_HOSTS`` hosts by schema, as the windows and the finals job make them."""
    profile = Profile("slice", SLICE_HOSTS, REQUESTS_PER_HOST, GPUS_PER_HOST, _SECONDS)
    one = dict.fromkeys(profile.topics, 1)
    sent = list(messages(Workload(profile, seed), FROM_MS, _SECONDS, NATIVE, one, "judging"))
    step, partials = FinalsStep(LIMITS, one), list[Output]()
    for topic in profile.topics:
        values = [each for each in sent if each.topic == topic]
        records = [
            Record(topic, 0, at, FROM_MS + at * _SECONDS * 1_000 // len(values), None, each.value, each.headers)
            for at, each in enumerate(values)
        ]
        partials += _folded(WindowsStep(LIMITS, {WINDOW_PARTIALS: 1, "books": 1, "rejected": 1}), topic, records)
    written = [
        Record(WINDOW_PARTIALS, 0, at, FROM_MS + _SECONDS * 1_000, each.key, each.value, each.headers)
        for at, each in enumerate(each for each in partials if each.topic == WINDOW_PARTIALS)
    ]
    found: dict[str, Block] = {}
    for output in _folded(step, WINDOW_PARTIALS, written):
        headers = finals.decode(output.headers, "bench")
        if isinstance(headers, FinalsHeaders) and headers.window_ms == FROM_MS and output.value:
            fields = finals.TABLE_BY_SCHEMA[headers.schema].fields
            found[headers.schema] = native.decode(output.value, fields)
    return found


def _folded(step: Any, topic: str, records: Sequence[Record]) -> list[Output]:
    state, changes = step.new(topic, 0), step.changes()
    step.fold(state, records, changes)
    outputs: list[Output] = step.rows(state, changes, Commit(topic, 0, 0, len(records), 0, 0, False))
    return outputs


class Log:
    """``window.finals``, window after window: the first upstream comes a window later than the others."""

    def __init__(self, blocks: dict[str, Block], slices: int, upstreams: int) -> None:
        self._slices = [
            {schema: _renamed(_of_machines(block) if each else block, each) for schema, block in blocks.items()}
            for each in range(slices)
        ]
        self._upstreams = upstreams
        self._offset = 0
        self.bytes = 0
        self.rows = 0

    def window(self, number: int, *, missing: bool) -> list[Record]:
        """What is appended while the window passes; ``missing``: nothing of the first slice but what is not of
        machines."""
        own = [(0, number - 1), *((upstream, number) for upstream in range(1, self._upstreams))]
        return [record for upstream, which in own if which >= 0 for record in self._records(upstream, which, missing)]

    def _records(self, upstream: int, number: int, missing: bool) -> Iterator[Record]:
        mine = range(upstream, len(self._slices), self._upstreams)
        at_ms, window_ms = FROM_MS + (number + 1 + (upstream == 0)) * WINDOW_MS, FROM_MS + number * WINDOW_MS
        heads = [(schema, block) for each in mine if not (missing and each == 1) for schema, block in self._of(each)]
        for schema, block in heads:
            value = native.encode(finals.TABLE_BY_SCHEMA[schema].fields, _moved(block, number * WINDOW_MS))
            yield self._record(FinalsHeaders(schema, upstream, window_ms, number, True, 0, block.rows), value, at_ms)
        progress = FinalsHeaders(PROGRESS_SCHEMA, upstream, 0, 0, False, window_ms + WINDOW_MS, 0)
        yield self._record(progress, b"", at_ms)

    def _of(self, each: int) -> Iterator[tuple[str, Block]]:
        yield from self._slices[each].items()

    def _record(self, headers: FinalsHeaders, value: bytes, at_ms: int) -> Record:
        offset, self._offset = self._offset, self._offset + 1
        self.bytes, self.rows = self.bytes + len(value), self.rows + headers.rows
        return Record(WINDOW_FINALS, 0, offset, at_ms, None, value, headers.encode())


def _of_machines(block: Block) -> Block:
    """Rows of a host or an engine; series of the whole fleet stand in the first slice alone."""
    known = [block.labels(name).codes != 0 for name in _OWN if name in block.columns]
    return select(block, np.logical_or.reduce(known)) if known else block


def _renamed(block: Block, each: int) -> Block:
    def named(name: str, column: Column) -> Column:
        if name not in _OWN or not isinstance(column, Labels):
            return column
        return replace(column, words=[word and b"%03d-%s" % (each, word) for word in column.words])

    return Block(block.rows, {name: named(name, column) for name, column in block.columns.items()})


def _moved(block: Block, by_ms: int) -> Block:
    """The rows some time later."""
    columns = dict(block.columns)
    for name in ("window_ms", "last_at_ms", "at_ms"):
        if isinstance(column := columns.get(name), Numbers):
            columns[name] = replace(column, values=column.values + column.values.dtype.type(by_ms))
    return Block(block.rows, columns)
