"""Usage rows: when the work of requests was done, by the minute, for the cost job.

A request that ended is spread over the minutes in which its tokens were computed (``why/costs.md``); rows of one key
and commit are added up. They travel on ``window.partials`` beside the partials of their commit, in the partition of
their ``placement_group``, where the GPU samples of that group are too. All columns but the minute and the key add;
null and a number make the number. They are no part of the books.
"""

from __future__ import annotations

from schemas.events.event_types import LLM_REQUESTS
from schemas.fields import Field, Kind, Role, Table

USAGE_OF = LLM_REQUESTS.topic
"""Source topic of usage."""

USAGE_KEY = ("engine_id", "placement_group", "host", "tenant", "model", "slo_class", "status")
"""What rows are merged by, beside the minute; the labels of the request, in wire order."""

USAGE_AMOUNTS = ("requests", "prefill_tokens", "cached_tokens", "decode_tokens", "kv_token_ms")
"""What adds. ``requests`` is never null."""


def _amount(name: str, unit: str, meaning: str) -> Field:
    return Field(name, Kind.OPTIONAL_INT64, Role.DIFFERENCE, unit, meaning)


USAGE = Table(
    "usage",
    "usage/1",
    "tokens and cache occupancy of requests, by the minute in which the work was done",
    (
        Field("window_ms", Kind.INT64, Role.TIME, "ms", "start of the minute, event time, UTC"),
        Field("requests", Kind.UINT64, Role.DIFFERENCE, "", "requests that ended in this minute"),
        _amount("prefill_tokens", "tokens", "prompt tokens computed, cached ones left out; null: not reported"),
        _amount("cached_tokens", "tokens", "prompt tokens served from the prefix cache; null: not reported"),
        _amount("decode_tokens", "tokens", "generated tokens; null: not reported"),
        _amount("kv_token_ms", "token-ms", "tokens in the KV cache, times how long; null: not reported"),
        Field("definition_version", Kind.UINT32, Role.ATTRIBUTE, "", "version of the metric definitions"),
        *(LLM_REQUESTS.field(name) for name in USAGE_KEY),
    ),
)
