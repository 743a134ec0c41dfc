"""The memory of the engines: numpy records that the kernel works on, one row per engine, slot or finished request."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.sketch import BIN_MAX

Row = Any
"""One record of an array below, by reference."""
BINS = BIN_MAX + 2
"""Sketch bins from -1 (zero) to ``BIN_MAX``; bin ``k`` stands at ``k + 1`` in dense histograms."""

PREFILLING, PREFILLED, DECODING = 1, 2, 3

(
    STOP,
    LENGTH,
    TOOL_CALLS,
    ABORTED,
    SERVER,
    CLIENT,
    OOM,
    ENGINE_LOST,
    TIMEOUT,
    OVERLOAD,
    NO_ENGINE,
) = range(11)
"""How a request ends; the first six are decided at its arrival, the others by what happens to it."""

REQUEST = np.dtype(
    [
        ("number", "<i8"),
        ("arrived_us", "<i8"),
        ("deadline_us", "<i8"),
        ("scheduled_us", "<i8"),
        ("first_us", "<i8"),
        ("last_us", "<i8"),
        ("segment_step", "<i8"),
        ("finish_step", "<i8"),
        ("order", "<i8"),
        ("input_tokens", "<i4"),
        ("cached_tokens", "<i4"),
        ("target_tokens", "<i4"),
        ("made_tokens", "<i4"),
        ("resumed_tokens", "<i4"),
        ("prefill_left", "<i4"),
        ("saved", "<i4"),
        ("tenant", "<i2"),
        ("fate", "<i2"),
        ("cold", "<i2"),
        ("state", "<i2"),
    ]
)
"""A request on its way. Times that have not come are -1. ``made_tokens`` counts up to ``segment_step``;
``resumed_tokens`` were made before the last (re-)admission; ``saved`` is the row of its gaps before a preemption."""

FINISHED = np.dtype(
    [
        ("number", "<i8"),
        ("arrived_us", "<i8"),
        ("scheduled_us", "<i8"),
        ("first_us", "<i8"),
        ("last_us", "<i8"),
        ("end_us", "<i8"),
        ("gap_end", "<i8"),
        ("input_tokens", "<i4"),
        ("cached_tokens", "<i4"),
        ("made_tokens", "<i4"),
        ("engine", "<i4"),
        ("target_tokens", "<i4"),
        ("tenant", "<i2"),
        ("fate", "<i2"),
        ("cold", "<i4"),
    ]
)

ENGINE = np.dtype(
    [
        # what it is
        ("batch_max", "<i4"),
        ("queue_max", "<i4"),
        ("chunk_tokens", "<i4"),
        ("cache_tokens_max", "<i8"),
        ("load_us", "<i8"),
        ("overhead_us", "<f8"),
        ("weights_us", "<f8"),
        ("cache_us_per_token", "<f8"),
        ("prefill_us_per_token", "<f8"),
        # knobs
        ("slowdown", "<f8"),
        ("cache_limit", "<i8"),
        ("lost", "<i8"),
        ("loaded_us", "<i8"),
        # state
        ("now_us", "<i8"),
        ("step_begin_us", "<i8"),
        ("step_end_us", "<i8"),
        ("step", "<i8"),
        ("order", "<i8"),
        ("random", "<u8"),
        ("active", "<i8"),
        ("decoding", "<i8"),
        ("prefilled", "<i8"),
        ("queue_head", "<i8"),
        ("queued", "<i8"),
        ("cache_tokens", "<i8"),
        ("next_finish", "<i8"),
        ("next_deadline_us", "<i8"),
        ("step_prefill_share", "<f8"),
        ("step_memory_share", "<f8"),
        ("step_tokens_per_us", "<f8"),
        # what happened since the last sample
        ("busy_us", "<i8"),
        ("prefill_us", "<f8"),
        ("memory_us", "<f8"),
        ("moved_tokens", "<f8"),
        ("preemptions", "<i8"),
        ("prompt_tokens", "<i8"),
        ("hit_tokens", "<i8"),
        ("made_tokens", "<i8"),
        ("finished", "<i8"),
    ]
)
SINCE_LAST_SAMPLE = (
    "busy_us",
    "prefill_us",
    "memory_us",
    "moved_tokens",
    "preemptions",
    "prompt_tokens",
    "hit_tokens",
    "made_tokens",
    "finished",
)


class EngineState(NamedTuple):
    """All engines. ``steps`` is a ring of the sketch bins of each engine's last steps; ``saved`` holds the gap
    histograms of preempted requests, ``free`` (with its length in ``free[0]``) the rows of it that are free."""

    engines: npt.NDArray[np.void]
    slots: npt.NDArray[np.void]
    queue: npt.NDArray[np.void]
    steps: npt.NDArray[np.int16]
    saved: npt.NDArray[np.int32]
    free: npt.NDArray[np.int32]


class Output(NamedTuple):
    """What the kernel writes: finished requests, their gaps (``gap_end`` of a row ends its part of ``keys`` and
    ``counts``), how many of both (``cursor``), and a histogram to work in."""

    rows: npt.NDArray[np.void]
    keys: npt.NDArray[np.int16]
    counts: npt.NDArray[np.uint64]
    cursor: npt.NDArray[np.int64]
    scratch: npt.NDArray[np.int32]


def new_output(rows: int, gaps: int) -> Output:
    """Room for so many finished requests and entries of their gap sketches."""
    return Output(
        np.empty(rows, FINISHED),
        np.empty(gaps, np.int16),
        np.empty(gaps, np.uint64),
        np.zeros(2, np.int64),
        np.zeros(BINS, np.int32),
    )


SAVED_MAX = 1_024
"""Requests in preemption at one time, fleet-wide; one more ends with an out-of-memory error."""


def new_state(engines: npt.NDArray[np.void], steps_max: int) -> EngineState:
    """State of engines that have done nothing yet."""
    batch, queue = int(engines["batch_max"].max()), int(engines["queue_max"].max())
    free = np.arange(-1, SAVED_MAX, dtype=np.int32)
    free[0] = SAVED_MAX
    return EngineState(
        engines=engines,
        slots=np.zeros((len(engines), batch), REQUEST),
        queue=np.zeros((len(engines), queue + batch), REQUEST),
        steps=np.zeros((len(engines), steps_max), np.int16),
        saved=np.zeros((SAVED_MAX, BINS), np.int32),
        free=free,
    )
