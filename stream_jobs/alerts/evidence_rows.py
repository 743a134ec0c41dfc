"""What rows of remembered windows say of a request, a GPU, an engine: plain values, as they stand in evidence."""

from __future__ import annotations

from typing import Any

import numpy as np

from schemas.codec.block import Block
from stream_jobs.alerts.remembered import ENDS, Lookup, ends_of, number_at, values_of

REQUESTS_MAX = 5
TEXT_MAX = 128
UNWELL = ("failed", "aborted", "client_fault")

Words = dict[str, set[str]]
"""By label, what it may be."""


def word_at(block: Block, name: str, row: int) -> str | None:
    """The word of a label in a row, cut to ``TEXT_MAX``."""
    labels = block.labels(name)
    word = labels.words[labels.codes[row]]
    return None if word is None else word.decode()[:TEXT_MAX]


def _text(block: Block, name: str, row: int) -> str | None:
    texts = block.texts(name)
    if texts.known is not None and not texts.known[row]:
        return None
    begin = int(texts.ends[row - 1]) if row else 0
    return texts.data[begin : int(texts.ends[row])].decode("utf-8", "replace")[:TEXT_MAX]


def examples(found: Lookup, where: Words, metric: str, most: int = REQUESTS_MAX) -> list[dict[str, Any]]:
    """Exemplars of a metric as plain values, the greatest first; of those that ended otherwise than well (``UNWELL``,
    one metric to who chose them) the greatest ids."""
    block, unwell = found.block, metric in UNWELL
    rows = found.rows({**where, "metric": {"failed" if unwell else metric}})
    if unwell:
        rows = rows[ends_of(block, rows) == ENDS.index(metric)]
    else:
        rows = rows[np.argsort(-values_of(block, "value_us")[rows], kind="stable")]
    return [
        {
            "request_id": _text(block, "request_id", row),
            "trace_id": _text(block, "trace_id", row),
            "window_ms": number_at(block, "window_ms", row),
            "value_us": number_at(block, "value_us", row),
            **{name: word_at(block, name, row) for name in ("engine_id", "model", "tenant", "status", "error_kind")},
        }
        for row in rows[:most].tolist()
    ]


def _known(rows: list[tuple[Block, int]], name: str) -> list[int]:
    """The values of a column that are known."""
    found = (number_at(block, name, row) for block, row in rows)
    return [value for value in found if value is not None]


def of_gpu(rows: list[tuple[Block, int]]) -> dict[str, Any]:
    """What the rows of one GPU say, the newest first."""
    by_fault = _throttled_share(rows, "throttled_fault_us")
    return {
        "engine_id": _first(rows, "engine_id"),
        "host": _first(rows, "host"),
        "throttled_share": _throttled_share(rows, "throttled_us"),
        **({} if by_fault is None else {"throttled_fault_share": by_fault}),
        "temperature_max_c": max(_known(rows, "temperature_max_c"), default=None),
        "clock_sm_min_mhz": min(_known(rows, "clock_sm_min_mhz"), default=None),
    }


def _throttled_share(rows: list[tuple[Block, int]], name: str) -> float | None:
    throttled, interval = _known(rows, name), _known(rows, "interval_ms")
    return round(sum(throttled) / (1_000 * sum(interval)), 4) if throttled and sum(interval) else None


def of_engine(rows: list[tuple[Block, int]]) -> dict[str, Any]:
    """What the rows of one engine say, the newest first."""
    used, preempted = max(_known(rows, "kv_used_max_ppm"), default=None), _known(rows, "preemptions")
    return {
        "model": _first(rows, "model"),
        "kv_used_max_share": None if used is None else used / 1_000_000,
        "preemptions": sum(preempted) if preempted else None,
        "waiting_max": max(_known(rows, "waiting_max"), default=None),
    }


def _first(rows: list[tuple[Block, int]], name: str) -> str | None:
    block, row = rows[0]
    return word_at(block, name, row)
