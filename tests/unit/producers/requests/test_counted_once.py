"""Which reports are of one request, and what they add to each other."""

from __future__ import annotations

from typing import Any

import pytest

from producers.requests.counted_once import PLUGIN, PROXY, SDK, common_id, lacking


@pytest.mark.parametrize(
    ("request_id", "reported_by", "name"),
    [
        ("a-1", PROXY, "a-1"),
        ("chatcmpl-a", PROXY, "chatcmpl-a"),
        ("chatcmpl-a-1", PLUGIN, "a-1"),
        ("2_chatcmpl-a-1", PLUGIN, "a-1"),
        ("cmpl-a-1-0", PLUGIN, "a-1"),
        ("3_cmpl-a-1-12", PLUGIN, "a-1"),
        ("cmpl-a", PLUGIN, "a"),
        ("a-1", PLUGIN, "a-1"),
        ("embd-a-1-0", PLUGIN, "a-1"),
        ("embd-a-1-31", PLUGIN, "a-1"),
        ("score-a-0", PLUGIN, "a"),
        ("classify-a-0", PLUGIN, "a"),
        ("pooling-a-2", PLUGIN, "a"),
        ("transcribe-a-1", PLUGIN, "a-1"),
        ("translate-a", PLUGIN, "a"),
        ("generate-tokens-a-1", PLUGIN, "a-1"),
        ("resp_a_0", PLUGIN, "resp_a"),
        ("2_resp_a_11", PLUGIN, "resp_a"),
        ("resp_a", SDK, "resp_a"),
        ("resp_a.b_0", PLUGIN, "resp_a.b"),
        ("mine_0", PLUGIN, "mine"),
        ("1_mine_0", PLUGIN, "mine"),
        ("mine_0", SDK, "mine_0"),
        ("embd-a-1", SDK, "a-1"),
        ("7_a", PLUGIN, "7_a"),
        ("chatcmpl-chatcmpl-a", PLUGIN, "chatcmpl-a"),
        ("chatcmpl-a-1", SDK, "a-1"),
        ("cmpl-a-1", SDK, "a-1"),
        ("2_chatcmpl-a", SDK, "2_chatcmpl-a"),
        ("a-1", SDK, "a-1"),
    ],
)
def test_what_an_engine_puts_around_an_id_is_taken_off(request_id: str, reported_by: str, name: str) -> None:
    """vLLM's prefixes of its APIs and its numbers of prompts and choices; a client's own numbers stay."""
    assert common_id(request_id, reported_by) == name


PLUGINS: dict[str, Any] = {
    "queue_us": 5,
    "prefill_us": 6,
    "decode_us": 7,
    "input_tokens": 8,
    "cached_tokens": 0,
    "output_tokens": 9,
    "tokens_from": "engine",
    "ttft_us": 10,
    "e2e_us": 11,
    "status": "ok",
    "precision": "bf16",
    "model_version": None,
}
PHASES = {"queue_us": 5, "prefill_us": 6, "decode_us": 7, "cached_tokens": 0, "precision": "bf16"}


def test_a_row_gets_what_it_lacks_and_keeps_what_it_knows() -> None:
    """Never latencies, which are of other moments; 0 is known."""
    row = {"input_tokens": 3, "output_tokens": 4, "tokens_from": "engine", "model_version": "r", "choices": 1}

    assert lacking(row, PLUGINS) == PHASES
    assert lacking(PHASES | row, PLUGINS) == {}


def test_tokens_that_were_counted_yield_to_those_of_the_engine() -> None:
    """With who counted them; not to another count."""
    row = {"input_tokens": 3, "output_tokens": 4, "tokens_from": "counted"}

    assert lacking(row, PLUGINS) == PHASES | {"output_tokens": 9, "tokens_from": "engine"}
    assert lacking(row, PLUGINS | {"tokens_from": "counted"}) == PHASES


def test_of_several_choices_a_report_has_one() -> None:
    """So that only what all share is taken."""
    assert lacking({"choices": 3}, PLUGINS) == {"precision": "bf16"}


@pytest.mark.parametrize("choices", ["2", 2.5, [2], True, None], ids=str)
def test_choices_that_are_no_number_are_one(choices: object) -> None:
    """What a client sends is of any type; its event is rejected later, with its reason."""
    row = {"choices": choices, "input_tokens": 3, "output_tokens": 4, "tokens_from": "engine", "model_version": "r"}

    assert lacking(row, PLUGINS) == PHASES


def test_what_does_not_fit_its_field_costs_no_row() -> None:
    """A client's mistake stays its own."""
    unfit = {"queue_us": "5", "prefill_us": -1, "decode_us": 2**40, "cached_tokens": True, "tenant": 7, "precision": ""}

    assert lacking({}, unfit | {"output_tokens": 2.5, "tokens_from": "engine", "engine_id": "e" * 1_000}) == {}
