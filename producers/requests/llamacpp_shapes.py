"""Parser of llama.cpp's own ``/completions`` (without ``/v1``) into a ``Chunk``. Never raises on any JSON.

Each event of a stream has a piece of ``content`` and the counts so far; the last one has ``stop``, and none follows it.
Source: llama.cpp ``tools/server`` (``README.md``, ``POST /completion``; ``server_task_result_cmpl_final``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from producers.requests.chunk import CONTENT, Chunk, Part, Usage
from producers.requests.usage import drafts_of, engine_times_of

_CHOICES_MAX = 65_536


def is_native(document: Mapping[str, Any]) -> bool:
    """Whether it is an answer of this shape."""
    return type(document.get("stop")) is bool and isinstance(document.get("content"), str)


def native_chunk(document: Mapping[str, Any], *, whole: bool) -> Chunk:
    """One event of a stream, or a whole body."""
    timings, model = document.get("timings"), document.get("model")
    cached = timings.get("cache_n") if isinstance(timings, dict) else None
    index = _count(document.get("index")) or 0
    choice = index if index < _CHOICES_MAX else 0
    usage = Usage(
        _count(document.get("tokens_evaluated")),
        _count(cached),
        _count(document.get("tokens_predicted")),
        None,
        drafts_of(document),
    )
    limit = document.get("stop_type") == "limit" or document.get("stopped_limit") is True
    return Chunk(
        parts=(Part(choice, CONTENT, 0),) if document["content"] else (),
        finish_reasons=("length" if limit else "stop",) if document["stop"] else (),
        usage=None if usage == Usage() else usage,
        usage_of=None if whole else choice,
        engine_times=engine_times_of(document),
        model=model if isinstance(model, str) and model else None,
        done=whole,
        choices=1 if whole else None,
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and value >= 0 else None
