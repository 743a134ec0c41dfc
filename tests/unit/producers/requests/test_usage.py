from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.requests import reasons
from producers.requests.chunk import EngineTimes, Usage
from producers.requests.usage import (
    contradictions,
    drafts_of,
    engine_times_of,
    newer,
    usage_of,
    usage_of_timings,
    whole_usage,
)

CHAT = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 64, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 20, "accepted_prediction_tokens": 5},
}


@pytest.mark.parametrize(
    ("timings", "usage"),
    [
        ({"prompt_n": 1, "cache_n": 254, "predicted_n": 6}, Usage(255, 254, 6)),
        ({"prompt_n": 9, "predicted_n": 6}, Usage(None, None, 6)),
        ({"prompt_n": True, "cache_n": -1, "predicted_n": 1.5}, None),
        ({"prompt_ms": 1.5}, None),
        ([1], None),
    ],
    ids=["all", "an older build", "no counts", "times alone", "no object"],
)
def test_tokens_of_timings(timings: object, usage: Usage | None) -> None:
    """The prompt is what was processed and what came from the cache; unknown where a build says one of them alone."""
    assert usage_of_timings({"timings": timings}) == usage


@pytest.mark.parametrize(
    ("reported", "usage", "problems"),
    [
        pytest.param(None, None, (), id="nothing reported"),
        pytest.param(CHAT, Usage(100, 64, 50, 20, 5), (), id="chat"),
        pytest.param(
            {
                "input_tokens": 7,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(7, 0, 9, 3),
            (),
            id="responses",
        ),
        pytest.param(
            {
                "prompt_tokens": 32,
                "completion_tokens": 9,
                "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94},
            },
            Usage(32, None, 103, 94),
            (),
            id="xAI, reasoning beside the output",
        ),
        pytest.param(
            {"prompt_tokens": 3, "total_tokens": 8, "completion_tokens_details": {"reasoning_tokens": 5}},
            Usage(3, None, 5, 5),
            (),
            id="reasoning alone, cut by its limit",
        ),
        pytest.param({"prompt_tokens": 7, "total_tokens": 7}, Usage(7), (), id="embeddings"),
        pytest.param({"prompt_tokens": 7, "prompt_cache_hit_tokens": 4}, Usage(7, 4), (), id="DeepSeek"),
        pytest.param({"prompt_tokens": 7, "prompt_tokens_details": None}, Usage(7), (), id="details that are null"),
        pytest.param({}, None, (), id="empty"),
        pytest.param([1], None, (reasons.USAGE_UNREADABLE,), id="no object"),
        pytest.param(
            {"prompt_tokens": -1, "completion_tokens": 2}, Usage(output=2), ("usage_unreadable",), id="negative"
        ),
        pytest.param({"prompt_tokens": 1.5}, None, ("usage_unreadable",), id="a fraction"),
        pytest.param({"completion_tokens": True}, None, ("usage_unreadable",), id="a truth value"),
        pytest.param({"completion_tokens": "9"}, None, ("usage_unreadable",), id="a text"),
    ],
)
def test_usage_as_engines_report_it(reported: object, usage: Usage | None, problems: tuple[str, ...]) -> None:
    """Whole numbers of zero or more are taken, field by field; anything else is unknown and counted."""
    assert usage_of(reported) == (usage, problems)


@pytest.mark.parametrize(
    ("document", "times"),
    [
        pytest.param(
            {"timings": {"prompt_ms": 12.5, "predicted_ms": 300}}, EngineTimes(None, 12_500, 300_000), id="llama.cpp"
        ),
        pytest.param(
            {"usage": {"queue_time": 0.001, "prompt_time": 0.02, "completion_time": 0.3}},
            EngineTimes(1_000, 20_000, 300_000),
            id="Groq",
        ),
        pytest.param(
            {"metrics": {"queue_time_ms": 0.0448, "time_to_first_token_ms": 10.53, "generation_time_ms": 20.9}},
            EngineTimes(45, 10_530, 20_900),
            id="vLLM",
        ),
        pytest.param({"metrics": None}, None, id="vLLM, of several choices"),
        pytest.param({"timings": {"prompt_ms": float("nan"), "predicted_ms": -1}}, None, id="no times"),
        pytest.param({"timings": {"prompt_ms": True, "predicted_ms": 1e300}}, None, id="absurd"),
        pytest.param({"timings": None, "usage": {"prompt_tokens": 3}}, None, id="not reported"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_phases_as_engines_tell_them(document: dict[str, Any], times: EngineTimes | None) -> None:
    """In microseconds, whatever the engine's unit."""
    assert engine_times_of(document) == times


def test_accepted_drafts_of_vllm() -> None:
    """They stand beside its times; null where it does not speculate."""
    reported = [{"num_accepted_draft_tokens": 5}, {}, None]

    assert [drafts_of({"metrics": {"speculative_decoding": each}}) for each in reported] == [5, None, None]


def test_accepted_drafts_of_llama_cpp() -> None:
    """Only a whole number of zero or more counts."""
    reported = [{"draft_n_accepted": 7}, {"draft_n_accepted": -7}, {"draft_n_accepted": 7.0}, {}, None]

    assert [drafts_of({"timings": timings}) for timings in reported] == [7, None, None, None, None]


def test_the_last_word_on_each_field_counts() -> None:
    """A later count replaces an earlier one; a later silence does not."""
    assert newer(Usage(1, 2, 3), Usage(output=9, speculative=4)) == Usage(1, 2, 9, None, 4)


@pytest.mark.parametrize(
    ("reported", "usage"),
    [
        pytest.param({}, Usage(), id="nothing"),
        pytest.param({0: Usage(5, 1, 7)}, Usage(5, 1, 7), id="one choice"),
        pytest.param({0: Usage(5, 1, 7), 1: Usage(5, 1, 8)}, Usage(5, 1, 15), id="a prompt is counted once"),
        pytest.param({0: Usage(5, None, 7), 1: Usage(5)}, Usage(5), id="a choice without an output count"),
        pytest.param(
            {0: Usage(5, 1, 7), None: Usage(6, None, 9)}, Usage(6, 1, 9), id="the whole goes before its parts"
        ),
    ],
)
def test_usage_of_choices_adds_up(reported: dict[int | None, Usage], usage: Usage) -> None:
    """Output is added over choices, the prompt is shared."""
    assert whole_usage(reported) == usage


def test_the_prompts_of_a_request_add_up() -> None:
    """Each is counted once, with the choices that it has; of one that nothing came of yet, nothing is known."""
    reported: dict[int | None, Usage] = {0: Usage(5, 1, 7), 1: Usage(5, None, 8), 2: Usage(9, 2, 1)}

    assert whole_usage(reported, 2) == Usage(14, 3, 16)
    assert whole_usage(reported, 1) == Usage(19, 3, 16)
    assert whole_usage(reported | {None: Usage(20, 4, 30)}, 2) == Usage(20, 4, 30)


def test_choices_add_up_where_each_that_began_has_a_count() -> None:
    """Of a stream that was left after the first of them: the sum would be too low."""
    reported: dict[int | None, Usage] = {0: Usage(5, 1, 7, 2, 3)}

    assert whole_usage(reported, began=[0, 0, 1]) == Usage(5, 1)
    assert whole_usage(reported | {1: Usage(5, 1, 8, 0, 0)}, began=[0, 1]) == Usage(5, 1, 15, 2, 3)
    assert whole_usage(reported | {None: Usage(5, 1, 20)}, began=[0, 1]).output == 20


@given(st.builds(Usage, *[st.none() | st.integers(0, 3)] * 5))
def test_contradictions_are_parts_above_their_whole(usage: Usage) -> None:
    """Cached above input, reasoning or accepted drafts above output; unknown contradicts nothing."""
    expected = []
    if usage.cached is not None and usage.input is not None and usage.cached > usage.input:
        expected.append("cached")
    for name in ("reasoning", "speculative"):
        if getattr(usage, name) is not None and usage.output is not None and getattr(usage, name) > usage.output:
            expected.append(name)

    assert contradictions(usage) == expected
