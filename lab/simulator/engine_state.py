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

STOP, LENGTH, TOOL_CALLS, ABORTED, SERVER, CLIENT, OOM, ENGINE_LOST, TIMEOUT, OVERLOAD, NO_ENGINE = range(11)
"""How a request ends; the first six are decided at its arrival, the others by what happens to it."""


def _record(**names: str) -> np.dtype[np.void]:
    """A record with fields of these types: ``_record(i8="at_us", i4="tokens")``."""
    return np.dtype([(name, f"<{kind}") for kind, some in names.items() for name in some.split()])


REQUEST = _record(
    i8="number arrived_us deadline_us scheduled_us first_us last_us segment_step finish_step order",
    i4="input_tokens cached_tokens target_tokens made_tokens resumed_tokens prefill_left saved",
    i2="tenant fate cold state",
)
"""A request on its way. Times that have not come are -1. ``made_tokens`` counts up to ``segment_step``;
``resumed_tokens`` were made before the last (re-)admission; ``saved`` is the row of its gaps before a preemption."""

FINISHED = _record(
    i8="number arrived_us scheduled_us first_us last_us end_us gap_end",
    i4="input_tokens cached_tokens made_tokens engine target_tokens cold",
    i2="tenant fate",
)

_COUNTED = "busy_us preemptions prompt_tokens hit_tokens made_tokens finished"
_MEASURED = "prefill_us memory_us moved_tokens"
SINCE_LAST_SAMPLE = (*_COUNTED.split(), *_MEASURED.split())
_ABLE_I8, _KNOBS_I8 = "cache_tokens_max load_us", "cache_limit lost loaded_us"
_STATE_I8 = (
    "now_us step_begin_us step_end_us step order active decoding prefilled queue_head queued cache_tokens"
    " next_finish next_deadline_us"
)
ENGINE = _record(
    i4="batch_max queue_max chunk_tokens",
    i8=f"{_ABLE_I8} {_KNOBS_I8} {_STATE_I8} {_COUNTED}",
    u8="random",
    f8="overhead_us weights_us cache_us_per_token prefill_us_per_token slowdown"
    f" step_prefill_share step_memory_share step_tokens_per_us {_MEASURED}",
)
"""What an engine is able to do, the knobs of faults, its state, and what happened since the last sample."""


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
