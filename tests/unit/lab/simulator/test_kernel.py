"""The engine kernel alone: no request is lost, time may be cut anywhere, queues and caches keep their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.simulator.engine_ending import bin_near, bin_of_one
from lab.simulator.engine_kernel import JITTER, NEVER, REFUSAL_US, advance, stop_engine
from lab.simulator.engine_state import (
    CLIENT,
    DECODING,
    ENGINE,
    ENGINE_LOST,
    OOM,
    OVERLOAD,
    REQUEST,
    SAVED_MAX,
    STOP,
    TIMEOUT,
    EngineState,
    Output,
    new_output,
    new_state,
)
from schemas.sketch import BOUNDS, RELATIVE_ERROR_MAX, bin_of, value_of

OVERHEAD_US, WEIGHTS_US, CACHE_US, PROMPT_US = 1_500.0, 4_000.0, 0.05, 16.0


def engine_state(engines: int = 1, *, batch: int = 8, queue: int = 16, cache: int = 100_000) -> EngineState:
    rows = np.zeros(engines, ENGINE)
    rows["batch_max"], rows["queue_max"], rows["chunk_tokens"] = batch, queue, 512
    rows["cache_tokens_max"] = rows["cache_limit"] = cache
    rows["overhead_us"], rows["weights_us"] = OVERHEAD_US, WEIGHTS_US
    rows["cache_us_per_token"], rows["prefill_us_per_token"] = CACHE_US, PROMPT_US
    rows["slowdown"] = 1.0
    rows["next_finish"] = rows["next_deadline_us"] = NEVER
    rows["random"] = np.arange(engines)
    return new_state(rows, 2_048)


def request_rows(at_us: list[int], inputs: list[int], outputs: list[int], timeout_us: int = 10**9) -> np.ndarray:
    rows = np.zeros(len(at_us), REQUEST)
    for name in ("scheduled_us", "first_us", "last_us", "saved"):
        rows[name] = -1
    rows["number"] = np.arange(len(at_us))
    rows["arrived_us"] = at_us
    rows["deadline_us"] = rows["arrived_us"] + timeout_us
    rows["input_tokens"], rows["target_tokens"] = inputs, outputs
    return rows


def run(state: EngineState, requests: np.ndarray, cuts: list[int]) -> Output:
    """Advance one engine from cut to cut."""
    output = new_output(len(requests) + 10, 1_000_000)
    begin = 0
    for cut in cuts:
        end = int(np.searchsorted(requests["arrived_us"], cut, "left"))
        advance(state, requests[begin:end].copy(), np.array([end - begin]), cut, output)
        begin = end
    assert begin == len(requests)
    return output


def finished(output: Output) -> np.ndarray:
    return output.rows[: output.cursor[0]]


def sketches(output: Output) -> list[dict[int, int]]:
    rows = finished(output)
    begins = np.concatenate([[0], rows["gap_end"][:-1]])
    return [
        dict(zip(output.keys[a:b].tolist(), output.counts[a:b].tolist(), strict=True))
        for a, b in zip(begins, rows["gap_end"], strict=True)
    ]


workloads = st.lists(
    st.tuples(st.integers(0, 400_000), st.integers(1, 3_000), st.integers(1, 120)), min_size=1, max_size=40
).map(lambda rows: [[max(0, v) for v in column] for column in zip(*sorted(rows), strict=True)])


@settings(deadline=None, max_examples=60)
@given(workloads, st.lists(st.integers(1, 2_000_000), max_size=6), st.sampled_from([3_200, 5_000, 100_000]))
def test_time_may_be_cut_anywhere(workload: list[list[int]], cuts: list[int], cache: int) -> None:
    """Running to the end in one go or in pieces gives the same rows, sketches and random numbers."""
    requests = request_rows(*workload)
    end = 60_000_000
    whole_state, parts_state = engine_state(cache=cache), engine_state(cache=cache)

    whole = run(whole_state, requests, [end])
    parts = run(parts_state, requests, [*sorted(cuts), end])

    assert finished(whole).tobytes() == finished(parts).tobytes()
    assert sketches(whole) == sketches(parts)
    assert whole_state.engines["random"] == parts_state.engines["random"]


@settings(deadline=None, max_examples=100)
@given(workloads, st.sampled_from([3_200, 4_000, 100_000]), st.sampled_from([200_000, 3_000_000, 10**9]))
def test_every_request_ends_once_and_everything_is_given_back(
    workload: list[list[int]], cache: int, timeout_us: int
) -> None:
    """Each number comes out once with ordered times and n - 1 gaps; cache, slots, queue and saved rows end empty."""
    requests = request_rows(*workload, timeout_us=timeout_us)
    state = engine_state(cache=cache)

    output = run(state, requests, [600_000_000])

    rows = finished(output)
    assert sorted(rows["number"].tolist()) == list(range(len(requests)))
    began, spoke = rows["scheduled_us"] >= 0, rows["first_us"] >= 0
    assert (rows["scheduled_us"][began] >= rows["arrived_us"][began]).all()
    assert (rows["first_us"][spoke] > rows["scheduled_us"][spoke]).all()
    assert (rows["last_us"][spoke] >= rows["first_us"][spoke]).all()
    assert (rows["end_us"][spoke] >= rows["last_us"][spoke]).all()
    assert (spoke == (rows["made_tokens"] > 0)).all()
    for row, sketch in zip(rows, sketches(output), strict=True):
        assert sum(sketch.values()) == max(row["made_tokens"] - 1, 0)
        decode_us = row["last_us"] - row["first_us"] if row["first_us"] >= 0 else 0
        in_sketch = sum(value_of(bin_) * count for bin_, count in sketch.items())
        assert abs(in_sketch - decode_us) <= RELATIVE_ERROR_MAX * decode_us + 1e-6
    stopped = rows["fate"] == STOP
    assert (rows["made_tokens"][stopped] == rows["target_tokens"][stopped]).all()
    engine = state.engines[0]
    assert [engine[name] for name in ("active", "decoding", "queued", "cache_tokens", "step_end_us")] == [0] * 5
    assert state.free[0] == SAVED_MAX
    assert not state.saved.any()
    assert engine["made_tokens"] == rows["made_tokens"].sum()
    assert engine["prompt_tokens"] == rows["input_tokens"][began].sum()
    assert engine["finished"] == len(requests)


def test_a_small_cache_makes_preemptions_and_loses_nothing() -> None:
    """Requests that outgrow the cache together are thrown out, come back, and make all their tokens."""
    state = engine_state(cache=2_000)
    requests = request_rows([0] * 6, [250] * 6, [300] * 6)

    output = run(state, requests, [60_000_000])

    assert state.engines["preemptions"][0] > 0
    assert finished(output)["made_tokens"].tolist() == [300] * 6
    assert set(finished(output)["fate"].tolist()) == {STOP}


def test_a_lone_request_costs_what_the_model_says() -> None:
    """Its prompt and each token take the formula's time, give or take the jitter."""
    output = run(engine_state(), request_rows([0], [400], [101]), [60_000_000])

    (row,) = finished(output)
    prompt_us = OVERHEAD_US + WEIGHTS_US + 400 * CACHE_US + 400 * PROMPT_US
    token_us = OVERHEAD_US + WEIGHTS_US + 451 * CACHE_US + PROMPT_US  # mean context of 401 to 500 tokens
    assert row["first_us"] == pytest.approx(prompt_us, rel=JITTER)
    assert (row["last_us"] - row["first_us"]) / 100 == pytest.approx(token_us, rel=JITTER)


def test_a_full_queue_refuses() -> None:
    """Of 30 requests at once 16 fit the queue; the others are refused a millisecond later."""
    output = run(engine_state(), request_rows([5] * 30, [100] * 30, [5] * 30), [60_000_000])

    rows = finished(output)
    refused = rows[rows["fate"] == OVERLOAD]
    assert len(refused) == 30 - 16
    assert set((refused["end_us"] - refused["arrived_us"]).tolist()) == {REFUSAL_US}
    assert set(refused["scheduled_us"].tolist()) == {-1}


def test_patience_ends_in_the_queue_and_in_the_batch() -> None:
    """A waiting request times out at its deadline to the microsecond, a running one at the end of its step."""
    output = run(engine_state(batch=1), request_rows([0, 1], [100, 100], [1_000, 5], 1_000_000), [60_000_000])

    rows = {int(row["number"]): row for row in finished(output)}
    step_us = (OVERHEAD_US + WEIGHTS_US + 1_100 * CACHE_US + PROMPT_US) * (1 + JITTER)
    assert rows[0]["fate"] == rows[1]["fate"] == TIMEOUT
    assert 1_000_000 <= rows[0]["end_us"] <= 1_000_000 + step_us
    assert rows[0]["made_tokens"] > 100
    assert (rows[1]["end_us"], rows[1]["scheduled_us"]) == (1_000_001, -1)


def test_a_request_that_can_never_fit_is_the_clients_fault() -> None:
    """Longer than the whole cache: refused at once with a client error."""
    output = run(engine_state(cache=1_000), request_rows([0], [990], [11]), [1_000_000])

    assert finished(output)["fate"].tolist() == [CLIENT]


def test_a_cache_that_shrinks_under_a_request_ends_it_out_of_memory() -> None:
    """When even one request does not fit any more, it ends with oom instead of waiting for ever."""
    state = engine_state(cache=1_000)
    requests = request_rows([0], [500], [400])
    output = new_output(4, 10_000)
    advance(state, requests.copy(), np.array([1]), 100_000, output)
    state.engines["cache_limit"] = 300

    advance(state, requests[:0], np.array([0]), 10_000_000, output)

    assert finished(output)["fate"].tolist() == [OOM]
    assert state.engines["cache_tokens"][0] == 0


def test_a_stopped_engine_fails_all_it_holds_and_starts_clean() -> None:
    """Running and waiting requests end with ``engine_lost`` at that moment; the next request runs as on a new one."""
    state = engine_state(batch=2)
    requests = request_rows([0, 0, 0, 0], [300] * 4, [500] * 4)
    output = new_output(8, 100_000)
    advance(state, requests.copy(), np.array([4]), 200_000, output)
    assert (state.slots[0]["state"][:2] == DECODING).all()

    stop_engine(state, 0, output)
    after = request_rows([200_500], [300], [20])
    after["number"] = 4
    advance(state, after, np.array([1]), 60_000_000, output)

    rows = {int(row["number"]): row for row in finished(output)}
    assert [int(rows[number]["fate"]) for number in range(5)] == [ENGINE_LOST] * 4 + [STOP]
    assert {int(rows[number]["end_us"]) for number in range(4)} == {200_000}
    assert rows[4]["made_tokens"] == 20
    assert state.engines["cache_tokens"][0] == 0


def test_cold_requests_wait_for_the_model() -> None:
    """Nothing is scheduled before the model is loaded, and who came before is marked cold."""
    state = engine_state()
    state.engines["loaded_us"] = 3_000_000
    output = run(state, request_rows([10, 4_000_000], [50, 50], [5, 5]), [60_000_000])

    rows = {int(row["number"]): row for row in finished(output)}
    assert rows[0]["scheduled_us"] == 3_000_000
    assert [int(rows[number]["cold"]) for number in (0, 1)] == [1, 0]


def test_bins_of_the_kernel_are_those_of_the_schema() -> None:
    """Compiled and vectorised bin search agree on and around every bound, from any bin near or far."""
    values = np.unique(np.concatenate([BOUNDS + shift for shift in (-1, 0, 1)]))
    values = values[(values > 0) & (values <= BOUNDS[-1])]

    expected = bin_of(values).tolist()

    assert [bin_of_one(value) for value in values] == expected
    assert [bin_near(value, 1 + index % 1_000) for index, value in enumerate(values)] == expected


def test_littles_law_holds_for_every_stretch_that_begins_and_ends_empty() -> None:
    """Requests seen at regular glances x time between glances = sum of their stays, within one glance a request."""
    random = np.random.default_rng(5)
    at_us = np.sort(random.integers(0, 20_000_000, 600))
    requests = request_rows(
        at_us.tolist(), random.integers(1, 2_000, 600).tolist(), random.integers(1, 200, 600).tolist()
    )
    state = engine_state(queue=600)
    output = new_output(600, 1_000_000)
    glance_us, seen, begin = 10_000, 0, 0
    for cut in range(glance_us, 60_000_000, glance_us):
        end = int(np.searchsorted(at_us, cut, "left"))
        advance(state, requests[begin:end].copy(), np.array([end - begin]), cut, output)
        begin = end
        seen += int(state.engines["active"][0] + state.engines["queued"][0])

    rows = finished(output)
    stays_us = int((rows["end_us"] - rows["arrived_us"]).sum())
    assert len(rows) == 600
    assert abs(seen * glance_us - stays_us) <= 600 * glance_us
    assert stays_us > 10 * 600 * glance_us
