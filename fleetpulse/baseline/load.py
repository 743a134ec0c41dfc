"""Load of a baseline: the body of each request, and the point that a step's requests make. Pure.

Every prompt begins with words of its own, also of each run, so that no prefix cache can answer for the engine. A
request is measured by the tracker that measures requests of the fleet: TTFT, ITL and E2E mean the same in both.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from fleetpulse.baseline.curve import PERCENTILES, Latency, Point
from schemas import sketch

PHRASE_WORDS = 64
WORDS = (
    *("river", "stone", "morning", "engine", "paper", "copper", "window", "garden", "thunder", "market", "silver"),
    *("bridge", "winter", "letter", "orange", "harbour", "candle", "forest", "mirror", "signal", "valley", "button"),
)
PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def body(
    model: str, api: str, prompt_tokens: int, output_tokens: int, seed: int, *, ignore_eos: bool
) -> dict[str, Any]:
    """The request with this number, which begins with words of its own: about ``prompt_tokens`` of prompt (a word is
    about a token; what the engine counted is in the result) and exactly ``output_tokens`` of answer where the engine
    heeds ``ignore_eos``."""
    chosen, words = random.Random(seed), max(1, prompt_tokens)  # any words will do, the same for the same seed
    whole = max(0, words - PHRASE_WORDS) // PHRASE_WORDS
    begin = chosen.choices(WORDS, k=words - whole * PHRASE_WORDS)
    text = " ".join([*begin, *chosen.choices(_phrases(), k=whole)])
    request: dict[str, Any] = {
        "model": model,
        "max_tokens": output_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    request |= {"messages": [{"role": "user", "content": text}]} if api == "chat" else {"prompt": text}
    return request | ({"ignore_eos": True, "min_tokens": output_tokens} if ignore_eos else {})


@cache
def _phrases() -> tuple[str, ...]:
    """1,024 phrases of ``PHRASE_WORDS`` words, always the same. Prompts go on with them after words of their own: made
    word by word, a long one would hold up the event loop, which stamps what other streams bring."""
    chosen = random.Random(0)
    return tuple(" ".join(chosen.choices(WORDS, k=PHRASE_WORDS)) for _ in range(1_024))


def point(concurrency: int, rows: Sequence[Mapping[str, Any]], seconds: float) -> Point:
    """What the requests of one step show; ``rows`` are the tracker's, one for each that ended."""
    good = [row for row in rows if row["status"] == "ok"]
    bins = sketch.merge(*(row["itl_bins"] for row in good))
    return Point(
        concurrency=concurrency,
        requests=len(rows),
        failed=len(rows) - len(good),
        seconds=round(seconds, 3),
        requests_per_s=round(len(good) / seconds, 4),
        input_tokens_per_s=_rate(good, "input_tokens", seconds),
        output_tokens_per_s=_rate(good, "output_tokens", seconds),
        ttft_us=_exact(good, "ttft_us"),
        itl_us={name: _rounded(sketch.quantile(bins, q)) for name, q in PERCENTILES.items()},
        e2e_us=_exact(good, "e2e_us"),
    )


def _rate(rows: Sequence[Mapping[str, Any]], name: str, seconds: float) -> float | None:
    """Null where any request did not report it: a sum without it would be too small."""
    values = [row[name] for row in rows]
    return None if not values or None in values else round(sum(values) / seconds, 3)


def _exact(rows: Sequence[Mapping[str, Any]], name: str) -> Latency:
    values = sorted(row[name] for row in rows if row[name] is not None)
    return {each: _rounded(float(np.quantile(values, q)) if values else None) for each, q in PERCENTILES.items()}


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
