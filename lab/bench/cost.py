"""What the cost job costs: how many times real time one core folds, bills and splits a whole fleet's windows.

Processor time of ``fold`` and ``rows`` of all partitions in one process, decoding and encoding included; making the
fleet's records is left out. Minutes are counted once the first bills are final and old minutes are forgotten: from then
on the job holds and emits as much as it ever will.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from fleetpulse.services.jobs_and_sink import EXAMPLE_PRICES
from lab.bench.cost_fleet import Feed, Fleet
from schemas.contract.topics import WINDOW_PARTIALS
from schemas.limits import DEFAULT_LIMITS, MINUTE_MS, SECOND_MS, WINDOW_MS
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
