"""List cost of single requests against published prices: by hand, and by an independent reading of the map."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_jobs.prices.list_cost import Line, ListCost, Usage, cost_of, found, list_cost
from stream_jobs.prices.list_fields import Field
from stream_jobs.prices.list_map import Model, PriceMap, Rate, read_map

MAP = Path(__file__).parents[2] / "data" / "price_map" / "model_prices.json"
NONE = "-"

# Worked out by hand from the prices per million tokens beside each group.
# model, tier | prompt, of it read from cache, written to it (5 min, 1 h) | output, of it reasoning | dollars
BY_HAND = """
# gpt-4o: 2.50 in, 1.25 cached, 10 out; batch 1.25 / 5; priority 4.25, 2.125 cached, 17 out; no flex
gpt-4o standard | 1000 0 0 0 | 500 0 | 0.0075
gpt-4o standard | 1000 400 0 0 | 100 0 | 0.003
gpt-4o standard | 1 0 0 0 | 0 0 | 0.0000025
gpt-4o standard | 0 0 0 0 | 1 0 | 0.00001
gpt-4o standard | 0 0 0 0 | 0 0 | 0
gpt-4o standard | 1 1 0 0 | 0 0 | 0.00000125
gpt-4o standard | 128000 0 0 0 | 16384 0 | 0.48384
gpt-4o standard | 1000 0 0 0 | 500 200 | 0.0075
gpt-4o standard | 1000 0 10 0 | 500 0 | -
gpt-4o batch | 1000 0 0 0 | 500 0 | 0.00375
gpt-4o batch | 1000 400 0 0 | 500 0 | -
gpt-4o priority | 1000 0 0 0 | 500 0 | 0.01275
gpt-4o priority | 1000 400 0 0 | 100 0 | 0.0051
gpt-4o flex | 1000 0 0 0 | 500 0 | -
# gpt-5: 1.25, 0.125 cached, 10; flex 0.625, 0.0625, 5; priority 2.50, 0.25, 20
gpt-5 standard | 8000 0 0 0 | 1000 0 | 0.02
gpt-5 standard | 8000 8000 0 0 | 1000 1000 | 0.011
gpt-5 flex | 8000 0 0 0 | 1000 0 | 0.01
gpt-5 flex | 8000 4000 0 0 | 1000 0 | 0.00775
gpt-5 priority | 8000 0 0 0 | 1000 0 | 0.04
gpt-5 priority | 8000 4000 0 0 | 1000 0 | 0.031
gpt-5 batch | 8000 0 0 0 | 1000 0 | -
# gpt-5-nano: 0.05, 0.005 cached, 0.40; flex 0.025, 0.0025, 0.20; priority has an input price only
gpt-5-nano standard | 1000000 0 0 0 | 0 0 | 0.05
gpt-5-nano standard | 1000000 1000000 0 0 | 1 0 | 0.0050004
gpt-5-nano flex | 3 1 0 0 | 1 0 | 0.0000002525
gpt-5-nano priority | 10 0 0 0 | 1 0 | -
gpt-5-nano priority | 10 0 0 0 | 0 0 | 0.000025
# o3: 2, 0.50 cached, 8; flex 1, 0.25, 4; priority 3.50, 0.875, 14
o3 standard | 5000 1000 0 0 | 2000 1500 | 0.0245
o3 flex | 5000 1000 0 0 | 2000 1500 | 0.01225
o3 priority | 5000 1000 0 0 | 2000 1500 | 0.042875
# claude-sonnet-4-20250514: 3, write 3.75, write for an hour 6, read 0.30, 15; above 200k: 6, 7.50, -, 0.60, 22.50
claude-sonnet-4-20250514 standard | 10000 0 0 0 | 1000 0 | 0.045
claude-sonnet-4-20250514 standard | 10000 9000 0 0 | 1000 0 | 0.0207
claude-sonnet-4-20250514 standard | 10000 0 9000 0 | 1000 0 | 0.05175
claude-sonnet-4-20250514 standard | 10000 0 0 9000 | 1000 0 | 0.072
claude-sonnet-4-20250514 standard | 10000 3000 3000 3000 | 1000 0 | 0.04815
claude-sonnet-4-20250514 standard | 200000 0 0 0 | 1000 0 | 0.615
claude-sonnet-4-20250514 standard | 200001 0 0 0 | 1000 0 | 1.222506
claude-sonnet-4-20250514 standard | 200001 100001 0 0 | 1000 0 | 0.6825006
claude-sonnet-4-20250514 standard | 200001 0 100001 0 | 1000 0 | 1.3725075
claude-sonnet-4-20250514 standard | 200001 0 0 1 | 1000 0 | -
claude-sonnet-4-20250514 batch | 10 0 0 0 | 1 0 | -
# claude-opus-4-1: 15, write 18.75, write for an hour 30, read 1.50, 75
claude-opus-4-1 standard | 2000 1000 500 250 | 100 0 | 0.029625
claude-opus-4-1 standard | 300000 0 0 0 | 0 0 | 4.5
# gemini/gemini-1.5-pro: 3.50, 10.50; above 128k: 7, 21; no cache prices
gemini/gemini-1.5-pro standard | 128000 0 0 0 | 2000 0 | 0.469
gemini/gemini-1.5-pro standard | 128001 0 0 0 | 2000 0 | 0.938007
gemini/gemini-1.5-pro standard | 128001 1 0 0 | 2000 0 | -
# gemini/gemini-2.5-pro: 1.25, 0.3125 cached, 10; above 200k: 2.50, no cached price, 15
gemini/gemini-2.5-pro standard | 200000 80000 0 0 | 1000 0 | 0.185
gemini/gemini-2.5-pro standard | 200001 0 0 0 | 1000 0 | 0.5150025
gemini/gemini-2.5-pro standard | 200001 1 0 0 | 1000 0 | -
# gemini/gemini-2.5-flash: 0.30, 0.03 cached, 2.50, reasoning 2.50
gemini/gemini-2.5-flash standard | 10000 5000 0 0 | 2000 1000 | 0.00665
# perplexity/sonar-deep-research: 2, 8, reasoning 3
perplexity/sonar-deep-research standard | 1000 0 0 0 | 3000 2000 | 0.016
# dashscope/qwen3-coder-plus by prompt: to 32k 1, 0.10 cached, 5; to 128k 1.80, 0.18, 9; to 256k 3, 0.30, 15;
# to 1M 6, 0.60, 60
dashscope/qwen3-coder-plus standard | 0 0 0 0 | 1 0 | 0.000005
dashscope/qwen3-coder-plus standard | 32000 2000 0 0 | 100 0 | 0.0307
dashscope/qwen3-coder-plus standard | 32001 0 0 0 | 100 0 | 0.0585018
dashscope/qwen3-coder-plus standard | 128000 28000 0 0 | 100 0 | 0.18594
dashscope/qwen3-coder-plus standard | 128001 0 0 0 | 100 0 | 0.385503
dashscope/qwen3-coder-plus standard | 256001 0 0 0 | 100 0 | 1.542006
dashscope/qwen3-coder-plus standard | 1000000 0 0 0 | 0 0 | 6
dashscope/qwen3-coder-plus standard | 1000001 0 0 0 | 0 0 | -
# dashscope/qwen-plus-latest: to 256k 0.40, 1.20, reasoning 4; to 1M 1.20, 3.60, reasoning 12
dashscope/qwen-plus-latest standard | 1000 0 0 0 | 1000 500 | 0.003
dashscope/qwen-plus-latest standard | 256001 0 0 0 | 1000 500 | 0.3150012
# others: 0.55 / 0.14 / 2.19; 0.05 / 0.08; 0.02, batch 0.01; 0.00625, batch 0.005; free; none
deepseek/deepseek-r1 standard | 1000 500 0 0 | 1000 0 | 0.002535
groq/llama-3.1-8b-instant standard | 1234 0 0 0 | 567 0 | 0.00010706
text-embedding-3-small standard | 8191 0 0 0 | 0 0 | 0.00016382
text-embedding-3-small batch | 8191 0 0 0 | 0 0 | 0.00008191
text-embedding-preview-0409 standard | 3 0 0 0 | 0 0 | 0.00000001875
text-embedding-preview-0409 batch | 3 0 0 0 | 0 0 | 0.000000015
perplexity/pplx-70b-online standard | 1000 0 0 0 | 1000 0 | 0.0078
ollama/llama3 standard | 1000 0 0 0 | 1000 0 | 0
heroku/claude-4-sonnet standard | 1000 0 0 0 | 1000 0 | -
heroku/claude-4-sonnet standard | 0 0 0 0 | 0 0 | -
"""

# Models with steps, tiers, cache and reasoning prices, and without; each is asked for every usage and tier below.
MODELS = (
    "gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-5", "gpt-5-mini", "o3", "o4-mini", "ft:gpt-3.5-turbo",
    "claude-sonnet-4-5", "claude-haiku-4-5", "gemini/gemini-1.5-flash-8b", "gemini-2.5-pro", "gemini/gemini-2.5-flash",
    "deepseek/deepseek-chat", "mistral/mistral-large-latest", "meta_llama/Llama-3.3-70B-Instruct",
)  # fmt: skip
TOKENS = (
    (1000, 0, 0, 200, 0), (127_999, 64_000, 0, 1, 0), (128_001, 0, 0, 77, 0), (200_000, 0, 1000, 3, 0),
    (200_001, 100_000, 0, 999, 500), (7, 7, 0, 0, 0),
)  # fmt: skip
TIERS = {"standard": "", "batch": "_batches", "flex": "_flex", "priority": "_priority"}
GRID = [(model, tier, tokens) for model in MODELS for tier in TIERS for tokens in TOKENS]


def rows() -> list[tuple[str, str, Usage, str]]:
    """The requests worked out by hand."""
    made = []
    for line in BY_HAND.strip().splitlines():
        if line.startswith("#"):
            continue
        who, prompt, answer, dollars = (part.split() for part in line.split("|"))
        inside = [int(count) for count in prompt]
        usage = Usage(inside[0], int(answer[0]), *inside[1:], reasoning_tokens=int(answer[1]))
        made.append((who[0], who[1], usage, dollars[0]))
    return made


@pytest.fixture(scope="module")
def prices() -> PriceMap:
    return read_map(MAP.read_bytes(), "m.json")


@pytest.fixture(scope="module")
def published() -> dict[str, Any]:
    """The map as another reader sees it."""
    read: dict[str, Any] = json.loads(MAP.read_text(), parse_float=Decimal)
    return read


def test_requests_cost_what_the_published_prices_say(prices: PriceMap) -> None:
    """To the pico-dollar, and unknown where a price is."""
    costs = [list_cost(prices, model, usage, tier) for model, tier, usage, _ in rows()]
    shown = [NONE if cost is None or cost.cost_pusd is None else cost.cost_pusd for cost in costs]

    assert len(shown) > 65
    assert shown == [NONE if said == NONE else int(Decimal(said) * 10**12) for *_, said in rows()]


def plainly(entry: dict[str, Any], tokens: tuple[int, ...], tier: str) -> Decimal | None:
    """The cost by looking fields up by name, in plain decimals; no table, no integers."""
    prompt, read, written, out, reasoning = tokens
    above = next(
        (f"_above_{n}k_tokens" for n in (200, 128)
         if prompt > n * 1000 and any(f"_above_{n}k_tokens" in name for name in entry)), ""
    )  # fmt: skip
    suffix = above + TIERS[tier]
    own = any(name.startswith("output_cost_per_reasoning_token") for name in entry)
    parts = [
        (prompt - read - written, entry.get("input_cost_per_token" + suffix)),
        (read, entry.get("cache_read_input_token_cost" + suffix)),
        (written, entry.get("cache_creation_input_token_cost" + suffix)),
        (out - reasoning, entry.get("output_cost_per_token" + suffix)),
        (reasoning, entry.get(("output_cost_per_reasoning_token" if own else "output_cost_per_token") + suffix)),
    ]
    if "input_cost_per_token" not in entry or any(count and price is None for count, price in parts):
        return None
    return sum((count * Decimal(price) for count, price in parts if count), Decimal(0))


def test_a_grid_of_requests_agrees_with_plain_decimals(prices: PriceMap, published: dict[str, Any]) -> None:
    """Every model with every usage in every tier; some are priced in each tier, and some in none."""
    ours, plain = [], []
    for model, tier, (prompt, read, written, out, reasoning) in GRID:
        usage = Usage(prompt, out, read, written, reasoning_tokens=reasoning)
        cost = list_cost(prices, model, usage, tier)
        assert cost is not None
        ours.append(cost.cost_pusd)
        exact = plainly(published[model], (prompt, read, written, out, reasoning), tier)
        plain.append(None if exact is None else int(exact * 10**12))

    assert len(GRID) > 200
    assert ours == plain
    assert {tier for (_, tier, _), cost in zip(GRID, ours, strict=True) if cost} == set(TIERS)


@pytest.mark.parametrize(
    ("model", "usage", "expected"),
    [
        pytest.param("whisper-1", Usage(billed_ms=90_500), 9_050_000_000, id="90.5 s at 0.0001, once"),
        pytest.param("deepgram/nova-3", Usage(billed_ms=1), 71_670, id="a millisecond"),
        pytest.param("whisper-1", Usage(10, 10), None, id="seconds not told"),
        pytest.param("cohere.rerank-v3-5:0", Usage(10, 0, queries=3), 6_000_000_000, id="3 searches at 0.002"),
        pytest.param("cohere.rerank-v3-5:0", Usage(10, 0), None, id="searches not told"),
        pytest.param("tts-1", Usage(input_characters=1_000), 15_000_000_000, id="1,000 characters at 15 a million"),
        pytest.param("medlm-large", Usage(5, 5, input_characters=2, output_characters=1), 25_000_000, id="5 and 15"),
        pytest.param("gemini/imagen-4.0-generate-001", Usage(output_images=2), 80_000_000_000, id="2 images"),
        pytest.param("mistral/mistral-ocr-latest", Usage(pages=4), 4_000_000_000, id="4 pages"),
        pytest.param("gpt-4o", Usage(10, 1, billed_ms=9, input_characters=9), 35_000_000, id="tokens, not seconds"),
        pytest.param("gpt-4o", Usage(10, 1, queries=1), None, id="searches without a price"),
        pytest.param("gpt-4o", Usage(10, None), None, id="output not told"),
        pytest.param("gpt-4o", Usage(None, 10), None, id="prompt not told"),
        pytest.param("gpt-4o", Usage(10, 10, cache_read_tokens=None), None, id="cached part not told"),
        pytest.param("claude-sonnet-4-5", Usage(None, 10), None, id="length of the prompt decides, and is not told"),
        pytest.param("text-embedding-3-small", Usage(10, None), 200_000, id="output costs nothing, however much"),
        pytest.param("perplexity/pplx-70b-online", Usage(0, 0, requests=None), None, id="requests not told"),
        pytest.param(
            "gpt-4o-audio-preview", Usage(100, 100, input_audio_tokens=50, output_audio_tokens=50),
            50 * 2_500_000 + 50 * 100_000_000 + 50 * 10_000_000 + 50 * 200_000_000, id="audio tokens",
        ),
        pytest.param("perplexity/sonar-deep-research", Usage(0, 0, citation_tokens=10), 20_000_000, id="citations"),
    ],
)  # fmt: skip
def test_what_is_not_priced_by_the_token(prices: PriceMap, model: str, usage: Usage, expected: int | None) -> None:
    """Seconds, searches, characters, images, pages; and what is not told."""
    cost = list_cost(prices, model, usage)

    assert cost is not None
    assert cost.cost_pusd == expected
    assert bool(cost.missing) == (expected is None)


def test_a_cost_shows_its_lines(prices: PriceMap) -> None:
    """With the field of the map; the missing one is named, and there is no sum."""
    assert list_cost(prices, "gpt-5-nano", Usage(10, 4, 2), "priority") == ListCost(
        "gpt-5-nano",
        "priority",
        (
            Line("input", 8, 2_500_000, 20_000_000, "input_cost_per_token_priority"),
            Line("cache_read", 2, None, None, None),
            Line("output", 4, None, None, None),
        ),
        None,
        (
            "cache_read: gpt-5-nano has no priority price for a prompt of this length",
            "output: gpt-5-nano has no priority price for a prompt of this length",
        ),
    )


def test_what_is_missing_says_why() -> None:
    """An unreadable price, an untold quantity, a model without any price."""
    model = Model(
        "m", "m.json:1", rates={Field("input"): Rate(None, "input_cost_per_token"), Field("output"): Rate(1, "o")}
    )

    assert cost_of(model, Usage(1, None)).missing == (
        "input: input_cost_per_token of m cannot be read",
        "output: how much was used is not told",
    )
    assert cost_of(Model("m", "m.json:1"), Usage(0, 0)).missing == ("m has no price in the map",)


@pytest.mark.parametrize(
    ("model", "provider", "expected"),
    [
        ("gpt-4o", None, "gpt-4o"),
        ("openai/gpt-4o", None, "gpt-4o"),
        ("azure/gpt-4o", None, "azure/gpt-4o"),
        ("gpt-4o", "azure", "gpt-4o"),
        ("gemini-2.5-pro", "gemini", "gemini-2.5-pro"),
        ("gemini-2.0-flash-exp", "gemini", "gemini/gemini-2.0-flash-exp"),
        ("groq/gpt-4o", None, None),
        ("GPT-4o", None, "gpt-4o"),
        ("together_ai/baai/bge-base-en-v1.5", None, "together_ai/baai/bge-base-en-v1.5"),
        ("together_ai/Baai/bge-base-en-v1.5", None, None),
        ("gpt-4o-2099-01-01", None, None),
        ("mine", None, "groq/llama-3.1-8b-instant"),
        ("sample_spec", None, None),
        ("", None, None),
    ],
)
def test_names_are_found_by_rule(prices: PriceMap, model: str, provider: str | None, expected: str | None) -> None:
    """Never another version, host or region; never one of two."""
    entry = found(prices, model, provider, {"mine": "groq/llama-3.1-8b-instant"})

    assert (entry and entry.key) == expected


def test_an_unknown_model_has_no_list_cost(prices: PriceMap) -> None:
    """None, not 0."""
    assert list_cost(prices, "nobody/nothing", Usage(1, 1)) is None


@pytest.mark.parametrize(
    "wrong",
    [{"input_tokens": -1}, {"input_tokens": 1, "cache_read_tokens": 2}, {"output_tokens": 1, "reasoning_tokens": 2}],
)
def test_usage_that_cannot_be_is_refused(wrong: dict[str, int]) -> None:
    """Parts above their total, and negative ones."""
    with pytest.raises(ValueError, match=r"negative|more than the tokens"):
        Usage(**wrong)


def test_nano_dollars_round_half_to_even() -> None:
    """Of a cost in pico-dollars."""
    assert [ListCost("m", "standard", (), pusd, ()).cost_nusd for pusd in (500, 501, 1_500, None)] == [0, 1, 2, None]


@given(st.lists(st.integers(0, 10**6), min_size=4, max_size=4), st.integers(2, 50))
def test_below_a_step_costs_are_additive(tokens: list[int], times: int) -> None:
    """A model without steps costs n times as much for n times the tokens."""
    rates = {Field(kind): Rate(price, kind) for kind, price in (("input", 3), ("cache_read", 1), ("output", 7))}
    model = Model("m", "m.json:1", rates=rates)
    fresh, read, out, thought = tokens
    one = cost_of(model, Usage(fresh + read, out + thought, read, reasoning_tokens=thought))
    many = cost_of(
        model, Usage(times * (fresh + read), times * (out + thought), times * read, reasoning_tokens=times * thought)
    )

    assert one.cost_pusd == 3 * fresh + read + 7 * (out + thought)
    assert many.cost_pusd == times * one.cost_pusd
