"""Continuous batching, step by step, for all engines of a fleet; compiled, pure, on whole microseconds.

The model, after vLLM's scheduler: requests wait first come first served; one is admitted when a slot of the batch and
cache for its whole prompt are free. Each step spends its token budget on one token for every decoding request, the
rest on waiting prompts in order of admission. A step lasts

    (overhead + weights read + cache read + (prompt + decoding tokens) x time per token) x slowdown x (1 +- 2 %)

At its end each decoding request has one more token, and prompts that were completed have their first. When the cache
would overflow, the youngest request is thrown out, keeps what it has made, and starts again from the head of the
queue. All decoding requests share the gaps of the steps they lived through, so a ring of step lengths is all that is
kept: the sketch of a request's gaps is counted from it at the end.

Costs 100 ns per step, 1 to 2 us per request. Arguments have one type: numba compiles a loop anew for each constant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from lab.simulator.engine_ending import bin_near, bin_of_one, count_gaps, finish, uniform
from lab.simulator.engine_state import (
    CLIENT,
    DECODING,
    ENGINE_LOST,
    NO_ENGINE,
    OOM,
    OVERLOAD,
    PREFILLED,
    PREFILLING,
    TIMEOUT,
    EngineState,
    Output,
    Row,
)

REFUSAL_US = 1_000
"""How long a refusal takes."""
JITTER = 0.02
NEVER = np.int64(2**62)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The stride of splitmix64."""


@njit(cache=True)
def advance(
    state: EngineState, arrivals: npt.NDArray[np.void], ends: npt.NDArray[np.int64], until_us: int, output: Output
) -> None:
    """Let all engines run up to ``until_us``. ``arrivals[ends[e-1]:ends[e]]`` come to engine ``e``, in order of time,
    none at ``until_us`` or later. Finished requests are appended to ``output``, engine by engine."""
    begin = np.int64(0)
    for e in range(len(state.engines)):
        _run(state, e, arrivals, begin, ends[e], until_us, output)
        begin = ends[e]


@njit(cache=True)
def stop_engine(state: EngineState, e: int, output: Output) -> None:
    """End all that engine ``e`` holds with ``ENGINE_LOST``, now."""
    engine = state.engines[e]
    last_us = engine.step_begin_us if engine.step_end_us > 0 else engine.now_us
    while engine.active > 0:
        slot = state.slots[e, engine.active - 1]
        if slot.state == DECODING:
            slot.last_us = last_us
        _leave(state, e, engine.active - 1, engine.now_us, np.int16(ENGINE_LOST), output)
    while engine.queued > 0:
        finish(state, e, _pop(state, e), engine.now_us, np.int16(ENGINE_LOST), output)
    engine.step_end_us = 0
    engine.prefilled = 0


@njit(cache=True)
def _run(
    state: EngineState, e: int, arrivals: npt.NDArray[np.void], i: int, stop: int, until_us: int, output: Output
) -> None:
    engine = state.engines[e]
    while True:
        if engine.step_end_us == 0:
            while i < stop and arrivals[i].arrived_us <= engine.now_us:
                _take(state, e, arrivals[i], output)
                i += 1
            _expire(state, e, output)
            if engine.loaded_us <= engine.now_us:
                _admit(state, e, output)
            if engine.active == 0:
                wake_us = _wake(state, e)
                if i < stop:
                    wake_us = min(wake_us, arrivals[i].arrived_us)
                if wake_us >= until_us:
                    engine.now_us = until_us
                    break
                engine.now_us = max(engine.now_us, wake_us)
                continue
            if engine.active == engine.decoding:
                interrupt_us = arrivals[i].arrived_us if i < stop else NEVER
                if engine.queued > 0:
                    interrupt_us = min(interrupt_us, state.queue[e, engine.queue_head].deadline_us)
                if _plain_steps(engine, state.steps[e], interrupt_us, until_us):
                    _sweep(state, e, output)
                    continue
                if engine.now_us >= interrupt_us:
                    continue
            if engine.step_end_us == 0 and not _begin_step(state, e, output):
                continue
        if engine.step_end_us > until_us:
            _account(engine, until_us)
            break
        _account(engine, engine.step_end_us)
        _complete_step(state, e, output)
    while i < stop:
        _take(state, e, arrivals[i], output)
        i += 1


@njit(cache=True)
def _wake(state: EngineState, e: int) -> Any:
    engine = state.engines[e]
    if engine.queued == 0:
        return NEVER
    return min(engine.loaded_us, state.queue[e, engine.queue_head].deadline_us)


@njit(cache=True)
def _plain_steps(engine: Row, steps: npt.NDArray[np.int16], interrupt_us: int, until_us: int) -> bool:
    """Run steps of pure decoding, as ``_begin_step`` and ``_complete_step`` would, in one tight loop. Ends with the
    first of: a step that reaches beyond ``until_us`` (it is begun), the step that passes ``interrupt_us``, no more
    cache, or a request's last token or deadline (then True: a sweep is due)."""
    batch = engine.decoding
    compute_us = engine.prefill_us_per_token * batch
    interrupt_us = min(interrupt_us, engine.next_deadline_us)
    now_us, step, cache_tokens, random = engine.now_us, engine.step, engine.cache_tokens, engine.random
    prefill_us, memory_us = 0.0, 0.0
    bin_ = np.int64(0)
    while step < engine.next_finish and now_us < interrupt_us and cache_tokens + batch <= engine.cache_limit:
        read_us = engine.weights_us + engine.cache_us_per_token * cache_tokens
        whole_us = engine.overhead_us + read_us + compute_us
        random += GOLDEN
        duration_us = max(1, int(whole_us * engine.slowdown * (1.0 + JITTER * (2.0 * uniform(random) - 1.0))))
        if now_us + duration_us > until_us:
            _pend(engine, now_us, duration_us, compute_us / whole_us, read_us / whole_us, batch)
            break
        step += 1
        bin_ = bin_near(duration_us, bin_)
        steps[step % len(steps)] = bin_
        cache_tokens += batch
        now_us += duration_us
        prefill_us += duration_us * (compute_us / whole_us)
        memory_us += duration_us * (read_us / whole_us)
    made = batch * (step - engine.step)
    engine.busy_us += now_us - engine.now_us
    engine.prefill_us += prefill_us
    engine.memory_us += memory_us
    engine.moved_tokens += made
    engine.made_tokens += made
    engine.now_us, engine.step, engine.cache_tokens, engine.random = now_us, step, cache_tokens, random
    return step >= engine.next_finish or now_us >= engine.next_deadline_us


@njit(cache=True)
def _pend(engine: Row, begin_us: int, duration_us: int, prefill_share: float, memory_share: float, tokens: int) -> None:
    """A step is under way."""
    engine.step_begin_us = begin_us
    engine.step_end_us = begin_us + duration_us
    engine.step_prefill_share = prefill_share
    engine.step_memory_share = memory_share
    engine.step_tokens_per_us = tokens / duration_us


@njit(cache=True)
def _account(engine: Row, to_us: int) -> None:
    passed = to_us - engine.now_us
    engine.busy_us += passed
    engine.prefill_us += passed * engine.step_prefill_share
    engine.memory_us += passed * engine.step_memory_share
    engine.moved_tokens += passed * engine.step_tokens_per_us
    engine.now_us = to_us


@njit(cache=True)
def _take(state: EngineState, e: int, request: Row, output: Output) -> None:
    engine = state.engines[e]
    refused_us = request.arrived_us + REFUSAL_US
    if engine.lost > 0:
        finish(state, e, request, refused_us, np.int16(NO_ENGINE), output)
    elif request.fate == CLIENT or request.input_tokens + request.target_tokens > engine.cache_tokens_max:
        finish(state, e, request, refused_us, np.int16(CLIENT), output)
    elif engine.queued >= engine.queue_max:
        finish(state, e, request, refused_us, np.int16(OVERLOAD), output)
    else:
        request.cold = 1 if engine.loaded_us > request.arrived_us else 0
        size = state.queue.shape[1]
        state.queue[e, (engine.queue_head + engine.queued) % size] = request
        engine.queued += 1


@njit(cache=True)
def _pop(state: EngineState, e: int) -> Row:
    engine = state.engines[e]
    request = state.queue[e, engine.queue_head]
    engine.queue_head = (engine.queue_head + 1) % state.queue.shape[1]
    engine.queued -= 1
    return request


@njit(cache=True)
def _expire(state: EngineState, e: int, output: Output) -> None:
    engine = state.engines[e]
    while engine.queued > 0 and state.queue[e, engine.queue_head].deadline_us <= engine.now_us:
        request = _pop(state, e)
        finish(state, e, request, request.deadline_us, np.int16(TIMEOUT), output)


@njit(cache=True)
def _admit(state: EngineState, e: int, output: Output) -> None:
    engine = state.engines[e]
    while engine.queued > 0 and engine.active < engine.batch_max:
        request = state.queue[e, engine.queue_head]
        need = request.input_tokens + request.made_tokens
        if engine.cache_tokens + need + engine.active + 1 > engine.cache_limit:
            if engine.active > 0:
                return
            _pop(state, e)
            finish(state, e, request, engine.now_us, np.int16(OOM), output)
            continue
        _pop(state, e)
        if request.scheduled_us < 0:
            request.scheduled_us = engine.now_us
            request.prefill_left = max(1, request.input_tokens - request.cached_tokens)
            engine.prompt_tokens += request.input_tokens
            engine.hit_tokens += request.cached_tokens
        else:
            request.prefill_left = need
        request.resumed_tokens = request.made_tokens
        request.state = PREFILLING
        request.order = engine.order
        engine.order += 1
        engine.cache_tokens += need
        engine.next_deadline_us = min(engine.next_deadline_us, request.deadline_us)
        state.slots[e, engine.active] = request
        engine.active += 1


@njit(cache=True)
def _begin_step(state: EngineState, e: int, output: Output) -> bool:
    """True when a step has begun; False when nothing is left to run."""
    engine = state.engines[e]
    while engine.active > 1 and engine.cache_tokens + engine.active > engine.cache_limit:
        _preempt(state, e, output)
    if engine.cache_tokens + engine.active > engine.cache_limit:
        slot = state.slots[e, 0]
        if slot.state == DECODING:
            slot.last_us = engine.now_us
        _leave(state, e, np.int64(0), engine.now_us, np.int16(OOM), output)
        return False
    prompt = _spend_budget(state, e)
    tokens = prompt + engine.decoding
    read_us = engine.weights_us + engine.cache_us_per_token * engine.cache_tokens
    compute_us = engine.prefill_us_per_token * tokens
    whole_us = engine.overhead_us + read_us + compute_us
    engine.random += GOLDEN
    duration_us = max(1, int(whole_us * engine.slowdown * (1.0 + JITTER * (2.0 * uniform(engine.random) - 1.0))))
    _pend(engine, engine.now_us, duration_us, compute_us / whole_us, read_us / whole_us, tokens)
    return True


@njit(cache=True)
def _spend_budget(state: EngineState, e: int) -> int:
    """Give the step's budget to prompts in order of admission; returns their tokens."""
    engine = state.engines[e]
    budget = max(16, engine.chunk_tokens - engine.decoding)
    waiting = engine.active - engine.decoding
    spent = 0
    while waiting > 0 and spent < budget:
        first = -1
        for s in range(engine.active):
            slot = state.slots[e, s]
            if slot.state == PREFILLING and (first < 0 or slot.order < state.slots[e, first].order):
                first = s
        slot = state.slots[e, first]
        piece = min(slot.prefill_left, budget - spent)
        slot.prefill_left -= piece
        spent += piece
        if slot.prefill_left == 0:
            slot.state = PREFILLED
            engine.prefilled += 1
            waiting -= 1
    return spent


@njit(cache=True)
def _complete_step(state: EngineState, e: int, output: Output) -> None:
    engine = state.engines[e]
    engine.step += 1
    length_us = engine.step_end_us - engine.step_begin_us
    state.steps[e, engine.step % state.steps.shape[1]] = bin_of_one(length_us)
    engine.step_end_us = 0
    made = engine.decoding + engine.prefilled
    engine.cache_tokens += made
    engine.made_tokens += made
    if engine.prefilled > 0:
        _first_tokens(state, e)
    if engine.step >= engine.next_finish or engine.now_us >= engine.next_deadline_us:
        _sweep(state, e, output)


@njit(cache=True)
def _first_tokens(state: EngineState, e: int) -> None:
    engine = state.engines[e]
    for s in range(engine.active):
        slot = state.slots[e, s]
        if slot.state == PREFILLED:
            slot.state = DECODING
            slot.made_tokens = slot.resumed_tokens + 1
            slot.segment_step = engine.step
            slot.finish_step = engine.step + slot.target_tokens - slot.made_tokens
            engine.next_finish = min(engine.next_finish, slot.finish_step)
            if slot.first_us < 0:
                slot.first_us = engine.now_us
            else:
                state.saved[slot.saved, bin_of_one(engine.now_us - slot.last_us) + 1] += 1
    engine.decoding += engine.prefilled
    engine.prefilled = 0


@njit(cache=True)
def _sweep(state: EngineState, e: int, output: Output) -> None:
    """Let go those that are done or have lasted too long, and look for the next of either."""
    engine = state.engines[e]
    engine.next_finish = NEVER
    engine.next_deadline_us = NEVER
    for s in range(engine.active - 1, -1, -1):
        slot = state.slots[e, s]
        decoding = slot.state == DECODING
        if decoding:
            slot.last_us = engine.now_us
        if decoding and slot.finish_step <= engine.step:
            _leave(state, e, s, engine.now_us, slot.fate, output)
        elif slot.deadline_us <= engine.now_us:
            _leave(state, e, s, engine.now_us, np.int16(TIMEOUT), output)
        else:
            engine.next_deadline_us = min(engine.next_deadline_us, slot.deadline_us)
            if decoding:
                engine.next_finish = min(engine.next_finish, slot.finish_step)


@njit(cache=True)
def _preempt(state: EngineState, e: int, output: Output) -> None:
    """Throw the youngest request out of the batch, to the head of the queue."""
    engine = state.engines[e]
    youngest: Any = np.int64(0)
    for s in range(1, engine.active):
        if state.slots[e, s].order > state.slots[e, youngest].order:
            youngest = s
    slot = state.slots[e, youngest]
    engine.preemptions += 1
    if slot.state == DECODING:
        slot.last_us = engine.now_us
        if slot.saved < 0:
            if state.free[0] == 0:
                _leave(state, e, youngest, engine.now_us, np.int16(OOM), output)
                return
            slot.saved = state.free[state.free[0]]
            state.free[0] -= 1
        count_gaps(state, e, slot, state.saved[slot.saved])
        slot.made_tokens += engine.step - slot.segment_step
    engine.queue_head = (engine.queue_head - 1) % state.queue.shape[1]
    engine.queued += 1
    state.queue[e, engine.queue_head] = slot
    state.queue[e, engine.queue_head].state = 0
    _vacate(state, e, youngest, np.int64(slot.made_tokens))


@njit(cache=True)
def _leave(state: EngineState, e: int, s: int, end_us: int, fate: int, output: Output) -> None:
    """The request in slot ``s`` ends."""
    engine = state.engines[e]
    slot = state.slots[e, s]
    made = np.int64(slot.made_tokens)
    if slot.state == DECODING:
        made += engine.step - slot.segment_step
    finish(state, e, slot, end_us, fate, output)
    _vacate(state, e, s, made)


@njit(cache=True)
def _vacate(state: EngineState, e: int, s: int, made: int) -> None:
    engine = state.engines[e]
    slot = state.slots[e, s]
    engine.cache_tokens -= slot.input_tokens + made
    if slot.state == DECODING:
        engine.decoding -= 1
    engine.active -= 1
    if s != engine.active:
        state.slots[e, s] = state.slots[e, engine.active]
    state.slots[e, engine.active].state = 0
