from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.differences import INTERVAL_MS_MAX, bounds, within
from producers.engines.reading import Reading, read
from producers.engines.rows import SERIES_MAX, Known, engine_rows, restart
from producers.exposition import parse
from schemas.codec.build import block_from_rows
from schemas.events.event_types import ENGINE_SAMPLES

SCRAPES = Path(__file__).resolve().parents[4] / "tests" / "data" / "engine_scrapes"


def reading_of(name: str) -> Reading:
    scrape = parse((SCRAPES / name).read_text())
    assert scrape.bad == ()
    return read(scrape.samples)


LEVELS: dict[str, list[dict[str, Any]]] = {
    "vllm-0.32.0_cpu_after_1_request.prom": [
        {"model": "tiny", "model_version": None, "engine_kind": "vllm", "running": 0, "waiting": 0, "kv_used_ppm": 0}
    ],
    "vllm-0.32.0_cpu_after_bench60_aiperf80.prom": [
        {"model": "tiny", "model_version": None, "engine_kind": "vllm", "running": 0, "waiting": 0, "kv_used_ppm": 0}
    ],
    "vllm_L4_kops_qwen2.5-0.5b.prom": [
        {
            "model": "Qwen/Qwen2.5-0.5B-Instruct",
            "model_version": None,
            "engine_kind": "vllm",
            "running": 0,
            "waiting": 0,
            "kv_used_ppm": 0,
        }
    ],
    "llama-server_after_aiperf40.prom": [
        {"model": None, "model_version": None, "engine_kind": "llamacpp", "running": 0, "waiting": 0}
    ],
    "written/vllm-0.5_old_names.prom": [
        {
            "model": "facebook/opt-125m",
            "model_version": None,
            "engine_kind": "vllm",
            "running": 3,
            "waiting": 2,
            "kv_used_ppm": 437_500,
        }
    ],
    "written/vllm-0.9_both_names_two_engines.prom": [
        {
            "model": "served",
            "model_version": None,
            "engine_kind": "vllm",
            "running": 6,
            "waiting": 1,
            "kv_used_ppm": 375_000,
        }
    ],
    "written/sglang-0.4_documented.prom": [
        {
            "model": "meta-llama/Llama-3.1-8B-Instruct",
            "model_version": None,
            "engine_kind": "sglang",
            "running": 162,
            "waiting": 2826,
            "kv_used_ppm": 280_000,
        }
    ],
    "written/sglang-0.5_ranks_and_priorities.prom": [
        {
            "model": "Qwen/Qwen3-32B",
            "model_version": None,
            "engine_kind": "sglang",
            "running": 9,
            "waiting": 1,
            "kv_used_ppm": 200_000,
        }
    ],
    "written/tgi-3.prom": [{"model": None, "model_version": None, "engine_kind": "tgi", "running": 12, "waiting": 4}],
    "written/trtllm-serve-1.prom": [
        {
            "model": "llama-8b",
            "model_version": None,
            "engine_kind": "trtllm",
            "running": 16,
            "waiting": 3,
            "kv_used_ppm": 620_000,
        }
    ],
    "written/triton-trtllm_two_models.prom": [
        {
            "model": "tensorrt_llm",
            "model_version": "1",
            "engine_kind": "triton",
            "running": 9,
            "waiting": 2,
            "kv_used_ppm": 400_000,
        },
        {"model": "draft", "model_version": "3", "engine_kind": "triton", "running": 1, "waiting": 0},
    ],
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_first_scrape_has_levels_only(name: str) -> None:
    """Every file of the set, as the rows it makes."""
    rows, _ = engine_rows(None, reading_of(name), 7, 0)

    assert rows == [{"at_ms": 7} | row for row in LEVELS[name]]


COUNTED: dict[str, list[dict[str, int]]] = {
    "vllm-0.32.0_cpu_after_1_request.prom": [
        {
            "preemptions": 0,
            "prompt_tokens": 9,
            "prefix_hit_tokens": 0,
            "generation_tokens": 4,
            "finished_requests": 1,
        }
    ],
    "vllm-0.32.0_cpu_after_bench60_aiperf80.prom": [
        {
            "preemptions": 0,
            "prompt_tokens": 18_901,
            "prefix_hit_tokens": 0,
            "generation_tokens": 5_604,
            "finished_requests": 141,
        }
    ],
    "vllm_L4_kops_qwen2.5-0.5b.prom": [
        {
            "preemptions": 0,
            "prompt_tokens": 0,
            "prefix_hit_tokens": 0,
            "generation_tokens": 0,
            "finished_requests": 0,
        }
    ],
    "llama-server_after_aiperf40.prom": [
        {"prompt_tokens": 4_208 + 88, "prefix_hit_tokens": 88, "generation_tokens": 1_565}
    ],
    "written/vllm-0.5_old_names.prom": [
        {"preemptions": 5, "prompt_tokens": 12_345, "generation_tokens": 6_789, "finished_requests": 52}
    ],
    "written/vllm-0.9_both_names_two_engines.prom": [
        {
            "preemptions": 7,
            "prompt_tokens": 1_800,
            "prefix_hit_tokens": 400,
            "generation_tokens": 150,
            "finished_requests": 16,
        }
    ],
    "written/sglang-0.4_documented.prom": [{"prompt_tokens": 8_128_902, "generation_tokens": 7_557_572}],
    "written/sglang-0.5_ranks_and_priorities.prom": [
        {
            "preemptions": 3,
            "prompt_tokens": 8_130_000,
            "prefix_hit_tokens": 61_000,
            "generation_tokens": 7_558_000,
            "finished_requests": 11_008,
        }
    ],
    "written/tgi-3.prom": [{"prompt_tokens": 81_234, "generation_tokens": 30_567, "finished_requests": 153}],
    "written/trtllm-serve-1.prom": [
        {
            "prompt_tokens": 51_200,
            "prefix_hit_tokens": 25_600,
            "generation_tokens": 12_800,
            "finished_requests": 100,
        }
    ],
    "written/triton-trtllm_two_models.prom": [
        {"prompt_tokens": 20_000, "generation_tokens": 4_000, "finished_requests": 43},
        {"finished_requests": 7},
    ],
}


@pytest.mark.parametrize("name", LEVELS)
def test_a_scrape_of_a_process_that_had_counted_nothing_has_all_it_counted(name: str) -> None:
    """Every file of the set, whole rows with levels and differences."""
    now = reading_of(name)
    idle = Known(0, now.kind, now.started_at_s, {}, whole=True)
    rows, _ = engine_rows(idle, now, 7_000, 1_000)

    assert rows == [
        {"at_ms": 7_000, "interval_ms": 1_000} | levels | counted
        for levels, counted in zip(LEVELS[name], COUNTED[name], strict=True)
    ]


def test_every_file_is_read() -> None:
    """No scrape lies there unused."""
    assert {str(path.relative_to(SCRAPES)) for path in SCRAPES.rglob("*.prom")} == set(LEVELS)


def test_differences_of_the_two_vllm_scrapes_are_those_of_the_load_between_them() -> None:
    """140 requests: 60 of vllm bench serve and 80 of aiperf, each of 40 tokens."""
    _, known = engine_rows(None, reading_of("vllm-0.32.0_cpu_after_1_request.prom"), 1_000, 0)
    rows, _ = engine_rows(known, reading_of("vllm-0.32.0_cpu_after_bench60_aiperf80.prom"), 7_000, 6_000)

    assert rows == [
        LEVELS["vllm-0.32.0_cpu_after_1_request.prom"][0]
        | {
            "at_ms": 7_000,
            "interval_ms": 6_000,
            "preemptions": 0,
            "prompt_tokens": 18_901 - 9,
            "prefix_hit_tokens": 0,
            "generation_tokens": 5_604 - 4,
            "finished_requests": 141 - 1,
        }
    ]


# Two readings


def reading(
    *, started_at_s: float | None = None, whole: bool = True, kind: str = "vllm", **totals: dict[str, int | None]
) -> Reading:
    """Of one model; fields by name, each with its series."""
    return Reading(kind, started_at_s, {("m", None): totals}, {}, whole)


def grown(before: Reading, now: Reading, interval_ms: int = 1_000) -> dict[str, Any]:
    """The differences alone."""
    _, known = engine_rows(None, before, 0, 5_000)
    rows, _ = engine_rows(known, now, NOON_MS + interval_ms, 5_000 + interval_ms)
    return {name: value for name, value in rows[-1].items() if name not in NAMED}


NOON_MS = 12 * 3_600_000
NAMED = ("at_ms", "model", "model_version", "engine_kind")
COUNTERS = [
    "prompt_tokens",
    "generation_tokens",
    "finished_requests",
    "prefix_hit_tokens",
    "preemptions",
]


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_becomes_what_was_counted_since(name: str) -> None:
    """Over the series of the row, together with the time."""
    before = reading(**{name: {"a": 10, "b": 5}})
    now = reading(**{name: {"a": 13, "b": 9}})

    assert grown(before, now) == {"interval_ms": 1_000, name: 7}


def test_nothing_counted_is_zero_and_nothing_reported_is_unknown() -> None:
    """A rate over no requests is somebody else's question."""
    assert grown(reading(prompt_tokens={"a": 4}), reading(prompt_tokens={"a": 4}))["prompt_tokens"] == 0
    assert grown(reading(running={"a": 4}), reading(running={"a": 4})) == {"interval_ms": 1_000, "running": 4}


def test_a_new_series_of_a_known_process_began_at_zero() -> None:
    """Clients make a labelled series when it is first counted."""
    assert grown(reading(finished_requests={"stop": 8}), reading(finished_requests={"stop": 9, "abort": 2})) == {
        "interval_ms": 1_000,
        "finished_requests": 3,
    }


def test_a_new_series_after_unreadable_lines_begins_now() -> None:
    """Its line may have been one of them: a difference from zero could be all it ever counted."""
    before = reading(finished_requests={"stop": 8}, prompt_tokens={"": 1}, whole=False)
    now = reading(finished_requests={"stop": 9, "abort": 20_000}, prompt_tokens={"": 3})

    assert grown(before, now) == {"interval_ms": 1_000, "finished_requests": None, "prompt_tokens": 2}


def test_a_series_that_was_unreadable_from_the_start_begins_with_its_first_value() -> None:
    """It was there, so it did not begin at zero."""
    assert grown(reading(prompt_tokens={"": None}), reading(prompt_tokens={"": 20_000})) == {
        "interval_ms": 1_000,
        "prompt_tokens": None,
    }


def test_a_series_that_is_missing_or_unreadable_for_a_while_is_caught_up_with() -> None:
    """Its field is unknown meanwhile, and nothing is counted twice or lost."""
    values: list[dict[str, int | None]] = [{"a": 1, "b": 10}, {"a": 2, "b": None}, {"a": 3}, {"a": 4, "b": 16}]
    known, got = None, []
    for at, value in enumerate(values):
        rows, known = engine_rows(known, reading(prompt_tokens=value), 1_000 * at, 1_000 * at)
        got.append(rows[0].get("prompt_tokens", "none"))

    assert got == ["none", None, 1, 7]


def test_a_new_start_time_counts_from_zero_even_where_counters_are_higher() -> None:
    """The process of before has ended; what it counted last is lost, not taken off."""
    before = reading(started_at_s=100.0, prompt_tokens={"": 10}, generation_tokens={"": 50})
    now = reading(started_at_s=200.0, prompt_tokens={"": 30}, generation_tokens={"": 2})

    assert grown(before, now) == {"interval_ms": 1_000, "prompt_tokens": 30, "generation_tokens": 2}


def test_without_a_start_time_one_counter_that_fell_tells_of_a_restart() -> None:
    """Then the others began again too, whether they fell or not."""
    before = reading(prompt_tokens={"": 10}, generation_tokens={"": 50})
    now = reading(prompt_tokens={"": 30}, generation_tokens={"": 2})

    assert grown(before, now) == {"interval_ms": 1_000, "prompt_tokens": 30, "generation_tokens": 2}


def test_without_a_start_time_a_model_that_was_loaded_anew_began_again_alone() -> None:
    """The others of the engine go on: what they counted in all is no growth of a second. What is new began at 0."""
    of_models = {("a", None): (5_000_000, 300), ("b", None): (7_000_000_000, 7_000_000_500), ("c", None): (None, 9)}
    before, now = (
        Reading("triton", None, {name: {"prompt_tokens": {"": ends[place]}} for name, ends in of_models.items()
                                 if ends[place] is not None}, {})
        for place in (0, 1)
    )  # fmt: skip
    _, known = engine_rows(None, before, 0, 0)
    rows, known = engine_rows(known, now, 1_000, 1_000)

    assert [(row["model"], row["prompt_tokens"]) for row in rows] == [("a", 300), ("b", 500), ("c", 9)]
    assert restart(known, now) is False


def test_a_start_time_that_is_missing_once_is_remembered() -> None:
    """The restart after it is seen still."""
    _, known = engine_rows(None, reading(started_at_s=1.0, prompt_tokens={"": 10}), 0, 0)
    _, known = engine_rows(known, reading(prompt_tokens={"": 12}), 1_000, 1_000)
    rows, _ = engine_rows(known, reading(started_at_s=2.0, prompt_tokens={"": 30}), 2_000, 2_000)

    assert rows[0]["prompt_tokens"] == 30


def test_with_the_same_start_time_a_counter_that_fell_began_again_alone() -> None:
    """One of several processes behind the page did."""
    before = reading(started_at_s=100.0, prompt_tokens={"": 10}, generation_tokens={"": 50})
    now = reading(started_at_s=100.0, prompt_tokens={"": 30}, generation_tokens={"": 2})

    assert grown(before, now) == {"interval_ms": 1_000, "prompt_tokens": 20, "generation_tokens": 2}


def test_nothing_of_the_process_before_is_kept_after_a_restart() -> None:
    """A series that comes back later is the new process' own."""
    _, known = engine_rows(None, reading(started_at_s=1.0, prompt_tokens={"a": 10, "b": 10}), 0, 0)
    _, known = engine_rows(known, reading(started_at_s=2.0, prompt_tokens={"a": 1}), 1_000, 1_000)
    rows, _ = engine_rows(known, reading(started_at_s=2.0, prompt_tokens={"a": 1, "b": 12}), 2_000, 2_000)

    assert rows[0]["prompt_tokens"] == 12


def test_another_engine_at_the_address_is_a_restart() -> None:
    """Nothing of theirs is comparable."""
    assert grown(reading(prompt_tokens={"": 10}), reading(kind="sglang", prompt_tokens={"": 12}))["prompt_tokens"] == 12


def test_a_gap_is_split_by_window() -> None:
    """After 25 s: what was counted by the time in each window; levels are those of now."""
    before = reading(running={"": 1}, prompt_tokens={"": 0}, generation_tokens={"": 5})
    now = reading(running={"": 2}, prompt_tokens={"": 101}, generation_tokens={"": None})
    _, known = engine_rows(None, before, 5_000, 0)
    rows, _ = engine_rows(known, now, 30_000, 25_000)
    named = {"model": "m", "model_version": None, "engine_kind": "vllm", "generation_tokens": None}

    assert rows == [
        named | {"at_ms": 9_999, "interval_ms": 5_000, "prompt_tokens": 20},
        named | {"at_ms": 19_999, "interval_ms": 10_000, "prompt_tokens": 40},
        named | {"at_ms": 30_000, "interval_ms": 10_000, "prompt_tokens": 41, "running": 2},
    ]


@pytest.mark.parametrize("interval_ms", [0, -1, INTERVAL_MS_MAX + 1], ids=["no time", "backwards", "too long"])
def test_readings_too_near_or_too_far_have_levels_only(interval_ms: int) -> None:
    """They would belong to no window."""
    before = reading(running={"": 1}, prompt_tokens={"": 10})

    assert grown(before, reading(running={"": 2}, prompt_tokens={"": 11}), interval_ms) == {"running": 2}
    assert "prompt_tokens" in grown(before, reading(running={"": 2}, prompt_tokens={"": 11}), INTERVAL_MS_MAX)


def test_shares_of_pools_are_averaged_and_levels_added() -> None:
    """An unreadable part makes the whole unknown."""
    both = reading(kv_used_ppm={"0": 100_000, "1": 300_001}, running={"0": 1, "1": 2}, waiting={"0": 1, "1": None})
    rows, _ = engine_rows(None, both, 7, 0)

    assert rows == [
        {
            "at_ms": 7,
            "model": "m",
            "model_version": None,
            "engine_kind": "vllm",
            "kv_used_ppm": 200_000,
            "running": 3,
            "waiting": None,
        }
    ]


def test_too_many_series_are_forgotten_and_not_counted_from_zero() -> None:
    """Memory has a limit; an engine with endless label values is followed by its current series."""
    many = {str(at): 1 for at in range(SERIES_MAX)}
    _, known = engine_rows(None, reading(started_at_s=1.0, prompt_tokens=dict(many)), 0, 0)
    _, known = engine_rows(known, reading(started_at_s=1.0, prompt_tokens={"new": 5}), 1_000, 1_000)
    rows, known = engine_rows(known, reading(started_at_s=1.0, prompt_tokens={"new": 6, "0": 9}), 2_000, 2_000)

    assert len(known.totals) == 2
    assert rows[0]["prompt_tokens"] is None


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 1_000), min_size=2, max_size=2)),
        min_size=2,
        max_size=12,
    )
)
def test_differences_of_any_life_add_up_to_what_was_seen(steps: list[tuple[bool, list[int]]]) -> None:
    """Restarts included: the sum is what every process had counted when last seen, less the first reading."""
    totals, started, seen, got, known = [0, 0], 1.0, 0, 0, None
    first = 0
    for at, (restarts, added) in enumerate(steps):
        if restarts and at:
            seen, totals, started = seen + sum(totals), [0, 0], started + 1
        totals = [total + more for total, more in zip(totals, added, strict=True)]
        now = reading(started_at_s=started, prompt_tokens={"a": totals[0], "b": totals[1]})
        rows, known = engine_rows(known, now, 4_000 * at, 4_000 * at)
        first = sum(totals) if not at else first
        got += sum(row.get("prompt_tokens") or 0 for row in rows)

    assert got == seen + sum(totals) - first


@pytest.mark.parametrize("name", LEVELS)
def test_the_rows_of_every_file_fit_the_event(name: str) -> None:
    """Encoded as they would travel, with all that a row has."""
    _, known = engine_rows(None, reading_of(name), 0, 0)
    rows, _ = engine_rows(known, reading_of(name), 1_000, 1_000)
    whole = [row | {"host": "h", "origin": "measured"} for row in rows]

    assert all(within(bounds(ENGINE_SAMPLES), row)[1] == [] for row in whole)
    assert block_from_rows(ENGINE_SAMPLES.fields, whole).rows == len(rows)


@pytest.mark.parametrize(
    ("counted", "served"),
    [
        ({"finished_requests": {"a": 0}, "generation_tokens": {"a": 0}}, False),
        ({"finished_requests": {"a": 0, "b": 1}}, True),
        ({"generation_tokens": {"a": 4}}, True),
        ({"prompt_tokens": {"a": 0}}, True),
    ],
)
def test_an_engine_that_has_counted_nothing_has_not_served(counted: dict[str, dict[str, int]], served: bool) -> None:
    """One that counts neither requests nor tokens is not called cold."""
    _, known = engine_rows(None, reading(started_at_s=1.0, **counted), 0, 0)

    assert known.has_served is served
