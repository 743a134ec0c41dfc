"""Token usage and phase times that engines report, read field by field. What is no whole number >= 0 is unknown.

Field names of all engines stand in ``_FIELDS`` and ``_DETAILS``. Sources: OpenAI API reference (fields of chat, and of
responses, with ``prompt_tokens_details`` and their like); SGLang and vLLM use the same; DeepSeek
(``prompt_cache_hit_tokens``); xAI and Gemini (reasoning beside the output: the total says so); llama.cpp ``timings``;
Groq times in ``usage``; vLLM 0.32 ``metrics``
(``entrypoints/generate/base/serving.py``: with ``--enable-per-request-metrics``, for requests with one choice; its time
to first token counts from the moment the request was scheduled, which is our prefill).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any

from producers.requests import reasons
from producers.requests.chunk import EngineTimes, Usage

_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "prompt_tokens": "input",
        "input_tokens": "input",
        "completion_tokens": "output",
        "output_tokens": "output",
        "prompt_cache_hit_tokens": "cached",
        "reasoning_tokens": "reasoning",
    }
)
_DETAILS: Mapping[str, str] = MappingProxyType(
    {  # inside objects whose names end in _details
        "cached_tokens": "cached",
        "reasoning_tokens": "reasoning",
        "accepted_prediction_tokens": "speculative",
    }
)
_DRAFTS = (("timings", "draft_n_accepted"), ("metrics", "speculative_decoding", "num_accepted_draft_tokens"))
_OF_PROMPT = ("input", "cached")
_PARTS = (("cached", "input"), ("reasoning", "output"), ("speculative", "output"))
_TIMES: Mapping[str, tuple[tuple[str, str, float], ...]] = MappingProxyType(
    {  # (object, field, its unit in microseconds)
        "queue_us": (("metrics", "queue_time_ms", 1e3), ("usage", "queue_time", 1e6)),
        "prefill_us": (
            ("metrics", "time_to_first_token_ms", 1e3),
            ("timings", "prompt_ms", 1e3),
            ("usage", "prompt_time", 1e6),
        ),
        "decode_us": (
            ("metrics", "generation_time_ms", 1e3),
            ("timings", "predicted_ms", 1e3),
            ("usage", "completion_time", 1e6),
        ),
    }
)


def usage_of(reported: object) -> tuple[Usage | None, tuple[str, ...]]:
    """The usage, None where none was reported; and reasons of what could not be read."""
    if reported is None:
        return None, ()
    if not isinstance(reported, dict):
        return None, (reasons.USAGE_UNREADABLE,)
    values = _named(reported, _FIELDS)
    for name, inner in reported.items():
        if type(inner) is dict and name.endswith("_details"):
            values += _named(inner, _DETAILS)
    known = {name: value for name, value in values if type(value) is int and value >= 0}
    thought = known.get("reasoning", 0)
    if thought and reported.get("total_tokens") == known.get("input", 0) + known.get("output", 0) + thought:
        known["output"] = known.get("output", 0) + thought  # it is beside the output, not in it
    return (Usage(**known) if known else None), (reasons.USAGE_UNREADABLE,) if len(known) < len(dict(values)) else ()


def _named(reported: Mapping[str, Any], fields: Mapping[str, str]) -> list[tuple[str, Any]]:
    return [(fields[name], value) for name, value in reported.items() if name in fields and value is not None]


def engine_times_of(document: Mapping[str, Any]) -> EngineTimes | None:
    """Phases that the engine reports beside the usage; None where it reports none."""
    usage = document.get("usage")
    if not ("timings" in document or "metrics" in document or (isinstance(usage, dict) and "prompt_time" in usage)):
        return None
    known = {name: value for name, places in _TIMES.items() if (value := _time(document, places)) is not None}
    return EngineTimes(**known) if known else None


def _time(document: Mapping[str, Any], places: tuple[tuple[str, str, float], ...]) -> int | None:
    for outer, name, unit_us in places:
        reported = document.get(outer)
        value = reported.get(name) if isinstance(reported, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and 0 <= value < 1e9:
            return round(value * unit_us)
    return None


def usage_of_timings(document: Mapping[str, Any]) -> Usage | None:
    """Tokens that llama.cpp counts in ``timings``, of one choice; None where it does not. Its ``prompt_n`` leaves out
    what came from the cache (``cache_n``, which builds of 2024 do not say)."""
    timings = document.get("timings")
    if not isinstance(timings, dict):
        return None
    names = ("prompt_n", "cache_n", "predicted_n")
    counts = [value if type(value := timings.get(name)) is int and value >= 0 else None for name in names]
    new, cached, output = counts
    usage = Usage(None if new is None or cached is None else new + cached, cached, output)
    return None if usage == Usage() else usage


def drafts_of(document: Mapping[str, Any]) -> int | None:
    """Draft tokens that llama.cpp or vLLM accepted; None where it does not report them."""
    for path in _DRAFTS:
        value: object = document
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if type(value) is int and value >= 0:
            return value
    return None


def newer(before: Usage, after: Usage) -> Usage:
    """The latest value of each field."""
    if None not in after:
        return after
    return Usage(*(old if new is None else new for old, new in zip(before, after, strict=True)))


def whole_usage(
    reported: Mapping[int | None, Usage], choices_each: int | None = None, began: Iterable[int] = ()
) -> Usage:
    """The usage of a request: as reported for the whole request (None), else the sum over its choices.

    ``choices_each``: of how many choices in a row each prompt of several has; None where there is one prompt.
    ``began``: choices of which something came. Where one of them has no count, only that of the prompt is known.
    """
    of_choices = {choice: usage for choice, usage in reported.items() if choice is not None}
    summed = Usage()
    if of_choices:
        prompts: dict[int, dict[str, int]] = {}
        for choice, usage in of_choices.items():
            of_prompt = prompts.setdefault(choice // choices_each if choices_each else 0, {})
            for name in _OF_PROMPT:
                if (value := getattr(usage, name)) is not None:
                    of_prompt[name] = max(value, of_prompt.get(name, 0))
        found = {name: [each[name] for each in prompts.values() if name in each] for name in _OF_PROMPT}
        columns = dict(zip(Usage._fields, zip(*of_choices.values(), strict=True), strict=True))
        each_counted = of_choices.keys() >= set(began)
        summed = Usage(
            **{name: sum(values) if values else None for name, values in found.items()},
            **{name: _sum(values) for name, values in columns.items() if name not in _OF_PROMPT and each_counted},
        )
    return newer(summed, reported.get(None, Usage()))


def _sum(values: tuple[int | None, ...]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def contradictions(usage: Usage) -> list[str]:
    """Names of the parts that are above their whole."""
    return [
        part
        for part, whole in _PARTS
        if (of := getattr(usage, part)) is not None and (most := getattr(usage, whole)) is not None and of > most
    ]
