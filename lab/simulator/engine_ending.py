"""The end of a request: its terminal row, and the sketch of its gaps out of the steps it lived through; compiled.

Whoever changes this file must touch ``engine_kernel`` too: numba's cache looks at the caller's file alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from lab.simulator.engine_state import BINS, DECODING, EngineState, Output, Row
from schemas.sketch import BIN_MAX, BOUNDS

_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


@njit(cache=True)
def finish(state: EngineState, e: int, request: Row, end_us: int, fate: int, output: Output) -> None:
    """Write the terminal row of a request and the sketch of its gaps."""
    engine = state.engines[e]
    row = output.rows[output.cursor[0]]
    output.cursor[0] += 1
    row.number = request.number
    row.arrived_us = request.arrived_us
    row.scheduled_us = request.scheduled_us
    row.first_us = request.first_us
    row.last_us = request.last_us
    row.end_us = end_us
    row.input_tokens = request.input_tokens
    row.cached_tokens = request.cached_tokens
    row.target_tokens = request.target_tokens
    row.made_tokens = request.made_tokens
    row.engine = e
    row.tenant = request.tenant
    row.fate = fate
    row.cold = request.cold
    if request.saved >= 0:
        output.scratch[:] = state.saved[request.saved]
        state.saved[request.saved, :] = 0
        state.free[0] += 1
        state.free[state.free[0]] = request.saved
    if request.state == DECODING:
        row.made_tokens += engine.step - request.segment_step
        count_gaps(state, e, request, output.scratch)
    if row.made_tokens > 1:
        write_gaps(output, row.made_tokens - 1)
    row.gap_end = output.cursor[1]
    engine.finished += 1


@njit(cache=True)
def count_gaps(state: EngineState, e: int, request: Row, histogram: npt.NDArray[np.int32]) -> None:
    size = state.steps.shape[1]
    for step in range(request.segment_step + 1, state.engines[e].step + 1):
        histogram[state.steps[e, step % size] + 1] += 1


@njit(cache=True)
def write_gaps(output: Output, left: int) -> None:
    """Move ``left`` counts from the scratch histogram to the output and leave it empty."""
    at = output.cursor[1]
    k = 0
    while left > 0 and k < BINS:
        count = output.scratch[k]
        if count > 0:
            output.keys[at] = k - 1
            output.counts[at] = count
            output.scratch[k] = 0
            left -= count
            at += 1
        k += 1
    output.cursor[1] = at


@njit(cache=True)
def bin_near(value_us: int, near: int) -> int:
    """``bin_of_one`` by walking from a bin that is likely to be close."""
    if near == 0:
        return bin_of_one(value_us)
    while BOUNDS[near] < value_us and near < BIN_MAX:
        near += 1
    while near > 0 and BOUNDS[near - 1] >= value_us:
        near -= 1
    return near


@njit(cache=True)
def bin_of_one(value_us: int) -> int:
    """``schemas.sketch.bin_of`` of one value above 0."""
    low, high = 0, BIN_MAX
    while low < high:
        middle = (low + high) // 2
        if BOUNDS[middle] < value_us:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def uniform(z: np.uint64) -> float:
    """A number in [0, 1) from a position in an engine's own stream (splitmix64)."""
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    z = z ^ (z >> _S31)
    return (z >> _S11) * (1.0 / 9007199254740992.0)
